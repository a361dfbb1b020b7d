"""What an uncaught error prints: the user's lines, and of the package nothing but its message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import xlab
from xlab.core import tracebacks

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """\
import xlab
import xlab.numpy as jnp
def inner(x):
    return jnp.dot(x, jnp.ones((4, 5)))
def outer(x):
    return xlab.grad(lambda y: inner(y).sum())(x)
{call}
"""


def printed(tmp_path, call, **environment):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(call=call))
    kept = {k: v for k, v in os.environ.items() if k != "XLAB_TRACEBACK_FILTERING"}
    child = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
    )
    assert child.returncode == 1
    return child.stderr


@pytest.mark.parametrize(
    "call",
    [
        "xlab.jit(outer)(jnp.ones((2, 3)))",
        "outer(jnp.ones((2, 3)))",
        "xlab.vmap(outer)(jnp.ones((2, 2, 3)))",
    ],
)
def test_only_the_users_lines(tmp_path, call):
    text = printed(tmp_path, call)
    assert "/xlab/" not in text
    assert [
        line.strip()
        for line in text.splitlines()
        if "program.py" in line and line.startswith("  File")
    ][-1].endswith("in inner")
    assert "in outer" in text and "jnp.dot(x, jnp.ones((4, 5)))" in text
    assert text.rstrip().splitlines()[-1].startswith("TypeError: ")


def test_errors_it_came_from_are_short_too(tmp_path):
    text = printed(
        tmp_path,
        "try:\n    xlab.jit(outer)(jnp.ones(3))\nexcept Exception as e:\n    raise KeyError('mine') from e",
    )
    assert "/xlab/" not in text and "direct cause" in text and "KeyError: 'mine'" in text


def test_everything_when_asked_for(tmp_path):
    assert "/xlab/" in printed(
        tmp_path, "xlab.jit(outer)(jnp.ones((2, 3)))", XLAB_TRACEBACK_FILTERING="off"
    )
    assert "/xlab/" not in printed(tmp_path, "1 / 0")
    assert "frames of its own" in printed(
        tmp_path, "xlab.jit(outer)(jnp.ones((2, 3)))", XLAB_TRACEBACK_FILTERING="remove_frames"
    )


def test_a_caught_error_keeps_its_frames():
    """Debuggers and test runners see all of it; only printing leaves frames out."""
    with pytest.raises(TypeError) as found:
        xlab.jit(lambda x: xlab.numpy.dot(x, xlab.numpy.ones((4, 5))))(xlab.numpy.ones((2, 3)))
    tb = found.value.__traceback__
    assert tracebacks.concerns(found.value) and len(tracebacks.users(tb)) < sum(
        1 for _ in tracebacks.entries(tb)
    )


def test_somebody_elses_hook_stays(monkeypatch):
    own = lambda *args: None
    monkeypatch.setattr(sys, "excepthook", own)
    tracebacks.install()
    assert sys.excepthook is own
