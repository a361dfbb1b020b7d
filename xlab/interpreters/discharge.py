"""State discharge: a program with mutable references becomes one on values.

Each reference input becomes an array input and, if the program writes it, an array output as well. Reads and writes are
replaced equation by equation, so the order of effects is kept.

`discharge_rules` holds the rules of primitives that use references. Primitives with inner programs call `discharge_jaxpr` on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlab.core import effects as _effects
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from xlab.core.refs import AbstractRef
from xlab.core.rules import RuleTable
from xlab.core.source_info import SourceInfo
from xlab.core.trace import state
from xlab.interpreters import partial_eval as pe

discharge_rules = RuleTable(
    "discharge.discharge_rules",
    "discharge the references of",
    "rule(eqn, ref_mask, operands) -> ({operand number: new value}, results), where `ref_mask` says which operands are references",
    required=False,
)
"""An operand that is a reference comes as the value it has now. Worked example, for reading a whole reference:
`lambda eqn, ref_mask, operands: ({}, [operands[0]])`. A result that is a reference is given as its first value."""


def discharge_jaxpr(
    closed: ClosedJaxpr, ref_mask: Sequence[bool], final_refs: Sequence[int] | None = None
) -> tuple[ClosedJaxpr, tuple[int, ...]]:
    """The program on values, and which inputs' final values it returns after its own results.

    Args:
        ref_mask: per input, whether it is a reference to discharge; the others stay as they are.
        final_refs: the inputs whose final values are wanted; by default those that are written.
    """
    ref_mask = tuple(ref_mask)
    if final_refs is None:
        final_refs = tuple(
            sorted(i for i in _effects.written(closed.effects) if i >= 0 and ref_mask[i])
        )
    final_refs = tuple(final_refs)
    new = closed.memo(
        ("discharge", ref_mask, final_refs), lambda: _discharge(closed, ref_mask, final_refs)
    )
    return new, final_refs


def _discharge(closed, ref_mask, final_refs):
    in_avals = [a.inner_aval if c else a for a, c in zip(closed.in_avals, ref_mask)]

    def run(*args):
        outs, values = evaluate(closed.jaxpr, closed.consts, args, ref_mask)
        return [*outs, *(values[i] for i in final_refs)]

    new = pe.trace_to_closed_jaxpr(run, in_avals, closed.jaxpr.debug_info)
    # The old value that a swap returns is mostly unused.
    return pe.prune_closed_consts(ClosedJaxpr(pe.dce_jaxpr_eqns(new.jaxpr), new.consts))


def evaluate(jaxpr: Jaxpr, consts, args, ref_mask: Sequence[bool]) -> tuple[list, list]:
    """Records a program on values in the trace that is current; returns its results and the last values of its inputs."""
    trace = state.trace
    assert isinstance(trace, pe.DynamicJaxprTrace)
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    places = {v for v, c in zip(jaxpr.invars, ref_mask) if c}
    ended: dict[Var, Any] = {}

    def read(a):
        return a.val if type(a) is Literal else env[a]

    previous = state.source_info
    try:
        for eqn in jaxpr.eqns:
            state.source_info = eqn.raw_source_info
            operands = [read(a) for a in eqn.invars]
            touched = [type(a) is Var and a in places for a in eqn.invars]
            if any(touched) or _effects.INTERNAL_REF in eqn.effects:
                rule = discharge_rules.get(eqn.primitive)
                if rule is None:
                    raise discharge_rules.missing(eqn.primitive)
                if ended:
                    _check_not_ended(eqn, ended)
                if eqn.primitive.ends_ref:
                    ended[eqn.invars[0]] = eqn
                updates, outs = rule(eqn, touched, operands)
                for i, value in updates.items():
                    env[eqn.invars[i]] = value
                places.update(v for v in eqn.outvars if type(v.aval) is AbstractRef)
            else:
                avals = [v.aval for v in eqn.outvars]
                out = trace.record(
                    eqn.primitive,
                    list(map(trace.atom, operands)),
                    eqn.params,
                    avals if eqn.primitive.multiple_results else avals[0],
                    eqn.effects,
                )
                outs = out if eqn.primitive.multiple_results else [out]
            env.update(zip(eqn.outvars, outs))
    finally:
        state.source_info = previous
    return [read(a) for a in jaxpr.outvars], [env[v] for v in jaxpr.invars]


def _check_not_ended(eqn, ended) -> None:
    for a in eqn.invars:
        end = ended.get(a) if type(a) is Var else None
        if end is not None:
            raise ValueError(
                f"the reference of type {a.aval} was given up by {end.primitive.name} at "
                f"{SourceInfo(*end.raw_source_info)}, and is used afterwards by {eqn.primitive.name} at "
                f"{SourceInfo(*eqn.raw_source_info)}: use the value that {end.primitive.name} gave, or make a new reference"
            )


def inline(name: str) -> Callable:
    """The rule for calls with custom derivatives, no longer needed after discharge: inlines the program."""

    def rule(eqn, ref_mask, operands):
        closed = eqn.params[name]
        closed = closed if isinstance(closed, ClosedJaxpr) else ClosedJaxpr(closed)
        outs, values = evaluate(closed.jaxpr, closed.consts, operands, ref_mask)
        return {i: values[i] for i in _effects.written(closed.effects) if i >= 0}, outs

    return rule


def discharge_state(
    closed: ClosedJaxpr, should_discharge: bool | Sequence[bool] = True
) -> ClosedJaxpr:
    """A program on values: references become inputs, and their final values come after the results.

    Args:
        should_discharge: which inputs to treat so; others that are references stay references.

    Raises:
        ValueError: the mask has another length than the program has inputs.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.interpreters.discharge import discharge_state
        >>> def double(ref):
        ...     ref[...] = ref[...] * 2
        >>> print(discharge_state(xlab.make_jaxpr(double)(xlab.new_ref(jnp.ones(3)))))
        { lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }
    """
    refs = [type(a) is AbstractRef for a in closed.in_avals]
    if isinstance(should_discharge, bool):
        ref_mask = refs if should_discharge else [False] * len(refs)
    else:
        if len(should_discharge) != len(refs):
            raise ValueError(
                f"should_discharge says of each input whether it is discharged: the program has {len(refs)} inputs, got "
                f"{len(should_discharge)}"
            )
        ref_mask = [r and s for r, s in zip(refs, should_discharge, strict=True)]
    return discharge_jaxpr(closed, ref_mask, [i for i, c in enumerate(ref_mask) if c])[0]
