"""Cells in two processes: one group for all tests of this file, real processes, faults and all.

What may happen, and the tests of it. After each the kernel is alive, names are as they were unless the group is started anew, programs over both
processes run again, and no process and no port is left. The limits are in the tests.

| fault | error | test |
|---|---|---|
| killed, out of memory | ProcessLost: signal, where the rest is, end of its log | test_a_process_that_ends |
| ends by itself | ProcessLost: exit code, end of its log | test_a_process_that_ends |
| stopped | ProcessesLate: who is stopped | test_a_process_that_is_stopped |
| never there | ProcessLost or ProcessesLate at the start | test_processes_that_never_come; of scripts: tests/parallel/test_rendezvous.py |
| late | ProcessesLate: who did not come where | test_processes_that_are_not_at_the_same_program |
| another program, order, shape, one more | ProcessesApart: who starts what, on which line | test_processes_that_are_not_at_the_same_program |
| an error in one, no memory for an array | ProcessFailed: whose, with its lines | test_processes_that_are_not_at_the_same_program |
| interrupted at the gate, in Python | KeyboardInterrupt | test_an_interrupt_at_the_gate_and_in_python |
| a cell without end | ProcessesLate: where everybody is | test_a_time_limit_says_where_everybody_is |
| kernel killed, restarted or ended | all processes end | test_no_process_outlives_the_kernel |
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tests.parallel.workers import ROOT
from xlab.errors import ProcessesApart, ProcessesLate, ProcessFailed, ProcessLost
from xlab.notebook import in_processes, processes

pytest.importorskip("ipyparallel")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("processes"),
    # What ipyparallel and the event loops it starts do when a group ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SETUP = """
import os, signal, time
import numpy as np
import xlab, xlab.numpy as jnp
from xlab.sharding import NamedSharding, P
me = xlab.process_index()
mesh = xlab.make_mesh((4,), ("x",))
x = xlab.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda at: np.arange(8, dtype=np.float32)[at])
kept = 7
"""
LIMIT = 60


@pytest.fixture(scope="module")
def started():
    """Started while interrupts are ignored, as under a server that a script put in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        group = processes.start(2, devices=2, timeout=LIMIT, gate_timeout=1.5, collective_timeout=5)
    finally:
        signal.signal(signal.SIGINT, before)
    yield group
    group.stop()


@pytest.fixture
def group(started):
    """The group with the names of SETUP; one that a test broke is started anew."""
    if not started.members or started._gone():
        started.restart()
    if "mesh" not in started.run("print(sorted(globals()))")[0]["stdout"]:
        started.run(SETUP)
    return started


def computes(group) -> bool:
    """Whether the names are there and programs over both processes run."""
    answers = group.run("print(float(x.sum()), kept)")
    return [a["stdout"] for a in answers] == ["28.0 7\n"] * 2


def gone(pids, seconds=10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(_alive(p) for p in pids):
            return True
        time.sleep(0.05)
    return False


def listening(address) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def _alive(pid) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_cells_values_and_what_is_written(group, capsys):
    answers = group.run("print(me, flush=True)\nxlab.device_count()")
    assert [a["stdout"] for a in answers] == ["0\n4\n", "1\n4\n"]
    assert [a["error"] for a in answers] == [None, None]
    in_processes.display(answers)
    assert capsys.readouterr().out == "[0] 0\n[0] 4\n[1] 1\n[1] 4\n"
    in_processes.display(group.run("print('same')"))
    assert capsys.readouterr().out == "same\n"
    assert group["x"].tolist() == list(range(8))
    assert group["kept"] == 7
    assert group["me"] == [0, 1]
    assert [a["index"] for a in group.run("only = 1", processes=[1])] == [1]
    assert "idle" in repr(group) and "2 processes with 4 devices" in repr(group)


def test_a_jitted_cell_leaves_names_and_one_report(group):
    answers = group.run("total = (x * 2).sum()\n", magic=("xjit", ""), number=3)
    (report,) = in_processes.records(answers)
    assert report.title == "In[3]" and report.transfers
    assert not [n for n in report.notices if "process 1" in n.text]
    assert float(group["total"]) == 56.0
    (name, mark, _), *_ = answers[0]["programs"]
    assert name and mark == answers[1]["programs"][0][1]


def test_other_magics_run_there(group):
    answers = group.run("", magic=("xshard", "x"))
    (layout,) = in_processes.records(answers)
    assert "process" in str(layout) or "device" in str(layout)


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
    ],
)  # fmt: skip
def test_processes_that_are_not_at_the_same_program(group, cell, kind, words):
    begun = time.monotonic()
    with pytest.raises(kind) as told:
        group.run(cell, number=5)
    assert time.monotonic() - begun < 15
    assert all(w in str(told.value) for w in words), told.value
    assert computes(group)


@pytest.fixture
def interrupts():
    """An interrupt is an error in Python, as in a kernel, also where what runs the tests was told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_at_the_gate_and_in_python(group, interrupts):
    for cell in ("if me == 0: time.sleep(50)\ny = x.sum()", "time.sleep(50)"):
        group.options["gate_timeout"] = 40
        timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt, match="was interrupted in all processes"):
            group.run(cell, number=6)
        assert time.monotonic() - begun < 20
        timer.join()
        group.options["gate_timeout"] = 1.5
        assert computes(group)


def test_a_time_limit_says_where_everybody_is(group):
    with pytest.raises(
        ProcessesLate, match=r"In\[8\] did not end within 1 s.*process 0: .*In\[8\]"
    ):
        group.run("time.sleep(4)", number=8, timeout=1)
    group.interrupt()
    assert computes(group)


@pytest.mark.parametrize(
    ("who", "how", "words"),
    [
        (0, "os.kill(os.getpid(), signal.SIGKILL)", ["signal SIGKILL", "where memory is short"]),
        (1, "os.write(2, b'no more\\n'); os._exit(3)", ["exit code 3", "process 1 wrote last:\n", "  no more"]),
    ],
)  # fmt: skip
def test_a_process_that_ends(group, who, how, words):
    pids = list(group._pids)
    begun = time.monotonic()
    with pytest.raises(ProcessLost, match=f"process {who} of 2 ended during In") as told:
        group.run(f"if me == {who}: {how}\ny = x.sum()", number=9)
    assert time.monotonic() - begun < 15
    assert all(w in str(told.value) for w in words), told.value
    assert f"process {1 - who}: " in str(told.value)
    # The other one still computes, by itself.
    other = 1 - who
    left = group._client[group.members[other]["engine"]]
    assert left.apply_async(np.add, 1, 2).get(timeout=20) == 3
    with pytest.raises(ProcessLost, match="before the cell"):
        group.run("x.sum()")
    address = group.address
    group.restart()
    assert gone(pids)
    assert not listening(address) and listening(group.address)
    group.run(SETUP)
    assert computes(group)


def test_a_process_that_is_stopped(group):
    pid = group.members[1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ProcessesLate, match=r"process 1: stopped|process 1 did not come"):
            group.run("y = x.sum()", timeout=4)
    finally:
        os.kill(pid, signal.SIGCONT)
    group.run("pass")
    assert computes(group)


def test_processes_that_never_come(monkeypatch):
    """They end before they are there, or nothing is heard of them; a group that was there before is stopped."""
    python = [sys.executable, "-c"]
    for does, limit, kind, words in (
        ("import sys; sys.exit('no such module')", 60, ProcessLost, "before the start: exit code 1.*no such module"),
        ("import time; time.sleep(300)", 0.5, ProcessesLate, r"0 of 2 processes started within 0.5 s \(start_timeout\)"),
    ):  # fmt: skip
        made = []
        monkeypatch.setattr(
            processes.machine, "Reaper", lambda f: made.append(REAPER(f)) or made[0]
        )
        begun = time.monotonic()
        with pytest.raises(kind, match=f"(?s){words}"):
            processes.start(2, start_timeout=limit, launcher={"engine_cmd": [*python, does]})
        assert time.monotonic() - begun < 30
        assert processes.current() is None and gone([made[-1].pid])


REAPER = processes.machine.Reaper

REMOTE = """
import xlab
from ipyparallel.cluster.launcher import LocalEngineSetLauncher
from xlab.notebook import processes
group = processes.start(2, devices=2, engines=LocalEngineSetLauncher)  # as if the engines were elsewhere
print(group.address.rpartition(":")[0] != "", [len(m["devices"]) for m in group.members])
group.run('''
import xlab, numpy as np
from xlab.sharding import NamedSharding, P
rows = NamedSharding(xlab.make_mesh((4,), ("x",)), P("x"))
y = float(xlab.make_array_from_callback((4,), rows, lambda at: np.arange(4.0, dtype=np.float32)[at]).sum())
''', timeout=60)
print(group["y"], ["alive" in line or "idle" in line for line in group.where()])
group.stop()
"""


def test_engines_that_another_launcher_starts():
    done = subprocess.run(
        [sys.executable, "-c", REMOTE],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout == "True [2, 2]\n6.0 [True, True]\n", done


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
    assert gone(pids), [p for p in pids if _alive(p)]
    assert not os.path.exists(folder)


def test_bad_options():
    for given, words in (
        ({"count": 0}, "at least one process"),
        ({"devices": 0}, "at least one device"),
        ({"gate": "sometimes"}, "'launch', 'compile' or 'off'"),
    ):
        with pytest.raises(ValueError, match=words):
            processes.start(**given)


def test_a_launcher_that_says_nothing_of_its_engines():
    """As those of MPI and of batch systems, while their processes run."""
    assert processes.machine.endings(SimpleNamespace(stop_data=None)) == {}
    ended = {"engines": {"0": {"pid": 7, "exit_code": -9}}}
    told = SimpleNamespace(stop_data=ended, outputs={"0": "out of luck\n"}, launchers={})
    assert processes.machine.endings(told) == {7: (-9, ["out of luck"])}


def test_magics_of_a_notebook(group, shell, capsys):
    assert processes.current() is group
    shell.run_line_magic("load_ext", "xlab")
    shell.run_cell("%%xall\nthree = 3\nprint('me', me)").raise_error()
    assert capsys.readouterr().out == "[0] me 0\n[1] me 1\n"
    ill = shell.run_cell("%%xall\n\nif me: raise ValueError('ill')").error_in_exec
    assert isinstance(ill, ProcessFailed) and ", line 3: if me: raise ValueError('ill')" in str(ill)
    capsys.readouterr()
    shell.run_cell("%xall --process 1 print(three)").raise_error()
    assert capsys.readouterr().out == "3\n"
    shell.run_cell("%%xjit\ntripled = x.sum() * three").raise_error()
    assert "all-reduce" in capsys.readouterr().out
    assert float(group["tripled"]) == 84.0
    shell.run_cell("import xlab.numpy as jnp\nmine = jnp.ones(3)").raise_error()
    shell.run_cell("%%xjit --here\nmine = mine + 1").raise_error()
    assert "tripled" not in shell.user_ns and shell.user_ns["mine"].tolist() == [2, 2, 2]
    capsys.readouterr()
    shell.run_cell("%xprocesses").raise_error()
    assert "process 1: idle" in capsys.readouterr().out
    assert isinstance(shell.run_cell("%xprocesses some").error_in_exec, ValueError)
    found = shell.run_cell("%%xjit\nraise_ = x.sum() if me else x.max()").error_in_exec
    assert isinstance(found, (ProcessesApart, ProcessFailed))
    assert computes(group)
