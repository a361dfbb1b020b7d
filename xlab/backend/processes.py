"""Several processes as one program: the service that introduces them, and a CPU client that spans them."""

from __future__ import annotations

from typing import Any

from xlab.backend import client as _clients
from xlab.backend.native import _jax

_service: Any = None
_link: Any = None


def join(address: str, bind: str, count: int, index: int, *, start_s: int, heartbeat_s: int, shutdown_s: int) -> None:
    """Connects this process with the others and starts a client with the devices of all.

    Process 0 also runs the service, at `bind`. A process that dies makes the next collective fail; the service is told
    to keep the others alive. Raises RuntimeError when devices are in use already.
    """
    global _service, _link
    _clients.require_unused()
    try:
        if index == 0:
            _service = _jax.get_distributed_runtime_service(
                bind, count, heartbeat_timeout=heartbeat_s, cluster_register_timeout=start_s, shutdown_timeout=shutdown_s,
                recoverable=True)
        _link = _jax.get_distributed_runtime_client(
            address, index, init_timeout=start_s, heartbeat_timeout=heartbeat_s, shutdown_timeout=shutdown_s,
            shutdown_on_destruction=False, use_compression=True)
        _link.connect()
        collectives = _jax.make_gloo_tcp_collectives(_link, hostname=None if count > 1 and not _local(address) else "127.0.0.1")
        _clients.use_client(lambda num_devices: _jax.get_tfrt_cpu_client(
            distributed_client=_link, node_id=index, num_nodes=count, collectives=collectives, num_devices=num_devices,
            get_local_topology_timeout_minutes=max(1, start_s // 60), get_global_topology_timeout_minutes=max(1, start_s // 60)))
    except BaseException:
        _service = _link = None
        raise


def _local(address: str) -> bool:
    return address.rsplit(":", 1)[0] in ("localhost", "127.0.0.1", "[::1]")


def joined() -> bool:
    """Whether this process is one of several."""
    return _link is not None


def leave() -> None:
    """Waits for the others at the end and disconnects; process 0 then ends the service."""
    global _service, _link
    if _link is not None:
        _link.shutdown()
        _link = None
    if _service is not None:
        _service.shutdown()
        _service = None
