"""Processes that Slurm starts, on this very machine: a controller, a node and a key of the test's own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebook.groups import MARKS, SETUP, gone
from tests.parallel.workers import ROOT
from tests.waiting import becomes
from xlab.errors import ProcessesLate, ProcessLost
from xlab.notebook import processes
from xlab.parallel.group import free_address

pytest.importorskip("ipyparallel")
pytestmark = [
    *MARKS,
    pytest.mark.skipif(
        not all(map(shutil.which, ("sbatch", "slurmctld", "slurmd", "munged"))) or os.getuid() != 0,
        reason="no Slurm is installed here (apt-get install slurm-wlm), or its node may not be started",
    ),
]
SETTINGS = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/node.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES State=UP
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A cluster of one node with four processors."""
    folder = tmp_path_factory.mktemp("slurm")
    ports = [free_address().rpartition(":")[2] for _ in range(2)]
    settings = folder / "slurm.conf"
    settings.write_text(SETTINGS.format(folder=folder, ports=ports, host=socket.gethostname()))
    key = folder / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
             f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, (folder / "log").open("w") as log:
        patch.setenv("SLURM_CONF", str(settings))
        running = []
        for command in (munge, ["slurmctld", "-D"], ["slurmd", "-D"]):
            running.append(subprocess.Popen(command, stdout=log, stderr=log))
            # Each is asked by the next.
            assert becomes(Path(folder, "munge.socket").exists, 20)
        assert becomes(lambda: "idle" in _said("sinfo", "--noheader"), 20)
        yield
        for process in reversed(running):
            process.terminate()
            process.wait(20)


def _said(*command, **more) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=100, **more).stdout


def test_cells_in_processes_of_a_job(slurm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # As if the node were another machine: what is known of its processes, their engines tell.
    monkeypatch.setattr(processes.machine, "own_name", lambda: "login")
    group = processes.start(2, devices=2, engines="slurm", env={"OVER_THERE": "yes"}, timeout=60)
    try:
        assert _said("squeue", "--noheader", "--format=%T %C").split() == ["RUNNING", "2"]
        group.run(SETUP + "there = os.environ['OVER_THERE'] + os.environ['SLURM_PROCID']")
        answers = group.run("print(float(x.sum()))")
        assert [a["stdout"] for a in answers] == ["28.0\n"] * 2
        assert sorted(group["there"]) == ["yes0", "yes1"]
        with pytest.raises(ProcessLost, match="process 1 of 2 ended during"):
            group.run("if me == 1: os.kill(os.getpid(), signal.SIGKILL)\ny = x.sum()")
        pids = [m["pid"] for m in group.members]
    finally:
        group.stop()
    assert gone(pids) and not list(tmp_path.iterdir())
    assert becomes(lambda: not _said("squeue", "--noheader"), 20)


@pytest.mark.parametrize(
    ("count", "launcher", "kind", "words"),
    [
        (9, {}, ProcessesLate, r"0 of 9 processes started within 3 s \(start_timeout\). Slurm says of its job: PENDING"),
        (2, {"engine_cmd": ["sh", "-c", "echo no such module; exit 3"]}, ProcessLost, "before the start: (?s:.*)no such module"),
    ],
)  # fmt: skip
def test_a_job_that_waits_or_ends_leaves_nothing(slurm, count, launcher, kind, words):
    home = sorted(Path.home().iterdir())
    with pytest.raises(kind, match=words):
        processes.start(count, engines="slurm", launcher=launcher, start_timeout=3 if count > 4 else 60)  # fmt: skip
    assert becomes(lambda: not _said("squeue", "--noheader"), 20)
    assert processes.current() is None and sorted(Path.home().iterdir()) == home


SCRIPT = """
import numpy as np
import xlab
from xlab.sharding import NamedSharding, P
xlab.distributed.initialize()
n = xlab.device_count()
rows = NamedSharding(xlab.make_mesh((n,), ("data",)), P("data"))
x = xlab.make_array_from_callback((n,), rows, lambda at: np.arange(n, dtype=np.float32)[at])
print("told", xlab.process_index(), xlab.process_count(), float(x.sum()), flush=True)
"""


def test_a_script_needs_no_arguments(slurm, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "2"}
    said = _said("srun", "--ntasks=3", sys.executable, str(tmp_path / "train.py"), env=env)
    assert sorted(x for x in said.splitlines() if x.startswith("told")) == [f"told {k} 3 15.0" for k in range(3)]  # fmt: skip
