"""Cells in two processes, values that they have, magics there, and who starts them. What may go wrong is in `test_process_faults.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.notebook.groups import MARKS, SETUP, computes, gone
from tests.parallel.workers import ROOT
from xlab.errors import ProcessesApart, ProcessesLate, ProcessFailed
from xlab.notebook import in_processes, processes

pytest.importorskip("ipyparallel")
pytestmark = MARKS


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


def test_a_gate_before_first_starts_alone(group, monkeypatch):
    """A program that is known is not asked about; a new one is, and other programs are told apart."""
    monkeypatch.setitem(group.options, "gate", "compile")
    cell = "f = xlab.jit(lambda v: v.sum() * 3)\nfor _ in range(5): y = f(x)\nprint(float(y))"
    (first, _), (again, _) = group.run(cell), group.run(cell.partition("\n")[2])
    assert first["stdout"] == again["stdout"] == "84.0\n"
    assert len(first["programs"]) == 1 and not again["programs"]
    with pytest.raises(ProcessesApart, match="process 0 starts `ours`.*process 1 starts `theirs`"):
        group.run(
            "def ours(v): return v.max() + 1\ndef theirs(v): return v.min() + 1\ny = xlab.jit(theirs if me else ours)(x)"
        )
    assert computes(group)


def test_repeats_whose_time_is_taken_are_not_asked_about(group):
    answers = group.run(
        "from xlab.compile import launching\n"
        "f = xlab.jit(lambda v: v.sum() * 5)\n"
        "y = f(x)\n"
        "with launching.ungated():\n"
        "    for _ in range(5): y = f(x)\n"
        "print(float(y), launching.gate is not None)"
    )
    assert [a["stdout"] for a in answers] == ["140.0 True\n"] * 2
    assert [len(a["programs"]) for a in answers] == [1, 1]


def test_engines_that_are_there_already(monkeypatch):
    """A client's engines run on when the group has ended; a cluster is started, and ends with the group."""
    import ipyparallel

    monkeypatch.setattr(processes, "_current", None)  # the one of other tests stays

    cell = SETUP.replace("(4,)", "(2,)") + "print(float(x.sum()), os.environ['GIVEN'])"
    options = {"timeout": 60, "env": {"GIVEN": "yes"}}
    cluster = ipyparallel.Cluster(
        n=2, delay=0, log_level=40, controller_args=["--HeartMonitor.period=500"]
    )
    group = processes.start(2, engines=cluster, **options)
    try:
        assert [a["stdout"] for a in group.run(cell)] == ["28.0 yes\n"] * 2
        pids = [m["pid"] for m in group.members]
    finally:
        group.stop()
    assert gone(pids) and cluster.controller is None
    cluster.start_cluster_sync()
    client = cluster.connect_client_sync()
    try:
        group = processes.start(2, engines=client, **options)
        assert [a["stdout"] for a in group.run(cell)] == ["28.0 yes\n"] * 2
        assert all("idle" in line for line in group.where())
        pids = [m["pid"] for m in group.members]
        with pytest.raises(ValueError, match="the engines of a Client are not ours to start"):
            group.restart()
        group.stop()
        assert client[:].apply_sync(os.getpid) == pids and not group.members
        with pytest.raises(ProcessesLate, match="2 of 3 processes started within 0.1 s"):
            processes.start(3, engines=client, start_timeout=0.1)
        assert client[:].apply_sync(os.getpid) == pids
    finally:
        cluster.stop_cluster_sync()
