"""Two processes that work together on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def start_two(
    source: str, *arguments: str, limit: float = 150, devices: int = 2
) -> list[tuple[int, str]]:
    """Runs a program in two processes of so many devices each, as `program ADDRESS INDEX ...`; how each ended, and what it said."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": str(devices)}
    workers = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(source),
                f"127.0.0.1:{port}",
                str(i),
                *arguments,
            ],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for i in range(2)
    ]
    try:
        said = [w.communicate(timeout=limit)[0] for w in workers]
    finally:
        for w in workers:
            w.kill()
    return [(w.returncode, words) for w, words in zip(workers, said, strict=True)]


def run_two(source: str, limit: float = 150) -> None:
    """The same, of a program that ends by printing `done`."""
    for code, words in start_two(source, limit=limit):
        assert code == 0 and words.strip().endswith("done"), words[-4000:]


def fails(kind: type[Exception], words: list[str], act: Callable[[], Any]) -> None:
    """For such a program: ends its process unless `act()` raises that, with all of these words."""
    try:
        act()
    except kind as e:
        if not all(w in str(e) for w in words):
            raise SystemExit(f"expected {words} in: {e}") from e
    else:
        raise SystemExit(f"no {kind.__name__} with {words}")
