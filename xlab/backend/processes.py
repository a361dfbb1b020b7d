"""Several processes as one program: the coordination service, and a CPU client that spans them."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from xlab.backend import arrays as _arrays
from xlab.backend import client as _clients
from xlab.backend import native_warnings, watchdog
from xlab.backend.native import _jax

_service: Any = None
_link: Any = None
_index, _count, _shutdown_s = 0, 1, 0


def serve(bind: str, count: int, *, start_s: int, heartbeat_s: int, shutdown_s: int) -> Any:
    """Starts the coordination service of a group, which need not be in one of its processes. It ends with `shutdown()`.

    A process that dies makes the next collective fail; the service is told to keep the others alive.
    """
    # What it warns of, that its own barrier waits for nobody, is why there is `_await_others`.
    with native_warnings.suppress_warnings(), native_warnings.suppressed():
        return _jax.get_distributed_runtime_service(
            bind,
            count,
            heartbeat_timeout=heartbeat_s,
            cluster_register_timeout=start_s,
            shutdown_timeout=shutdown_s,
            recoverable=True,
        )


def join(
    address: str,
    count: int,
    index: int,
    *,
    service: Any = None,
    start_s: int,
    heartbeat_s: int,
    shutdown_s: int,
    collective_s: int,
) -> None:
    """Connects this process with the others and starts a client with the devices of all.

    `service` is the group's coordination service where this process has it. Raises RuntimeError when devices are in use already.
    """
    global _service, _link, _index, _count, _shutdown_s
    _clients.require_unused()
    _index, _count, _shutdown_s = index, count, shutdown_s
    try:
        _service = service
        _link = _jax.get_distributed_runtime_client(
            address,
            index,
            init_timeout=start_s,
            heartbeat_timeout=heartbeat_s,
            shutdown_timeout=shutdown_s,
            shutdown_on_destruction=False,
            use_compression=True,
        )
        _link.connect()
        collectives = _jax.make_gloo_tcp_collectives(
            _link, hostname=None if count > 1 and not _local(address) else "127.0.0.1"
        )
        with watchdog.flags(xla_cpu_collective_timeout_seconds=collective_s):
            _clients.use_client(
                lambda num_devices: _jax.get_tfrt_cpu_client(
                    distributed_client=_link,
                    node_id=index,
                    num_nodes=count,
                    collectives=collectives,
                    num_devices=num_devices,
                    get_local_topology_timeout_minutes=max(1, start_s // 60),
                    get_global_topology_timeout_minutes=max(1, start_s // 60),
                )
            )
    except BaseException:
        _service = _link = None
        raise
    atexit.register(leave)


def _local(address: str) -> bool:
    return address.rsplit(":", 1)[0] in ("localhost", "127.0.0.1", "[::1]")


def joined() -> bool:
    """Whether this process is one of several."""
    return _link is not None


def coordination() -> tuple[Any, int, int]:
    """The client of the coordination service (None in a process that is alone), this process's index, and how many there are."""
    return _link, _index, _count


def alive_processes(indices: Sequence[int]) -> list[int]:
    """Which of these processes are alive. Waits until every living one has called it."""
    if _link is None:
        raise RuntimeError(
            "this process has not joined others: call xlab.distributed.initialize first"
        )
    return sorted(_link.get_live_nodes(list(indices)))


def leave() -> None:
    """Disconnects from the others. Process 0 runs the service, so it waits until they have disconnected.

    Also runs when the interpreter ends, after an error too.
    """
    global _service, _link
    link, service, _link, _service = _link, _service, None, None
    if link is None:
        return
    atexit.unregister(leave)
    # What was started may be what the others wait for.
    _within(min(_shutdown_s, 10), _arrays.block_until_idle)
    watcher: threading.Thread | None = None
    with contextlib.suppress(_jax.JaxRuntimeError):  # they may be gone
        if service is not None:
            watcher = _await_others(link)
        link.key_value_set(_ended(_index), "1", allow_overwrite=True)
        link.shutdown()
    if service is not None:
        service.shutdown()  # itself waits for those that are about to disconnect
    if watcher is not None:
        # A thread that comes back from native code while the interpreter ends would abort it.
        watcher.join(2)


def _ended(index: int) -> str:
    return f"xlab/ended/{index}"


def _await_others(link: Any) -> threading.Thread | None:
    """Waits until every other process has ended or died; returns the thread that still asks who lives, if one was needed."""
    dead: set[int] = set()

    def watch():  # answered when those that live have asked too, which they do not, or are no more
        alive = set(link.get_live_nodes(list(range(_count))))
        dead.update(k for k in range(_count) if k not in alive)

    watcher: threading.Thread | None = None
    begun, told = time.monotonic(), False
    while there := [
        k for k in range(_count) if k != _index and k not in dead and _unset(link, _ended(k))
    ]:
        waited = time.monotonic() - begun
        if waited > _shutdown_s:
            break
        if waited > 1 and (watcher is None or not watcher.is_alive()):
            watcher = threading.Thread(target=_quietly, args=(watch,), daemon=True)
            watcher.start()
        if waited > 5 and not told:
            told = True
            print(
                f"xlab.distributed: process {_index} has come to its end and waits for the processes {there}, which would end with it, for up to "
                f"{_shutdown_s} s (shutdown_timeout_seconds)",
                file=sys.stderr,
                flush=True,
            )
        time.sleep(0.02 if waited < 2 else 0.2)
    return watcher


def _unset(link: Any, key: str) -> bool:
    try:
        link.key_value_try_get(key)
    except _jax.JaxRuntimeError:
        return True
    return False


def _quietly(run: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        run()


def _within(seconds: float, run: Callable[[], None]) -> None:
    """Runs a native call that waits, with a timeout; a keyboard interrupt ends the wait."""
    thread = threading.Thread(target=_quietly, args=(run,), daemon=True)
    thread.start()
    end = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < end:
        thread.join(0.1)
