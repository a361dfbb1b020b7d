"""Processes that run one notebook: the coordination service in its kernel, and the members that join it. `gate.py` is what they agree by."""

from __future__ import annotations

import os
import socket
from typing import Any

from xlab.backend import processes as _processes
from xlab.parallel import across as _across  # noqa: F401  # says how arrays move between processes


def free_address(host: str = "127.0.0.1") -> str:
    """`host:port` with a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


def serve(address: str, count: int, *, heartbeat: int, start: int = 60) -> Any:
    """Starts the coordination service of a group in a process that is no member of it, so that any member may die."""
    return _processes.serve(address, count, start_s=start, heartbeat_s=heartbeat, shutdown_s=5)


def join(address: str, count: int, index: int, *, heartbeat: int, collective_timeout: int) -> None:
    """Makes this process a member of a group whose service is elsewhere."""
    _processes.join(
        address,
        count,
        index,
        start_s=60,
        heartbeat_s=heartbeat,
        shutdown_s=5,
        collective_s=collective_timeout,
    )


def resident_bytes() -> int | None:
    """Bytes of memory that this process holds; None where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
