"""Shared by elementwise primitives: declaring one, and its shape and dtype rules.

Operands have one shape, or are scalars beside arrays; they have one dtype. A Python number is a scalar of its own (weak) type and
adapts to nothing: `xlab.numpy` promotes, `lax` does not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ManualAxisType, ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.trace import state
from xlab.interpreters import ad, batching
from xlab.interpreters.costs import cost_rules, each


# What a primitive accepts: predicates on dtypes, with their names for messages.
def floating(d):
    return dtypes.issubdtype(d, np.floating)


def inexact(d):
    return dtypes.issubdtype(d, np.inexact)


def integer(d):
    return dtypes.issubdtype(d, np.integer)


def numeric(d):
    return dtypes.issubdtype(d, np.number)


def signed(d):
    return numeric(d) and not dtypes.issubdtype(d, np.unsignedinteger)


def real(d):
    return numeric(d) and not dtypes.issubdtype(d, np.complexfloating)


def integer_or_bool(d):
    return integer(d) or d == np.bool_


def ordered(d):
    return real(d) or d == np.bool_


def sortable(d):
    return numeric(d) or d == np.bool_


def anything(d):
    return not dtypes.is_extended(d)


def complexes(d):
    return dtypes.issubdtype(d, np.complexfloating)


_SPOKEN = {
    floating: "floating-point",
    inexact: "floating-point or complex",
    integer: "integer",
    numeric: "numeric",
    real: "real",
    integer_or_bool: "integer or bool",
    ordered: "real or bool",
    sortable: "numeric or bool",
    anything: "array",
    complexes: "complex",
    signed: "signed or complex",
}


def joint_shape(name: str, avals) -> tuple[int, ...]:
    """The shape of an elementwise result; scalars go with anything, and dimensions of size 1 spread."""
    shape: tuple[int, ...] = ()
    for a in avals:
        if a.shape and a.shape != shape:
            if not shape:
                shape = a.shape
            elif len(shape) == len(a.shape) and all(
                m == n or m == 1 or n == 1 for m, n in zip(shape, a.shape)
            ):
                shape = tuple(n if m == 1 else m for m, n in zip(shape, a.shape))
            else:
                shapes = ", ".join(str(a.shape) for a in avals)
                raise TypeError(
                    f"{name} got incompatible shapes for broadcasting: {shapes}. Operands are scalars or have one "
                    f"number of dimensions, with sizes equal or 1; reshape one of them."
                )
    return shape


def check_dtypes(name: str, avals, accepts) -> None:
    first = avals[0].dtype
    for a in avals[1:]:
        if a.dtype != first:
            listed = ", ".join(dtypes.name(a.dtype) for a in avals)
            raise TypeError(
                f"lax.{name} requires arguments to have equal dtypes, got {listed}. Convert one with "
                f"lax.convert_element_type, or use xlab.numpy, which promotes."
            )
    if not accepts(first):
        raise TypeError(
            f"{name} does not accept dtype {dtypes.name(first)}: it takes {_SPOKEN.get(accepts, 'other')} arrays"
        )


_one_flop_each = each()


def elementwise(
    name: str,
    accepts: Callable = numeric,
    result: Callable | None = None,
    operands: int = 1,
    **options,
) -> Primitive:
    """A primitive that works element by element: its type rule and its batching rule.

    `accepts(dtype)` says which dtypes it takes; `result(dtype)` gives the dtype of the result, by default the same.
    """
    prim = Primitive(name, **options)

    if operands == 1:

        def aval(x, **_):
            if not accepts(x.dtype):
                check_dtypes(name, (x,), accepts)
            if result is None:
                return x
            return ShapedArray(x.shape, result(x.dtype), x.weak_type)

        batching.defvectorized(prim)
    else:

        def aval(*xs, **_):
            check_dtypes(name, xs, accepts)
            dtype = xs[0].dtype if result is None else result(xs[0].dtype)
            weak = all(a.weak_type for a in xs)
            return ShapedArray(joint_shape(name, xs), dtype, weak)

        batching.defbroadcasting(prim)
    prim.def_abstract_eval(aval)
    cost_rules[prim] = _one_flop_each
    return prim


def to_bool(_):
    return np.dtype(bool)


def beside(value, x, *, weak: bool | None = None):
    """A constant for a derivative rule, in the dtype of another value and reduced over the same mesh axes.

    It is a Python number where it is to be `weak`: by default beside a weak scalar, whose derivative is weak by that.
    """
    aval = aval_of(x)
    if weak is None:
        weak = aval.weak_type and not aval.shape
    number = scalar_like(value, aval.update(weak_type=weak))
    if not aval.mat.reduced or state.manual is None:
        return number
    return state.match(number, aval.update(mat=ManualAxisType(reduced=aval.mat.reduced)))


def scalar_like(value, aval):
    """A number as a scalar of a type's dtype, a Python one where the type is weak."""
    if aval.weak_type:
        scalar = dtypes.scalar_type_of(aval.dtype)
        if dtypes.canonicalize_dtype(dtypes.python_scalar_dtype(scalar)) == aval.dtype:
            return scalar(value)
    return convert_on_host(value, aval.dtype)[()]


def convert_on_host(value, dtype) -> np.ndarray:
    """A host value in a dtype, as compiled programs convert it: floats beyond an integer dtype become its nearest end, NaN 0."""
    value = np.asarray(value)
    if not (dtypes.issubdtype(dtype, np.integer) and dtypes.issubdtype(value.dtype, np.floating)):
        return value.astype(dtype)
    info = dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    wide = value.astype(np.float64)
    below, above = wide <= float(low), wide >= float(high)
    out = np.where(below | above | np.isnan(wide), 0.0, wide).astype(dtype)
    out[below], out[above] = low, high
    return out


def operand_aval(x):
    return x.aval if ad.is_undefined_primal(x) else aval_of(x)


def real_part_dtype(dtype):
    """The dtype of real and imaginary parts; real dtypes stay."""
    return np.zeros((), dtype).real.dtype if complexes(dtype) else dtype
