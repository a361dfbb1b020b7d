"""Mutable references at the boundary of a compiled program.

A program that is given references, or closes over them, is compiled on values: their arrays go in, donated where the program
writes them, and the new arrays come out and are put into the references after the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlab.compile.placement import place
from xlab.compile.tracing import TracedProgram
from xlab.core import effects as _effects
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import aval_of
from xlab.core.hi_states import MutableHiType, is_mutable
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo
from xlab.core.refs import AbstractRef, Ref, is_ref
from xlab.interpreters.discharge import discharge_jaxpr
from xlab.sharding import from_native


class RefDischarge(NamedTuple):
    """How a discharged program, one on values, is called with references.

    Its inputs are those of the original, then the arrays of the references closed over; its results are those of the original,
    then the last values of the inputs in `written`.
    """

    captured: tuple[Ref, ...]
    refs: tuple[int, ...]  # which inputs are arrays of references
    written: tuple[int, ...]
    n_out: int  # of the original

    def given(self, flat: Sequence) -> list:
        return [*flat, *self.captured]

    def arguments(self, flat: Sequence) -> list:
        """The arrays to call the program on values with."""
        out = self.given(flat)
        for i in self.refs:
            ref = out[i]
            value = ref.peek()
            if i in self.written and not ref.owned:
                value = copied(value)
                ref.store(value)
            out[i] = value
        return out

    def finish(self, flat: Sequence, outs: Sequence) -> list:
        """Puts the last values into the references; returns the results of the original program."""
        given = self.given(flat)
        for i, value in zip(self.written, outs[self.n_out :]):
            given[i].store(value)
        return list(outs[: self.n_out])


def copied(value):
    """A copy of an array on the same devices; host data unchanged."""
    if isinstance(value, KeyArray):
        return KeyArray(copied(value.base), value.aval.dtype)
    if not is_native_array(value):
        return value
    return place(
        value, value.aval, from_native(value._sharding), committed=value._committed, copy=True
    )


def discharge_refs(program: TracedProgram) -> TracedProgram:
    """The program to compile: references discharged, and with its `ref_discharge` if it had any."""
    closed = program.closed
    if not _effects.on_refs(closed.effects) and not any(
        type(a) is AbstractRef for a in closed.in_avals
    ):
        return program
    new, ref_discharge = closed.memo("on values", lambda: _discharge_refs(closed))
    return program._replace(closed=new, ref_discharge=ref_discharge)


def _discharge_refs(closed: ClosedJaxpr):
    jaxpr = closed.jaxpr
    moved = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts) if type(c) is Ref]
    kept = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts) if type(c) is not Ref]
    invars = [*jaxpr.invars, *(v for v, _ in moved)]
    info = jaxpr.debug_info
    names = (
        (*info.arg_names, *("a reference closed over" for _ in moved))
        if len(info.arg_names) == len(jaxpr.invars)
        else ()
    )
    opened = ClosedJaxpr(
        jaxpr.replace(
            constvars=[v for v, _ in kept],
            invars=invars,
            debug_info=DebugInfo(info.name, names, info.result_names, info.position),
        ),
        [c for _, c in kept],
    )
    ref_mask = [type(v.aval) is AbstractRef for v in invars]
    new, written = discharge_jaxpr(opened, ref_mask)
    if not any(ref_mask):
        return new, None
    return new, RefDischarge(
        tuple(c for _, c in moved),
        tuple(i for i, c in enumerate(ref_mask) if c),
        written,
        len(jaxpr.outvars),
    )


# -- aliasing: each reference may appear only once --------------------------------------------------------


def check_arguments(fun_name: str, flat: Sequence, names) -> None:
    """Raises where a reference is passed twice: the function would not know that they are the same."""
    seen: dict[int, int] = {}
    for i, x in enumerate(flat):
        aval = aval_of(x)
        if type(aval) is AbstractRef or isinstance(aval, MutableHiType):
            j = seen.setdefault(id(x), i)
            if j != i:
                names = names()
                if type(aval) is not AbstractRef:
                    raise ValueError(
                        f"a value of type {aval}, which changes in place, was passed twice when tracing {fun_name}, at both {names[j]} and "
                        f"{names[i]}: the function would not know that they are the same. Pass it once."
                    )
                raise ValueError(
                    f"only one reference to a mutable array may be passed as an argument to a function, but when tracing "
                    f"{fun_name} the mutable array reference of type {aval} appeared at both {names[j]} and "
                    f"{names[i]}. Pass it once."
                )


def check_refs(
    closed: ClosedJaxpr, flat: Sequence, captured: Sequence, name: str | None = None
) -> None:
    """Raises where a reference reaches a traced function in two ways: as two arguments, or as one and closed over.

    Args:
        closed: the function's program, which knows its name and those of its arguments.
        flat: the arguments.
        captured: what it closes over.
        name: of the function, if the program does not know it.
    """
    if not any(is_ref(x) or is_mutable(x) for x in flat):
        return
    info = closed.jaxpr.debug_info
    known = info.arg_names[-len(flat) :]
    names = known if len(known) == len(flat) else [f"args[{i}]" for i in range(len(flat))]
    check_arguments(name or info.name, flat, lambda: names)
    check_captured(name or info.name, captured, flat, lambda: names)


def check_captured(fun_name: str, consts: Sequence, flat: Sequence, names) -> None:
    """Raises where a reference is both an argument and closed over."""
    captured = {id(c) for c in consts}
    for i, x in enumerate(flat):
        if id(x) in captured and (type(aval_of(x)) is AbstractRef or is_mutable(x)):
            what = "a mutable array reference" if is_ref(x) else "a value that changes in place,"
            raise ValueError(
                f"when tracing {fun_name}, {what} of type {aval_of(x)} was both closed over and "
                f"passed as the argument {names()[i]}. Use it in one way only."
            )
