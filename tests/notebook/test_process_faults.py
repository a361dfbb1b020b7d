"""What may happen to processes that run a notebook, each with the error's words and the seconds in which it has to be told.

After each the kernel computes, names are as they were unless the group is started anew, programs over both processes run again or the others
compute by themselves, and no process and no port is left (`groups.Before`).

| fault | error | told within | test |
|---|---|---|---|
| killed, also between collectives | ProcessLost: signal, where the rest is, end of its log | 10 s | test_a_process_that_ends |
| ends by itself | ProcessLost: exit code, end of its log | 10 s | test_a_process_that_ends |
| out of memory, by the system | ProcessLost: signal, and what it may mean | 15 s | test_a_process_that_the_system_ends_for_want_of_memory |
| no memory for an array | ProcessFailed: whose, how much | 10 s | test_processes_that_are_not_at_the_same_program |
| stopped | ProcessesLate: who is stopped | gate_timeout + 8 s | test_a_process_that_is_stopped |
| never there | ProcessLost, or ProcessesLate after start_timeout | 30 s | test_processes_that_never_come; of scripts: tests/parallel/test_rendezvous.py |
| late | ProcessesLate: who did not come where | gate_timeout + 8 s | test_processes_that_are_not_at_the_same_program; tests/parallel/test_gate.py |
| another program, order, shape, one more | ProcessesApart: who starts what, on which line | 10 s | test_processes_that_are_not_at_the_same_program |
| an error in one | ProcessFailed: whose, with its lines | 10 s | test_processes_that_are_not_at_the_same_program |
| interrupted at the gate, in Python | KeyboardInterrupt | 10 s | test_an_interrupt_at_the_gate_and_in_python |
| interrupted in a collective without end | KeyboardInterrupt: started anew | 40 s, the start included | test_an_interrupt_where_one_does_not_answer |
| a cell without end | ProcessesLate: where everybody is | its time limit + 8 s | test_a_time_limit_says_where_everybody_is |
| kernel killed or ended | all processes end | 10 s | test_no_process_outlives_the_kernel |
| kernel restarted under a running group | the same, and the next start works | 20 s | test_lab_processes.py |

The bounds are limits on waiting, with room for a loaded machine; alone each is told in a second or two after its deadline, if it has one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.notebook.groups import MARKS, SETUP, Before, alive, computes, gone, silent, within
from tests.parallel.workers import ROOT
from xlab.errors import ProcessesApart, ProcessesLate, ProcessFailed, ProcessLost
from xlab.notebook import processes

pytest.importorskip("ipyparallel")
pytestmark = MARKS


@pytest.mark.parametrize(
    ("cell", "kind", "words"),
    [
        ("if me == 1: raise ValueError('ill')\ny = x.sum()", ProcessFailed,
         ["process 1 of 2: ValueError: ill", "In[5], line 1: if me == 1", "process 0: ProcessesApart"]),
        ("y = x.max() if me == 0 else x.sum()", ProcessesApart,
         ["process 0 starts `max` (line 1 of In[5]", "process 1 starts `sum` (line 1 of In[5]", "Nothing was run"]),
        ("for f in (jnp.sum, jnp.max)[::1 - 2 * me]: f(x)", ProcessesApart, ["starts `sum`", "starts `max`"]),
        ("y = xlab.jit(lambda v: v.sum())(x + me * 0 if me else x)", ProcessesApart, ["starts", "Nothing was run"]),
        ("y = xlab.make_array_from_callback((8 + 8 * me,), x.sharding, lambda at: np.ones(8 + 8 * me, 'f')[at]).sum()", ProcessesApart,
         ["process 0 starts `sum`", "process 1 starts `sum`", "program ", "Nothing was run"]),
        ("y = x.sum()\nif me == 0: y = x.sum()", ProcessesApart, ["process 0 starts `sum` (line 2", "process 1 ended the cell after 1 program"]),
        ("if me == 0: time.sleep(3)\ny = x.sum()", ProcessesLate, ["process 0 did not come to `sum`", "within 1.5 s"]),
        ("y = xlab.device_put(np.ones(2 + me), NamedSharding(mesh, P()))", ProcessFailed,
         ["processes 0, 1 of 2: AssertionError", "not the same in every process"]),
        ("y = np.ones(1 << 50) if me else x.sum()", ProcessFailed, ["process 1 of 2", "MemoryError", "process 0: ProcessesApart"]),
        ("y = jnp.ones(1 << 44) if me else x.sum()", ProcessFailed, ["process 1 of 2", "Out of memory allocating", "process 0: ProcessesApart"]),
    ],
)  # fmt: skip
def test_processes_that_are_not_at_the_same_program(group, cell, kind, words):
    before = Before(group)
    with within(10), pytest.raises(kind) as told:
        group.run(cell, number=5)
    assert all(w in str(told.value) for w in words), told.value
    before.unharmed()


@pytest.fixture
def interrupts():
    """An interrupt is an error in Python, as in a kernel, also where what runs the tests was told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_at_the_gate_and_in_python(group, interrupts):
    for cell in ("if me == 0: time.sleep(50)\ny = x.sum()", "time.sleep(50)"):
        before = Before(group)
        group.options["gate_timeout"] = 40
        timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with within(10), pytest.raises(KeyboardInterrupt, match="was interrupted in all processes"):
            group.run(cell, number=6)
        timer.join()
        group.options["gate_timeout"] = 1.5
        before.unharmed()


def test_an_interrupt_where_one_does_not_answer(group, interrupts, monkeypatch):
    """Without a gate, in a collective that the other one does not come to."""
    before = Before(group)
    monkeypatch.setitem(group.options, "gate", "off")
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with within(40), pytest.raises(KeyboardInterrupt, match="answered within 2 s, so they were started anew and their names are gone"):  # fmt: skip
        group.run("y = x.sum() if me else signal.pthread_sigmask(signal.SIG_BLOCK, [2]) or time.sleep(50)")  # fmt: skip
    timer.join()
    assert gone(before.pids) and silent(before.address)
    group.run(SETUP)
    assert computes(group)


def test_a_time_limit_says_where_everybody_is(group):
    before = Before(group)
    with (
        within(9),
        pytest.raises(ProcessesLate, match=r"In\[8\] did not end within 1 s.*process 0: .*In\[8\]"),
    ):
        group.run("time.sleep(4)", number=8, timeout=1)
    group.interrupt()
    before.unharmed()


@pytest.mark.parametrize(
    ("who", "how", "words"),
    [
        (0, "threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()", ["signal SIGKILL", "where memory is short"]),
        (1, "os.write(2, b'no more\\n'); os._exit(3)", ["exit code 3", "process 1 wrote last:\n", "  no more"]),
    ],
)  # fmt: skip
def test_a_process_that_ends(group, who, how, words):
    before = Before(group)
    cell = f"if me == {who}: {how}\nwhile True: y = x.sum()"
    with (
        within(10),
        pytest.raises(ProcessLost, match=f"process {who} of 2 ended during In") as told,
    ):
        group.run(cell, number=9)
    assert all(w in str(told.value) for w in words), told.value
    assert f"process {1 - who}: " in str(told.value)
    with within(5), pytest.raises(ProcessLost, match="before the cell"):
        group.run("x.sum()")
    before.lost(who)


@contextlib.contextmanager
def little_memory(pid: int):
    """A process gets so little memory that the system ends it when it asks for a hundred megabytes more."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):  # fmt: skip
        folder = Path(root, f"xlab-test-{os.getpid()}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            try:
                if not Path(folder, limit).exists():
                    continue
                Path(folder, limit).write_text(str(64 << 20))
                Path(folder, "cgroup.procs").write_text(str(pid))
            except OSError:
                continue
            yield
            return
        finally:
            gone([pid])
            folder.rmdir()
    pytest.skip("the memory of a process cannot be limited here")


def test_a_process_that_the_system_ends_for_want_of_memory(group):
    before = Before(group)
    with little_memory(group.members[1]["pid"]):
        with within(15), pytest.raises(ProcessLost, match=r"process 1 of 2 ended during In\[1\]: signal SIGKILL, which is also what the system sends where memory is short"):  # fmt: skip
            group.run("rows = [np.ones(1 << 22) for _ in range(64 * me)]\ny = x.sum()")
    before.lost(1)


def test_a_process_that_is_stopped(group):
    before, pid = Before(group), group.members[1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        with (
            within(10),
            pytest.raises(ProcessesLate, match=r"process 1: stopped|process 1 did not come"),
        ):
            group.run("y = x.sum()", timeout=4)
    finally:
        os.kill(pid, signal.SIGCONT)
    before.unharmed()


def test_processes_that_never_come(monkeypatch):
    """They end before they are there, or nothing is heard of them."""
    monkeypatch.setattr(processes, "_current", None)
    python = [sys.executable, "-c"]
    for does, limit, kind, words in (
        ("import sys; sys.exit('no such module')", 60, ProcessLost, "before the start: exit code 1.*no such module"),
        ("import time; time.sleep(300)", 0.5, ProcessesLate, r"0 of 2 processes started within 0.5 s \(start_timeout\)"),
    ):  # fmt: skip
        made = []
        monkeypatch.setattr(
            processes.machine, "Reaper", lambda f: made.append(REAPER(f)) or made[0]
        )
        with within(30), pytest.raises(kind, match=f"(?s){words}"):
            processes.start(2, start_timeout=limit, launcher={"engine_cmd": [*python, does]})
        assert processes.current() is None and gone([made[-1].pid])


REAPER = processes.machine.Reaper

KERNEL = """
import os, signal, sys
from xlab.notebook import processes
group = processes.start(1)
print(*group._pids, group._reaper.pid, flush=True)
print(group._engines.folder, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["killed", "ends"])
def test_no_process_outlives_the_kernel(how):
    done = subprocess.run(
        [sys.executable, "-c", KERNEL, how],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    *pids, folder = done.stdout.split()
    pids = list(map(int, pids))
    assert len(pids) >= 3 and done.returncode == (-9 if how == "killed" else 0), done
    assert gone(pids), [p for p in pids if alive(p)]
    assert not os.path.exists(folder)
