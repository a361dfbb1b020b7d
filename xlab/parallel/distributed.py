"""Several processes, each with devices of its own, running one program."""

from __future__ import annotations

import os

from xlab.backend import processes as _processes

_NAMES = {
    "coordinator_address": ("XLAB_COORDINATOR_ADDRESS", "JAX_COORDINATOR_ADDRESS"),
    "num_processes": ("XLAB_NUM_PROCESSES", "JAX_NUM_PROCESSES", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"),
    "process_id": ("XLAB_PROCESS_ID", "JAX_PROCESS_ID", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"),
}


def initialize(coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None, *,
               initialization_timeout: int = 300, heartbeat_timeout_seconds: int = 100,
               shutdown_timeout_seconds: int = 300, coordinator_bind_address: str | None = None) -> None:
    """Joins this process with others, so that `xlab.devices()` are those of all.

    Call it in every process, before anything that touches a device. Arguments left out are read from the environment:
    `XLAB_COORDINATOR_ADDRESS`, `XLAB_NUM_PROCESSES`, `XLAB_PROCESS_ID` (also with `JAX_`, and the counts and ranks that Open
    MPI and Slurm set).

    Args:
        coordinator_address: `host:port` of process 0, reachable from all.
        num_processes: how many processes there are.
        process_id: this one's number, from 0.
        initialization_timeout: seconds to wait for the others.
        heartbeat_timeout_seconds: seconds after which a silent process is taken for dead.
        shutdown_timeout_seconds: seconds to wait for the others at the end.
        coordinator_bind_address: where process 0 listens; every interface at the coordinator's port by default.

    Raises:
        ValueError: an argument is given neither here nor by the environment, or makes no sense.
        RuntimeError: the process has joined already, or its devices are in use.

    Example:
        >>> import xlab
        >>> xlab.distributed.is_initialized()
        False
    """
    if is_initialized():
        raise RuntimeError("distributed.initialize should only be called once: this process has joined the others already")
    address = coordinator_address or _given("coordinator_address")
    count, index = (int(_given(name) if value is None else value)
                    for name, value in (("num_processes", num_processes), ("process_id", process_id)))
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f"coordinator_address has to be host:port, such as '127.0.0.1:9911'; got {address!r}")
    if count < 1 or not 0 <= index < count:
        raise ValueError(f"process_id has to be from 0 to num_processes - 1; got process {index} of {count}")
    _processes.join(address, coordinator_bind_address or f"[::]:{port}", count, index, start_s=initialization_timeout,
                    heartbeat_s=heartbeat_timeout_seconds, shutdown_s=shutdown_timeout_seconds)


def _given(name: str) -> str:
    for variable in _NAMES[name]:
        if os.environ.get(variable):
            return os.environ[variable]
    raise ValueError(f"{name} should be defined: give it to distributed.initialize, or set {_NAMES[name][0]}")


def is_initialized() -> bool:
    """Whether this process has joined others."""
    return _processes.joined()


def shutdown() -> None:
    """Waits until all processes have come to their end, and disconnects; does nothing in a process that is alone."""
    _processes.leave()
