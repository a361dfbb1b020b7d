"""Amounts of a program as its user would read them: from its jaxpr, its compiled module's text, and what the compiled program says of itself.

By the names that findings use, and in none of the ways by which findings come to theirs.
"""

from __future__ import annotations

import functools
import math
import re
import warnings

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab import observe

BYTES = {"f32": 4, "s32": 4, "bf16": 2, "pred": 1, "u32": 4}
_COPY = re.compile(r"= (\w+)\[([\d,]*)\]\S* copy\(")
_CALL = re.compile(r'custom-call\(.*custom_call_target="[^"]*callback', re.IGNORECASE)


class Measured:
    """A program with its arguments, read when asked."""

    def __init__(self, f, args):
        self.f, self.args = f, args

    @functools.cached_property
    def compiled(self):
        f = self.f if hasattr(self.f, "lower") else xlab.jit(self.f)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Some donated buffers")
            return f.lower(*self.args).compile()

    @functools.cached_property
    def jaxpr(self):
        return xlab.make_jaxpr(self.f)(*self.args).jaxpr

    @property
    def given(self):
        return sum(jnp.asarray(x).nbytes for x in xlab.tree.leaves(self.args))

    def amount(self, name):
        """The amount that a finding calls so."""
        return AMOUNTS[name](self)


def _inner(eqn):
    for value in eqn.params.values():
        for v in value if isinstance(value, (tuple, list)) else (value,):
            v = getattr(v, "jaxpr", v)
            if hasattr(v, "eqns"):
                yield v


def equations(jaxpr):
    """Of a program and of those within it."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in _inner(eqn):
            yield from equations(inner)


def _rows(m):
    return sum(
        v.aval.nbytes
        for e in equations(m.jaxpr)
        if e.primitive.name == "scan"
        for v in e.outvars[e.params["num_carry"] :]
    )


def _in_f32(m):
    return sum(
        v.aval.nbytes
        for e in equations(m.jaxpr)
        if not any(_inner(e))
        for v in e.outvars
        if v.aval.dtype == np.float32
    )


def _copied(m):
    sizes = [
        BYTES[kind] * math.prod(map(int, dims.split(",")))
        for kind, dims in _COPY.findall(m.compiled.as_text())
        if dims
    ]
    return sum(n for n in sizes if n >= 1 << 16)


def _sent(m):
    return sum(t.sent_in_run for t in observe.transfers(m.compiled, tries=0) if t.instruction)


AMOUNTS = {
    "peak per device": lambda m: observe.memory(m.compiled).peak,
    "sent per device": _sent,
    "operations per device": lambda m: m.compiled.cost_analysis()["flops"],
    "bytes read and written": lambda m: m.compiled.cost_analysis()["bytes accessed"],
    "results per device": lambda m: m.compiled.memory_analysis().output_size_in_bytes,
    "arguments per device": lambda m: m.compiled.memory_analysis().argument_size_in_bytes,
    "constants of the program": lambda m: (
        m.compiled.memory_analysis().argument_size_in_bytes - m.given
    ),
    "given at a call": lambda m: m.given,
    "equations traced": lambda m: len(list(equations(m.jaxpr))),
    "kept by loops": _rows,
    "calls of the host": lambda m: len(_CALL.findall(m.compiled.as_text())),
    "values in f32": _in_f32,
    "instructions": lambda m: len(re.findall(r"(?m)^ +(?:ROOT )?%?[\w.\-]+ = ", m.compiled.as_text())),
    "copied in a step": _copied,
}  # fmt: skip
