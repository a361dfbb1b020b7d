"""The schedule "threads": one thread of the operating system per core, a lock around every turn."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from xlab.kernels.machine.engine import quiet_context

if TYPE_CHECKING:
    from xlab.kernels.machine.running import Runner


def run_threads(machine: Runner) -> None:
    """Runs every core in a thread of its own. The log is in the order in which the lock was had; the turns are recorded."""
    turn = threading.Condition()
    failed: list[BaseException] = []

    def work(number: int) -> None:
        with quiet_context():
            while True:
                with turn:
                    core = machine.now.cores[number]
                    while not failed and not core.done and not machine.can_pass(core):
                        if not machine.runnable():
                            failed.append(machine.deadlock())
                            turn.notify_all()
                            return
                        turn.wait()
                    if failed or core.done:
                        turn.notify_all()
                        return
                    try:
                        machine.keep()
                        machine.take(core)
                    except BaseException as error:
                        failed.append(error)
                    turn.notify_all()
                time.sleep(0)  # lets another thread have the lock

    threads = [
        threading.Thread(target=work, args=(c.number,), daemon=True) for c in machine.now.cores
    ]
    for t in threads:
        t.start()
    try:
        for t in threads:
            while t.is_alive():
                t.join(0.1)
    except KeyboardInterrupt as error:
        with turn:
            failed.append(error)
            turn.notify_all()
        raise
    if failed:
        raise failed[0]
