"""Profiles as files for trace viewers: sessions, annotations, a server, and what the memory of devices holds.

`profiling.py` reads a profile as records; this file writes it as TensorBoard and Perfetto read it.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import os
import shutil
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jaxlib import _profiler

from xlab.backend import client as _client

ProfileOptions = _profiler.ProfileOptions

_lock = threading.Lock()
_running: dict[str, Any] = {}


def start_trace(
    log_dir: os.PathLike | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> None:
    """Starts a profile that `stop_trace` writes under `log_dir/plugins/profile/<time>`; one runs at a time.

    Args:
        create_perfetto_trace: also write `perfetto_trace.json.gz` there, for ui.perfetto.dev.
        profiler_options: a `ProfileOptions`.
    """
    if create_perfetto_link:
        raise NotImplementedError(
            "start_trace: create_perfetto_link would serve the file to a website. Use create_perfetto_trace=True, "
            "and open perfetto_trace.json.gz in ui.perfetto.dev"
        )
    with _lock:
        if "session" in _running:
            raise RuntimeError(
                "Profile has already been started. Only one profile may be run at a time: call stop_trace first."
            )
        _client.devices()  # devices register with the profiler when they are made
        _running["session"] = _profiler.ProfilerSession(profiler_options or ProfileOptions())
        _running["dir"], _running["perfetto"] = os.fspath(log_dir), create_perfetto_trace


def stop_trace() -> None:
    """Ends the profile that `start_trace` began, and writes it."""
    with _lock:
        if "session" not in _running:
            raise RuntimeError("No profile started: call start_trace first.")
        session, where, perfetto = (
            _running.pop("session"),
            _running.pop("dir"),
            _running.pop("perfetto"),
        )
    session.stop_and_export(where)
    if perfetto:
        newest = max(
            Path(where).glob("plugins/profile/*/*.trace.json.gz"), key=lambda f: f.stat().st_mtime
        )
        shutil.copyfile(newest, newest.with_name("perfetto_trace.json.gz"))


@contextlib.contextmanager
def trace(
    log_dir: os.PathLike | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> Iterator[None]:
    """Profiles a block and writes the profile under `log_dir`."""
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation(_profiler.TraceMe):
    """A named span in profiles, as a context manager.

    Example:
        >>> with TraceAnnotation("load", batch=3):
        ...     pass
    """


class StepTraceAnnotation(TraceAnnotation):
    """A span that viewers take for one step of training; give it `step_num`.

    Example:
        >>> with StepTraceAnnotation("train", step_num=0):
        ...     pass
    """

    def __init__(self, name: str, **kwargs):
        super().__init__(name, _r=1, **kwargs)


def annotate_function(func: Callable, name: str | None = None, **decorator_kwargs) -> Callable:
    """A function whose every call is a span in profiles.

    Example:
        >>> annotate_function(len)("abc")
        3
    """
    name = name or getattr(func, "__qualname__", None) or type(func).__name__

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        with TraceAnnotation(name, **decorator_kwargs):
            return func(*args, **kwargs)

    return wrapper


def start_server(port: int, requires_backend: bool = True) -> Any:
    """Starts the server that viewers take profiles through; it runs until `stop_server`."""
    with _lock:
        if "server" in _running:
            raise ValueError(
                "Only one profiler server can be active at a time: call stop_server first."
            )
        if requires_backend:
            _client.devices()
        server = _running["server"] = _profiler.start_server(port)
    return server


def stop_server() -> None:
    """Stops the profiler's server."""
    with _lock:
        if _running.pop("server", None) is None:
            raise ValueError("No active profiler server: call start_server first.")


def device_memory_profile(backend: str | None = None) -> bytes:
    """What is in the memory of devices now, as gzip-compressed protocol buffer of pprof."""
    _client.devices(backend)  # raises where there is no such platform
    return gzip.compress(_client.client().heap_profile())


def save_device_memory_profile(filename: os.PathLike | str, backend: str | None = None) -> None:
    """Writes `device_memory_profile` to a file, for `go tool pprof`."""
    Path(filename).write_bytes(device_memory_profile(backend))


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Lets profiles include a child process that runs a profiler server; returns what ends that."""
    return _profiler.register_subprocess(pid, port)


def profile_data(name: str) -> Any:
    """The class for reading profiles: `ProfileData`, `ProfilePlane` or `ProfileEvent`."""
    from jaxlib import _profile_data

    return getattr(_profile_data, name)


def profiled_instructions(tensorboard_dir: os.PathLike | str) -> bytes:
    """What the instructions of a written profile cost, as a serialized `tensorflow.profiler.ProfiledInstructionsProto`.

    Field 1 is repeated and holds the name of an HLO instruction (1) and its microseconds (2): of each execution and device, without the
    time it waited for other devices, on average. Compilers schedule by them.

    Args:
        tensorboard_dir: what `start_trace` was given, of whose runs the newest is read, or the directory of one run.

    Raises:
        FileNotFoundError: when no profile is there.
    """
    from xlab.backend import profiling

    where = Path(tensorboard_dir)
    runs = [where, *where.glob("plugins/profile/*"), *where.glob("plugin/profile/*")]
    runs = [r for r in runs if any(r.glob("*.xplane.pb"))]
    if not runs:
        raise FileNotFoundError(
            f"no profile under {where}: neither *.xplane.pb nor plugins/profile/*/*.xplane.pb is there. Write one with "
            f"xlab.profiler.start_trace({os.fspath(where)!r}), the program, and stop_trace()"
        )
    run = max(runs, key=lambda r: r.stat().st_mtime)
    found = _profiler.get_profiled_instructions_proto(os.fspath(run))
    if found:  # of GPUs, whose names carry the fingerprint of their program
        return found
    times: dict[str, list[float]] = {}
    for file in sorted(run.glob("*.xplane.pb")):
        for event in profiling.read(file.read_bytes()).instructions:
            times.setdefault(event.hlo_op, []).append(event.duration_ns - event.wait_ns)
    costs = ((name, sum(ns) / len(ns) / 1e3) for name, ns in times.items())
    return b"".join(
        _message(1, _message(1, name.encode()) + b"\x11" + struct.pack("<d", us))
        for name, us in costs
    )


def _message(field: int, content: bytes) -> bytes:
    """A field of a protocol buffer that has a length: text, or a message."""
    size, length = len(content), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([field << 3 | 2]) + length + bytes([size]) + content
