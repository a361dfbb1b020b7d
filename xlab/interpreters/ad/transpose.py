"""Backward differentiation: a linear program run from its outputs to its inputs.

Each equation of a linear jaxpr receives the cotangent of its result and gives cotangents to those operands that are
linear; operands that are known values are passed as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core.avals import AbstractValue, ShapedArray, aval_of, explicit_types
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, inner_jaxprs
from xlab.core.refs import AbstractRef
from xlab.core.rules import RuleTable
from xlab.core.source_info import TransposedLocation
from xlab.core.trace import state
from xlab.interpreters import partial_eval as pe
from xlab.interpreters import ref_flow
from xlab.interpreters.ad.jvp import (
    Zero,
    add_tangents,
    defjvp,
    drop_zeros,
    instantiate_zeros,
    nonzero_mask,
    primitive_jvps,
)
from xlab.tree.registration import register_pytree_node

primitive_transposes = RuleTable(
    "ad.primitive_transposes",
    "transpose",
    "rule(cotangent, *operands, **params) -> a cotangent (or None) per operand, where linear operands are "
    "UndefinedPrimal(aval)",
    required=False,
    phrase="Transpose rule (for reverse-mode differentiation) for '{}' not implemented",
)
"""Worked example, for `neg`: `lambda ct, x: [neg(ct)]`. With several results the first argument is a list. The rule is
called only when some cotangent is nonzero, or the primitive says `transposes_zeros`."""


class UndefinedPrimal:
    """Stands for a linear operand, whose value transposition must not need."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def __repr__(self):
        return f"UndefinedPrimal({self.aval})"


register_pytree_node(UndefinedPrimal, lambda x: ((), x.aval), lambda aval, _: UndefinedPrimal(aval))


class RefCotangent:
    """Stands for a linear operand that is a mutable reference, with the reference that collects its cotangent.

    In the backward pass, a read of the reference adds to its cotangent, and a write to it reads the cotangent.
    """

    __slots__ = ("aval", "ref")

    def __init__(self, ref):
        self.ref, self.aval = ref, aval_of(ref)

    def __repr__(self):
        return f"RefCotangent({self.aval})"


def open_cotangents(operands) -> tuple[list[bool], list]:
    """Which operands are `RefCotangent`s, and the operands with the references in their place."""
    return (
        [type(x) is RefCotangent for x in operands],
        [x.ref if type(x) is RefCotangent else x for x in operands],
    )


# `lax` registers what makes a reference to zeros of a reference's type, and what ends a reference.
_new_cell = _freeze = None


def set_ref_operations(new_cell, freeze):
    global _new_cell, _freeze
    _new_cell, _freeze = new_cell, freeze


def is_undefined_primal(x) -> bool:
    return type(x) is UndefinedPrimal


def backward_pass(jaxpr: Jaxpr, consts: Sequence, primals: Sequence, cotangents: Sequence) -> list:
    """Transposes a program at the given cotangents.

    Args:
        jaxpr: the program, linear in those inputs whose primal is an `UndefinedPrimal`.
        consts: values of its constants.
        primals: per input, a value, an `UndefinedPrimal`, or for a linear reference a `RefCotangent`.
        cotangents: one per output, maybe `Zero`.

    Returns:
        One cotangent per input, `Zero` where nothing arrived, None for inputs that were values.
    """
    if all(type(ct) is Zero for ct in cotangents) and not any(
        type(p) is RefCotangent for p in primals
    ):
        return [Zero(p.aval.to_ct_aval()) if is_undefined_primal(p) else None for p in primals]
    values: dict[Var, object] = dict(zip(jaxpr.constvars, consts))
    linear: set[Var] = set()
    # For linear references: the references that collect their cotangents.
    cells: dict[Var, object] = {}
    for v, p in zip(jaxpr.invars, primals):
        if is_undefined_primal(p):
            linear.add(v)
        elif type(p) is RefCotangent:
            linear.add(v)
            cells[v] = p.ref
        else:
            values[v] = p
    refs = _effects.on_refs(jaxpr.effects)
    if refs:
        linear = ref_flow.unknown_variables(jaxpr, [v in linear for v in jaxpr.invars])
    # Equations between known values run forwards first; the rest are kept for the way back.
    previous_source_info = state.source_info
    pending = []
    used: set[int] | None = None
    cotangent: dict[Var, object] = {}
    try:
        for eqn in jaxpr.eqns:
            if any(type(v) is Var and v in linear for v in eqn.invars) or (
                refs and any(v in linear for v in eqn.outvars)
            ):
                linear.update(eqn.outvars)
                pending.append(eqn)
                continue
            state.source_info = eqn.raw_source_info
            out = eqn.primitive.bind(*(_read(values, v) for v in eqn.invars), **eqn.params)
            values.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))

        for v, ct in zip(jaxpr.outvars, cotangents):
            if type(v) is Var and v in linear and type(ct) is not Zero:
                cotangent[v] = add_tangents(cotangent.get(v), ct)

        for eqn in reversed(pending):
            cts = [cotangent.pop(v, None) for v in eqn.outvars]
            touched = _linear_refs(eqn, linear) if refs else ()
            if all(ct is None for ct in cts) and not any(
                v in cells for v in (*touched, *eqn.outvars)
            ):
                if not transposes_zeros(eqn):
                    continue
                used = _used(jaxpr, jaxpr.outvars) if used is None else used
                if id(eqn) not in used:
                    continue
            state.source_info = (
                TransposedLocation(eqn.raw_source_info)
                if type(eqn.raw_source_info) is tuple
                else eqn.raw_source_info
            )
            if refs and eqn.primitive.makes_ref:
                cts = [_freeze(cells.pop(eqn.outvars[0]))]
            for v in touched:
                if v not in cells:
                    cells[v] = _new_cell(v.aval)
            cts = [
                Zero(v.aval.to_ct_aval()) if ct is None else ct for v, ct in zip(eqn.outvars, cts)
            ]
            operands = [
                _operand(v, cells) if type(v) is Var and v in linear else _read(values, v)
                for v in eqn.invars
            ]
            rule = primitive_transposes.get(eqn.primitive)
            if rule is None:
                raise primitive_transposes.missing(eqn.primitive)
            given = rule(cts if eqn.primitive.multiple_results else cts[0], *operands, **eqn.params)
            if explicit_types.in_use:
                given = [_reshard_like(ct, v) for v, ct in zip(eqn.invars, given)]
            for v, ct in zip(eqn.invars, given):
                if ct is not None and type(ct) is not Zero and type(v) is Var and v in linear:
                    cotangent[v] = add_tangents(cotangent.get(v), ct)
    finally:
        state.source_info = previous_source_info
    if refs:
        cotangent.update(
            {
                v: _freeze(cells[v])
                for v, p in zip(jaxpr.invars, primals)
                if is_undefined_primal(p) and v in cells
            }
        )
    return [
        cotangent.get(v, Zero(v.aval.to_ct_aval())) if is_undefined_primal(p) else None
        for v, p in zip(jaxpr.invars, primals)
    ]


_reshard = None


def set_reshard(reshard):
    """Sets `reshard(ct, aval)`, which reshards a cotangent to the sharding of a type."""
    global _reshard
    _reshard = reshard


def _reshard_like(ct, v):
    """Reshards a cotangent over Explicit mesh axes like its primal."""
    if ct is None or type(ct) is Zero or not isinstance(v.aval, ShapedArray):
        return ct
    given, want = aval_of(ct), v.aval.to_ct_aval()
    if given.mat != want.mat and state.manual is None:
        return state.match(ct, want) if want.mat else _reshard(ct, want)
    return ct if given.explicit_sharding is want.explicit_sharding else _reshard(ct, v.aval)


def transposes_zeros(eqn) -> bool:
    """Whether an equation's transpose runs where all its cotangents are zero."""
    says = eqn.primitive.transposes_zeros
    return says(eqn.params) if callable(says) else says


def answers_zeros(jaxpr: Jaxpr, outvars: Sequence) -> bool:
    """Whether transposing a program at zero cotangents of these results may give nonzero cotangents."""
    used = _used(jaxpr, outvars)
    return any(
        id(eqn) in used
        and (
            transposes_zeros(eqn)
            or any(answers_zeros(inner, inner.outvars) for inner in inner_jaxprs(eqn.params))
        )
        for eqn in jaxpr.eqns
    )


def _used(jaxpr, outvars) -> set[int]:
    """The equations, by their id, on whose results these results of a program depend."""
    live = {v for v in outvars if type(v) is Var}
    used = set()
    for eqn in reversed(jaxpr.eqns):
        if any(v in live for v in eqn.outvars):
            used.add(id(eqn))
        elif not eqn.effects:
            continue
        live.update(v for v in eqn.invars if type(v) is Var)
    return used


def _linear_refs(eqn, linear) -> list[Var]:
    return [v for v in eqn.invars if type(v) is Var and type(v.aval) is AbstractRef and v in linear]


def _operand(v, cells):
    return RefCotangent(cells[v]) if v in cells else UndefinedPrimal(v.aval)


def _read(values, atom):
    return atom.val if type(atom) is Literal else values[atom]


def transpose_jaxpr(
    closed: ClosedJaxpr,
    linear_in: Sequence[bool],
    nonzero_ct: Sequence[bool],
    refs: Sequence[bool] = (),
    of_integers: bool = False,
) -> tuple[ClosedJaxpr, list[bool]]:
    """The program that maps non-linear inputs and nonzero cotangents to cotangents of the linear inputs.

    `of_integers` says that cotangents of integers are integers: the program is part of one of integers alone.

    Inputs marked in `refs` are linear references; the new program takes in their place those that collect their cotangents.
    Returns it with the list of which linear inputs get a cotangent (the others stay zero).
    """
    linear_in, nonzero_ct, refs = (
        tuple(linear_in),
        tuple(nonzero_ct),
        tuple(refs) if any(refs) else (),
    )
    return closed.memo(
        ("transpose", linear_in, nonzero_ct, refs, of_integers),
        lambda: _transpose_jaxpr(closed, linear_in, nonzero_ct, refs, of_integers),
    )


def _transpose_jaxpr(closed, linear_in, nonzero_ct, refs, of_integers):
    aux = {}
    values_in = [a for a, lin in zip(closed.in_avals, linear_in) if not lin]
    # Derivatives are linear in no integers: of those alone the function itself is transposed.
    linear = [a for a, lin in zip(closed.in_avals, linear_in) if lin]
    whole = of_integers or (bool(linear) and all(map(_is_integer, linear)))
    cts_in = [
        a if whole and _is_integer(a) else a.to_tangent_aval().to_ct_aval()
        for a, nz in zip(closed.out_avals, nonzero_ct)
        if nz
    ]

    def run(*args):
        values, cts = iter(args[: len(values_in)]), iter(args[len(values_in) :])
        primals = [
            UndefinedPrimal(a) if lin else next(values)
            for a, lin in zip(closed.in_avals, linear_in)
        ]
        primals = collecting(primals, refs)
        cotangents = [
            next(cts) if nz else Zero(a.to_tangent_aval().to_ct_aval())
            for a, nz in zip(closed.out_avals, nonzero_ct)
        ]
        given = backward_pass(closed.jaxpr, closed.consts, primals, cotangents)
        given = [ct for ct, lin in zip(given, linear_in) if lin]
        aux["nonzero"] = nonzero_mask(given)
        return drop_zeros(given)

    new = pe.trace_to_closed_jaxpr(run, [*values_in, *cts_in], closed.jaxpr.debug_info)
    return new, aux["nonzero"]


def _is_integer(aval) -> bool:
    return isinstance(aval, ShapedArray) and dtypes.issubdtype(aval.dtype, np.integer)


def has_integers(cts: Sequence) -> bool:
    """Whether cotangents are integers, as those of functions of integers alone."""
    return any(type(ct) is not Zero and _is_integer(aval_of(ct)) for ct in cts)


def collecting(primals, refs) -> list:
    """The primals with those marked as `RefCotangent`s."""
    return (
        [RefCotangent(p) if r else p for p, r in zip(primals, refs)] if any(refs) else list(primals)
    )


def get_primitive_transpose(prim) -> Callable:
    """The rule that transposes a primitive; a missing one raises `MissingRule`."""
    return primitive_transposes[prim]


def deflinear(prim, transpose: Callable):
    """Like `deflinear2`, for a rule that sees only the cotangent: `transpose(ct, **params)` gives one per operand."""
    deflinear2(prim, lambda ct, *operands, **params: transpose(ct, **params))


def deflinear2(prim, transpose=None):
    """For a primitive that is linear in all its operands together (`neg`, `reshape`, `concatenate`, ...)."""

    def rule(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return out, (Zero.of(out) if not prim.multiple_results else [Zero.of(o) for o in out])
        return out, prim.bind(*map(instantiate_zeros, tangents), **params)

    rule.form = "linear"
    primitive_jvps[prim] = rule
    if transpose is not None:
        primitive_transposes[prim] = transpose


def check_one_side(name: str, x, y) -> None:
    """Raises where both operands of a product are linear inputs of the transposed function."""
    if is_undefined_primal(x) and is_undefined_primal(y):
        raise TypeError(
            f"a function that is to be transposed must be linear, and {name} of two values that depend on its arguments, of types "
            f"{x.aval} and {y.aval}, is not. Transpose its derivative at a point (xlab.linearize, xlab.vjp)."
        )


def defbilinear(prim, left_rule: Callable, right_rule: Callable):
    """For a product: linear in each of two operands while the other is fixed.

    `left_rule(ct, x, y, **params)` gives the cotangent of `x` (an UndefinedPrimal), `right_rule` that of `y`.
    """
    defjvp(
        prim,
        lambda t, x, y, **params: prim.bind(t, y, **params),
        lambda t, x, y, **params: prim.bind(x, t, **params),
    )
    primitive_jvps[prim].form = "bilinear"

    def transpose(ct, x, y, **params):
        check_one_side(prim.name, x, y)
        if is_undefined_primal(x):
            return [left_rule(ct, x, y, **params), None]
        return [None, right_rule(ct, x, y, **params)]

    primitive_transposes[prim] = transpose
