"""Runs long native calls in a thread of their own, so that an interrupt cannot end them halfway.

The native compiler checks for signals while its own threads work, and an interrupt there frees the module they use: the process would
die. The main thread therefore waits for a thread that no signal reaches; interrupted, it goes on at once and what is compiled is dropped.

>>> run_uninterruptible(lambda x: x + 1, 2)
3
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def run_uninterruptible(call: Callable[..., Any], *args: Any) -> Any:
    """`call(*args)`, out of reach of signals."""
    if threading.current_thread() is not threading.main_thread():
        return call(*args)  # signals are the main thread's
    found: list[Any] = []
    done = threading.Event()

    def run() -> None:
        try:
            found.append((call(*args), None))
        except BaseException as error:
            found.append((None, error))
        finally:
            done.set()

    threading.Thread(target=run, name="xlab compile").start()
    done.wait()  # not `join`: interrupted, it takes the thread for ended, and the process would not wait for it at its end
    result, error = found.pop()
    if error is not None:
        raise error
    return result
