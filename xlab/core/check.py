"""Is this jaxpr well formed? A type checker: scopes, operand types, and results against the primitives' own rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xlab.core import effects as _effects
from xlab.core.avals import AbstractValue, aval_of, same_up_to_weak_type
from xlab.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    input_positions,
    open_jaxpr,
    outer_effects,
    subjaxprs_of_params,
)
from xlab.core.primitive import Primitive
from xlab.errors import JaxprTypeError

typechecks: dict[Primitive, Callable[[JaxprEqn], None]] = {}
"""Checks of equations by primitives that say more of the jaxprs inside them than that they are well formed."""


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Raises `JaxprTypeError` with the offending equation if a program is not well formed.

    Example:
        >>> import xlab
        >>> check_jaxpr(xlab.make_jaxpr(lambda x: x + 1)(1.0))
    """
    if isinstance(jaxpr, ClosedJaxpr):
        for v, c in zip(jaxpr.jaxpr.constvars, jaxpr.consts):
            if not same_up_to_weak_type(v.aval, aval_of(c)):
                raise JaxprTypeError(
                    f"a constant of type {aval_of(c)} is bound to a variable of type {v.aval}"
                )
    _check(open_jaxpr(jaxpr), jaxpr)


def _check(jaxpr: Jaxpr, whole: Jaxpr | ClosedJaxpr) -> None:
    bound: set[Var] = set()

    def bind(v, where):
        if type(v) is not Var:
            raise JaxprTypeError(f"{where} is bound to {v!r}, which is not a variable")
        if v in bound:
            raise JaxprTypeError(f"{where}: variable {v} is bound twice")
        bound.add(v)

    def read(a, where):
        if type(a) is Literal:
            if not same_up_to_weak_type(aval_of(a.val), a.aval):
                raise JaxprTypeError(f"{where}: literal {a.val!r} does not have the type {a.aval}")
        elif a not in bound:
            raise JaxprTypeError(
                f"{where} reads a variable of type {a.aval} that no earlier equation defines"
            )

    for v in (*jaxpr.constvars, *jaxpr.invars):
        bind(v, "the program's inputs")
    inputs = input_positions(jaxpr)
    for i, eqn in enumerate(jaxpr.eqns):
        where = f"equation {i} ({eqn.primitive.name}, {eqn.source_info})"
        for a in eqn.invars:
            read(a, where)
        if not eqn.primitive.context_dependent and eqn.primitive.has_abstract_eval:
            got, effects = eqn.primitive.abstract(tuple(a.aval for a in eqn.invars), eqn.params)
            got = list(got) if eqn.primitive.multiple_results else [got]
            want = [v.aval for v in eqn.outvars]
            if len(got) != len(want) or not all(map(same_up_to_weak_type, got, want)):
                raise JaxprTypeError(
                    f"{where} binds results of types {_types(want)}, but its rule gives {_types(got)}"
                )
            if _effects.on_refs(effects):
                effects = outer_effects(eqn, inputs)
            if not effects <= jaxpr.effects:
                raise JaxprTypeError(
                    f"{where} has effects {set(effects)} that the program does not declare"
                )
        typecheck = typechecks.get(eqn.primitive)
        if typecheck is not None:
            typecheck(eqn)
        for name, inner in () if typecheck is not None else subjaxprs_of_params(eqn.params):
            try:
                check_jaxpr(inner)
            except JaxprTypeError as e:
                raise JaxprTypeError(f"in {name} of {where}: {e}") from None
        for v in eqn.outvars:
            bind(v, where)
    for a in jaxpr.outvars:
        read(a, "the result")


def _types(avals: Iterable[AbstractValue]) -> str:
    return "(" + ", ".join(map(str, avals)) + ")"
