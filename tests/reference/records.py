"""What a module of cases finds on the reference: run in a process of its own, while the test finds what xlab makes of them.

Such a module has `records(package)`, and run as a program prints `RECORDS ` and their JSON for the package that it is given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.reference.oracle import FLAGS, ROOT, unavailable

__all__ = ["on_reference"]


def on_reference(cases: ModuleType, *args: str) -> Callable[[], dict]:
    """Starts the cases on the reference; the function that is returned waits for their records. Skips where there is no reference."""
    if why := unavailable():
        pytest.skip(why)
    run = subprocess.Popen(
        [sys.executable, "-m", cases.__name__, "jax", *args],
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "XLA_FLAGS": FLAGS,
            "PYTHONWARNINGS": "ignore",
        },
    )

    def records() -> dict:
        lines = [line for line in run.communicate()[0].splitlines() if line.startswith("RECORDS ")]
        assert len(lines) == 1, f"{cases.__name__} ended with status {run.returncode}"
        return json.loads(lines[0].removeprefix("RECORDS "))

    return records
