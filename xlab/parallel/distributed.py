"""Several processes, each with devices of its own, running one program."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from xlab.backend import client as _clients
from xlab.backend import processes as _processes
from xlab.backend import version as _version
from xlab.parallel import across as _across  # noqa: F401  # says how arrays move between processes
from xlab.parallel import launchers, rendezvous

_VARIABLES = {
    name: (f"XLAB_{name.upper()}", f"JAX_{name.upper()}")
    for name in ("coordinator_address", "num_processes", "process_id")
}
_METHODS = (None, *launchers.LAUNCHERS, "deactivate")


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
    collective_timeout_seconds: int = 600,
) -> None:
    """Joins this process with others, so that `xlab.devices()` are those of all.

    Call it in every process, before anything that touches a device. Arguments left out are read from the environment:
    `XLAB_COORDINATOR_ADDRESS`, `XLAB_NUM_PROCESSES`, `XLAB_PROCESS_ID` (also with `JAX_`, as Kubeflow sets them), and what Slurm's `srun`,
    Open MPI, MPICH, and indexed Jobs of Kubernetes set. The processes meet before the runtime joins them: who is missing is an error here, in all
    of them.

    Args:
        coordinator_address: `host:port` of process 0, reachable from all.
        num_processes: how many processes there are.
        process_id: this one's number, from 0.
        local_device_ids: which accelerators of the machine are this process's; CPU devices are its own in any case, as many as
            `config.num_cpu_devices` says.
        cluster_detection_method: the one launcher to be asked, `"slurm"`, `"ompi"`, `"mpich"`, `"k8s"` or `"mpi4py"`; `"deactivate"`
            asks none.
        initialization_timeout: seconds to wait for the others.
        heartbeat_timeout_seconds: seconds after which a silent process is taken for dead.
        shutdown_timeout_seconds: seconds that process 0 waits for the others at its end, which would be theirs.
        coordinator_bind_address: where process 0 listens; every interface at the coordinator's port by default.
        slice_index, partition_index: which group of closely connected processes this one is in; nothing depends on it on CPUs.
        collective_timeout_seconds: seconds after which a collective fails whose other processes do not take part; the process lives on.

    Raises:
        ValueError: an argument is given neither here nor by the environment, or makes no sense.
        RuntimeError: the process has joined already, its devices are in use, two processes have one number, or they do not agree on how
            many they are or on versions.
        TimeoutError: processes did not come within `initialization_timeout`; says which.
        OSError: process 0 cannot listen at its port.

    Example:
        >>> import xlab
        >>> xlab.distributed.is_initialized()
        False
    """
    if is_initialized():
        raise RuntimeError(
            "distributed.initialize should only be called once: this process has joined the others already"
        )
    if cluster_detection_method not in _METHODS:
        raise ValueError(
            f"cluster_detection_method has to be one of {', '.join(map(repr, _METHODS))}; got {cluster_detection_method!r}. With "
            f"another launcher, give coordinator_address, num_processes and process_id"
        )
    for name, numbers in (
        ("local_device_ids", local_device_ids),
        ("slice_index", slice_index),
        ("partition_index", partition_index),
    ):
        several = isinstance(numbers, Sequence) and name == "local_device_ids"
        if numbers is not None and not all(
            isinstance(i, int) and i >= 0 for i in (numbers if several else (numbers,))
        ):
            raise ValueError(
                f"{name} has to be a number from 0{', or several,' if name == 'local_device_ids' else ''} or None; got {numbers!r}"
            )
    if collective_timeout_seconds < 1:
        raise ValueError(
            f"collective_timeout_seconds has to be at least 1, got {collective_timeout_seconds!r}"
        )
    said = dict(zip(_VARIABLES, launchers.place(cluster_detection_method)))
    address = coordinator_address or _given("coordinator_address", said)
    count, index = (
        int(_given(name, said) if value is None else value)
        for name, value in (("num_processes", num_processes), ("process_id", process_id))
    )
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(
            f"coordinator_address has to be host:port, such as '127.0.0.1:9911'; got {address!r}"
        )
    if count < 1 or not 0 <= index < count:
        raise ValueError(
            f"process_id has to be from 0 to num_processes - 1; got process {index} of {count}"
        )
    _clients.require_unused()
    if count > 1 and _in_notebook():
        warnings.warn(
            "distributed.initialize makes this notebook's kernel a process of the group: when process 0 ends, the kernel ends too, and its "
            "names are lost. %xprocesses starts processes that are not the kernel",
            stacklevel=2,
        )
    bind = coordinator_bind_address or f"[::]:{port}"
    limits = {
        "start_s": initialization_timeout,
        "heartbeat_s": heartbeat_timeout_seconds,
        "shutdown_s": shutdown_timeout_seconds,
    }
    me = rendezvous.introduction(index, count, xlab=_own_version(), jaxlib=_version.installed())
    service = None
    if count > 1:
        with rendezvous.meeting(address, bind, me, initialization_timeout):
            if index == 0:
                service = _processes.serve(bind, count, **limits)
    else:
        service = _processes.serve(bind, count, **limits)
    _processes.join(
        address, count, index, service=service, collective_s=collective_timeout_seconds, **limits
    )


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _own_version() -> str:
    try:
        return metadata.version("xlab")
    except metadata.PackageNotFoundError:
        return "not installed"


def _given(name: str, said: Mapping[str, Any]) -> str:
    for variable in _VARIABLES[name]:
        if os.environ.get(variable):
            return os.environ[variable]
    if said[name] is not None:
        return said[name]
    raise ValueError(
        f"{name} should be defined: give it to distributed.initialize, or set {_VARIABLES[name][0]}"
    )


def is_initialized() -> bool:
    """Whether this process has joined others."""
    return _processes.joined()


def shutdown() -> None:
    """Disconnects from the others; process 0 first waits until they have, for up to `shutdown_timeout_seconds`.

    It also runs when the program ends, so it need not be called. Does nothing in a process that is alone.
    """
    _processes.leave()
