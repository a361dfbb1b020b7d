"""What launchers of parallel programs say in the environment: where process 0 is, how many processes there are, and which this one is.

Sources: the manual pages of Slurm's `srun` (output environment variables), of Open MPI's and MPICH's `mpirun`, and Kubernetes' documents of
indexed Jobs and of JobSets.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module

Place = tuple[str | None, int | None, int | None]
"""Address, number of processes, number of this one; None for what a launcher does not say."""

_FIRST_PORT, _PORTS = 61440, 4096  # the upper end of the dynamic ports, where little else listens


def _port(job: str) -> int:
    """A port that all processes of a job know, and that two jobs of one machine seldom share."""
    number = int(job) if job.isdigit() else zlib.crc32(job.encode())
    return _FIRST_PORT + number % _PORTS


def first_host(hosts: str) -> str:
    """The first machine of a list as Slurm writes it.

    >>> first_host("node[07-09,12],gpu3"), first_host("login.cluster,n2"), first_host("r[1-2]n[3-4]-ib")
    ('node07', 'login.cluster', 'r1n3-ib')
    """
    depth = 0
    for position, letter in enumerate(hosts):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            hosts = hosts[:position]
            break
    return re.sub(r"\[([^\]]*)\]", lambda m: re.split("[,-]", m[1])[0], hosts)


def slurm(env: Mapping[str, str]) -> Place | None:
    """`srun`: a step has tasks on the nodes of its list."""
    if "SLURM_PROCID" not in env or not ("SLURM_STEP_NUM_TASKS" in env or "SLURM_NTASKS" in env):
        return None
    hosts = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST")
    job = env.get("SLURM_JOB_ID") or env.get("SLURM_JOBID")
    address = f"{first_host(hosts)}:{_port(job)}" if hosts and job else None
    count = env.get("SLURM_STEP_NUM_TASKS") or env["SLURM_NTASKS"]
    return address, int(count), int(env["SLURM_PROCID"])


def open_mpi(env: Mapping[str, str]) -> Place | None:
    """Open MPI's `mpirun`. On one machine its own name of the job gives the port; on several, `mpirun` of version 4 tells where it runs."""
    if "OMPI_COMM_WORLD_RANK" not in env or "OMPI_COMM_WORLD_SIZE" not in env:
        return None
    count, index = int(env["OMPI_COMM_WORLD_SIZE"]), int(env["OMPI_COMM_WORLD_RANK"])
    contact = env.get("OMPI_MCA_orte_hnp_uri", "")
    found = re.search(r"tcp6?://\[?([^,;:\]]+)", contact)
    job = contact.partition(".")[0] or env.get("PMIX_NAMESPACE", "")
    address = None
    if env.get("OMPI_COMM_WORLD_LOCAL_SIZE") == str(count) and job:
        address = f"127.0.0.1:{_port(job)}"
    elif found:
        address = f"{found[1]}:{_port(job)}"
    return address, count, index


def mpich(env: Mapping[str, str]) -> Place | None:
    """MPICH, Intel MPI and others whose process manager speaks PMI; it names no machine."""
    if "PMI_RANK" not in env or "PMI_SIZE" not in env:
        return None
    count, local = int(env["PMI_SIZE"]), env.get("MPI_LOCALNRANKS")
    # The processes of one machine have one parent, MPI's proxy.
    address = f"127.0.0.1:{_port(str(os.getppid()))}" if local == str(count) else None
    return address, count, int(env["PMI_RANK"])


def mpi4py(env: Mapping[str, str]) -> Place | None:
    """Asks MPI itself, whatever started it; only where the package mpi4py is imported, or this way is asked for."""
    if "mpi4py" not in sys.modules and env is not _FORCED:
        return None
    world = import_module("mpi4py.MPI").COMM_WORLD
    host = socket.gethostname()
    address = world.bcast(f"{host}:{_port(f'{host} {os.getpid()}')}", root=0)
    return address, world.Get_size(), world.Get_rank()


_FORCED: Mapping[str, str] = {}


def kubernetes(env: Mapping[str, str]) -> Place | None:
    """Pods of an indexed Job behind a headless service: pod k is called `job-k`. How many there are, the Job does not say in the
    environment; `XLAB_NUM_PROCESSES` or `JAX_NUM_PROCESSES` does."""
    if "KUBERNETES_SERVICE_HOST" not in env or "JOB_COMPLETION_INDEX" not in env:
        return None
    index = env["JOB_COMPLETION_INDEX"]
    name = env.get("HOSTNAME") or socket.gethostname()
    full = socket.getfqdn(name) if "." not in name else name
    pod, _, domain = full.partition(".")
    address = None
    if pod.endswith(f"-{index}"):
        first = pod[: -len(index)] + "0"
        address = f"{first}{'.' + domain if domain else ''}:{_port(pod[: -len(index) - 1])}"
    return address, None, int(index)


LAUNCHERS: dict[str, Callable[[Mapping[str, str]], Place | None]] = {
    "ompi": open_mpi,
    "slurm": slurm,
    "mpich": mpich,
    "k8s": kubernetes,
    "mpi4py": mpi4py,
}
"""In the order in which they are asked: `mpirun` inside of a Slurm job starts the processes itself."""


def place(method: str | None) -> Place:
    """What the launchers say, or the one that is named."""
    if method == "deactivate":
        return None, None, None
    for name, read in LAUNCHERS.items():
        if method not in (None, name):
            continue
        found = read(_FORCED if name == method == "mpi4py" else os.environ)
        if found is not None:
            return found
    return None, None, None
