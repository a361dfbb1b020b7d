"""Runs a module of sections in a process of its own, where JAX and xlab are both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def found_in(module: str, folder: Path) -> dict[str, Any]:
    """What each section of `tests.observe.beside.MODULE` returned; none failed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "8", "IPYTHONDIR": str(folder)}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", f"tests.observe.beside.{module}"],
        capture_output=True, text=True, timeout=240, env=environment, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for name, value in found.items():
        assert not (isinstance(value, dict) and "failed" in value), f"{name}: {value['failed']}"
    return found


def run_sections(names: dict[str, Any]) -> None:
    """Runs every `section_` of a module, or those that the command line names, and prints what they return."""
    chosen = sys.argv[1:]
    out = {}
    for name, section in names.items():
        if name.startswith("section_") and (not chosen or name[8:] in chosen):
            try:
                out[name[8:]] = section()
            except Exception:
                out[name[8:]] = {"failed": traceback.format_exc()}
    print("\n" + json.dumps(out))
