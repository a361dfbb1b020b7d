"""What launchers set in the environment, and what comes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.parallel.workers import ROOT
from xlab.parallel import launchers


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("n[001-004,7],m", "n001"),
        ("n[3]", "n3"),
        ("rack[2-3]-node[10,12].lab", "rack2-node10.lab"),
        ("a-b,c[1-2]", "a-b"),
    ],
)
def test_the_first_host(hosts, first):
    assert launchers.first_host(hosts) == first


STEP = {"SLURM_JOB_ID": "70001", "SLURM_STEP_NODELIST": "n[3-4]", "SLURM_NTASKS": "9", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2"}  # fmt: skip
ORTE = {"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
        "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911"}  # fmt: skip
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "3", "HOSTNAME": "train-3.train.lab.svc"}  # fmt: skip


@pytest.mark.parametrize(
    ("read", "env", "place"),
    [
        (launchers.slurm, STEP, (f"n3:{61440 + 70001 % 4096}", 4, 2)),
        (launchers.slurm, {"SLURM_NTASKS": "2", "SLURM_PROCID": "1"}, (None, 2, 1)),
        (launchers.slurm, {"SLURM_NTASKS": "2"}, None),
        (launchers.open_mpi, ORTE, (f"10.96.0.1:{61440 + 1531576320 % 4096}", 8, 5)),
        (launchers.open_mpi, {"OMPI_COMM_WORLD_SIZE": "8"}, None),
        (launchers.mpich, {"PMI_RANK": "1", "PMI_SIZE": "2"}, (None, 2, 1)),
        (launchers.kubernetes, {"JOB_COMPLETION_INDEX": "1"}, None),
        (launchers.mpi4py, {}, None),
    ],
)
def test_places(read, env, place):
    assert read(env) == place


def test_all_of_one_machine_agree_on_a_port():
    here = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "prterun-h-17@1"}  # fmt: skip
    found = [launchers.open_mpi({**here, "OMPI_COMM_WORLD_RANK": str(i)}) for i in range(2)]
    assert found[0][0] == found[1][0]
    host, _, port = found[0][0].partition(":")
    assert host == "127.0.0.1" and 61440 <= int(port) < 65536
    assert [f[1:] for f in found] == [(2, 0), (2, 1)]
    local = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
    assert launchers.mpich(local)[0].startswith("127.0.0.1:")


def test_pods_of_an_indexed_job():
    address, count, index = launchers.kubernetes(POD)
    assert (count, index) == (None, 3)
    assert address.startswith("train-0.train.lab.svc:")
    assert address == launchers.kubernetes({**POD, "JOB_COMPLETION_INDEX": "0", "HOSTNAME": "train-0.train.lab.svc"})[0]  # fmt: skip


def test_who_is_asked(monkeypatch):
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in STEP.items():
        monkeypatch.setenv(name, value)
    assert launchers.place(None) == launchers.place("slurm") == launchers.slurm(STEP)
    assert launchers.place("ompi") == launchers.place("deactivate") == (None, None, None)


SRUN = r"""#!/bin/bash
# srun of a machine without Slurm: the tasks of a step, with the variables that srun sets.
tasks=$1; shift
for ((i = 0; i < tasks; i++)); do
  SLURM_JOB_ID=$$ SLURM_STEP_NODELIST=localhost SLURM_STEP_NUM_TASKS=$tasks SLURM_PROCID=$i SLURM_LOCALID=$i "$@" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || exit 1; done
"""

TASK = r"""
import xlab
xlab.distributed.initialize(initialization_timeout=60)
print(f"{xlab.process_count()} {xlab.device_count()}\n", end="", flush=True)
"""


@pytest.mark.slow
def test_a_step_of_slurm_needs_no_arguments(tmp_path):
    srun = tmp_path / "srun"
    srun.write_text(SRUN)
    srun.chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "OMPI", "PMI"))}
    done = subprocess.run(
        [srun, "2", sys.executable, "-c", TASK],
        env={**clean, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "2"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout) == (0, "2 4\n" * 2), done


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("mpiexec") is None, reason="no MPI is installed here (apt-get install mpich)"
)
def test_processes_of_mpiexec_need_no_arguments():
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "OMPI", "PMI"))}
    done = subprocess.run(
        ["mpiexec", "-n", "2", sys.executable, "-c", TASK],
        env={**clean, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "2"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout) == (0, "2 4\n" * 2), done
