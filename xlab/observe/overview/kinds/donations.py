"""Buffers that a result could take and does not, and donations that no result took."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from xlab.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, open_jaxpr
from xlab.interpreters.control_flow import CallFlow, LoopFlow, flow_of
from xlab.interpreters.costs import bytes_of
from xlab.observe.overview.inspection import LEAST, Inspection, kind
from xlab.observe.overview.measures import Measures, Proof, peak
from xlab.observe.programs import names as _names
from xlab.observe.programs.rewriting import lowered
from xlab.observe.records.finding import Finding
from xlab.observe.records.units import listed, plural, size_text

_WRITES = frozenset(
    ("dynamic_update_slice", "scatter", "scatter_add", "scatter-add", "scatter_mul")
)
_SUMS = frozenset(("add", "sub", "add_any"))
_KEEPS = frozenset(("convert_element_type", "mul", "copy", "reshape", "sharding_constraint"))


@kind("missed donation", "unused donation")
def donations(at: Inspection) -> Iterable[Finding]:
    """State that a program takes and returns anew: parameters after an update, a cache that is written to, what a loop carries."""
    low, jaxpr = at.stages.lowered, at.stages.closed.jaxpr
    yield from _unused(at)
    taken: dict[int, int] = {}
    numbers = {v: i for i, v in enumerate(jaxpr.invars)}
    used = _used(at)
    for n, out in enumerate(jaxpr.outvars):
        v = _state(at, out, 0)
        i = numbers.get(v, -1) if v is not None else -1
        if i < 0 or i in taken or i in low.donated or i in low.refused or n in used:
            continue
        given: Any = jaxpr.invars[i].aval
        made: Any = out.aval
        if (given.shape, given.dtype) == (made.shape, made.dtype) and i in low.kept:
            taken[i] = n
    sizes = {i: _on_device(at, i) for i in taken}
    total = sum(sizes.values())
    if total < LEAST:
        return
    names = at.heads(taken)
    said = listed([f"`{n}`" for n in names], 4, "argument")
    found = at.finding(
        "missed donation",
        f"{said} {'comes' if len(names) == 1 else 'come'} back with new values ({plural(len(taken), 'array')}), and old and new need memory at once",
        _makers_of(at, taken),
        nbytes=total,
        tab="memory",
    )
    yield from at.offered(
        found,
        f"jit(…, donate_argnames={names!r}), if the old values are not read after the call",
        lambda: lowered(at.stages, at.stages.closed, donated=sorted({*low.donated, *taken})),
        _less_memory,
    )


def _less_memory(before: Measures, after: Measures) -> Proof | None:
    if after.peak >= before.peak:
        return None
    return Proof("compiled like that", (peak(before, after),))


def _on_device(at: Inspection, i: int) -> int:
    aval, s = at.stages.closed.in_avals[i], at.shardings[i]
    shape = s.shard_shape(aval.shape) if s is not None and hasattr(s, "shard_shape") else aval.shape
    return bytes_of([aval]) * _size(shape) // max(1, _size(aval.shape))


def _size(shape: Iterable[int]) -> int:
    n = 1
    for d in shape:
        n *= int(d)
    return n


def _makers_of(at: Inspection, taken: dict[int, int]) -> JaxprEqn | None:
    outs: list[Any] = list(at.stages.closed.jaxpr.outvars)
    largest = max(taken, key=lambda i: bytes_of([at.stages.closed.in_avals[i]]))
    return at.makers.get(outs[taken[largest]])


def _used(at: Inspection) -> set[int]:
    """Results that take a donated buffer already."""
    low, closed = at.stages.lowered, at.stages.closed
    out: set[int] = set()
    for i in low.donated:
        a = closed.in_avals[i]
        alike = (
            n
            for n, b in enumerate(closed.out_avals)
            if n not in out and (b.shape, b.dtype) == (a.shape, a.dtype)
        )
        out.update([n for n in [next(alike, -1)] if n >= 0])
    return out


def _state(at: Inspection, v: Any, depth: int, written: bool = False) -> Any:
    """The argument that a result is the new value of; None where it is that of none."""
    if type(v) is Literal or depth > 64:
        return None
    made = at.makers.get(v)
    if made is None:
        if v in at.outside:
            return _state(at, at.outside[v], depth + 1, written)
        return v if written else None
    name, flow = made.primitive.name, flow_of(made)
    if name in _WRITES:
        return _state(at, made.invars[0], depth + 1, True)
    if type(flow) is CallFlow:
        inner = open_jaxpr(flow.jaxpr)
        return _state(at, inner.outvars[made.outvars.index(v)], depth + 1, written)
    if type(flow) is LoopFlow:
        n = made.outvars.index(v)
        if n >= flow.num_carry:
            return None
        carry = made.invars[flow.cond_consts + flow.num_consts :]
        return _state(at, carry[n], depth + 1, True)
    if name in _SUMS:
        for a, b in (made.invars, made.invars[::-1]):
            if written or _from_gradient(at, b):
                found = _state(at, a, depth + 1, True)
                if found is not None:
                    return found
        return None
    if name in _KEEPS:
        for a in made.invars:
            found = _state(at, a, depth + 1, written)
            if found is not None:
                return found
    return None


def _from_gradient(at: Inspection, v: Any) -> bool:
    """Whether a value is made of a gradient: by arithmetic from an equation of a backward pass."""
    todo: list[Any] = [v]
    seen: set[Any] = set()
    while todo and len(seen) < 200:
        a = todo.pop()
        if type(a) is not Var or a in seen:
            continue
        seen.add(a)
        made = at.makers.get(a)
        if made is None:
            continue
        if _names.is_transposed(made):
            return True
        flow = flow_of(made)
        if isinstance(flow, (CallFlow, LoopFlow)):
            inner: Jaxpr = open_jaxpr(flow.jaxprs[-1][1])
            if any(_names.is_transposed(e) for e in inner.eqns):
                return True
        todo += made.invars
    return False


def _unused(at: Inspection) -> Iterable[Finding]:
    """Donations that no result took."""
    low = at.stages.lowered
    if not low.donated and not low.refused:
        return
    info = at.stages.closed.jaxpr.debug_info
    arguments = {info.arg_name(i): i for i in (*low.donated, *low.refused)}
    memory = at.before.memory
    for name, why in memory.refused:
        i = arguments.get(name)
        if i is None:
            continue
        found = at.finding(
            "unused donation",
            f"`{name}` is donated, and no result takes its memory: {why}",
            nbytes=_on_device(at, i),
            tab="memory",
        )
        rest = [n for n in low.donated if n != i]
        yield from at.offered(
            found,
            f"do not donate `{name}`, so that it can be read after the call",
            functools.partial(lowered, at.stages, at.stages.closed, donated=rest),
            _no_more_memory,
        )


def _no_more_memory(before: Measures, after: Measures) -> Proof | None:
    if after.peak > before.peak:
        return None
    if after.peak < before.peak:
        return Proof("compiled without", (peak(before, after),))
    instead = f"the peak stays at {size_text(after.peak)}"
    return Proof("compiled without", (peak(before, after),), instead=instead)
