"""IPython shells with the extension, which run cells and say what these showed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from IPython.utils.capture import capture_output

ARRAYS = """
import numpy as np
import xlab
from xlab import lax
from xlab import numpy as jnp
from xlab.sharding import NamedSharding, PartitionSpec as P
x = jnp.arange(32.0).reshape(8, 4)
w = jnp.ones((4, 2))
def f(x, w):
    return jnp.tanh(x @ w)
"""


@contextmanager
def loaded(shell: Any, setup: str = ARRAYS) -> Iterator[Any]:
    """A shell with the extension, in which `setup` has run; its mesh is taken back in the end."""
    shell.run_line_magic("load_ext", "xlab")
    assert shell.run_cell(setup).success
    yield shell
    shell.run_line_magic("xmesh", "off")


def ran(shell: Any, source: str) -> tuple[Any, list[dict[str, Any]], str]:
    """Runs a cell; its result, the bundles that it displayed, and what it printed."""
    with capture_output() as got:
        result = shell.run_cell(source)
    return result, [o.data for o in got.outputs], got.stdout


def run_well(shell: Any, source: str) -> tuple[list[dict[str, Any]], str]:
    """Runs a cell that must succeed; the bundles that it displayed, and what it printed."""
    result, outputs, printed = ran(shell, source)
    result.raise_error()
    return outputs, printed


def shown(outputs: list[dict[str, Any]]) -> str:
    """The text forms of what a cell displayed."""
    return "\n".join(o["text/plain"] for o in outputs)
