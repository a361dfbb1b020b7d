"""What the elementwise families share: declaring such a primitive, and bringing operands together.

Operands have one shape, or are scalars beside arrays; they have one dtype. Python numbers adapt to the arrays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching

_PYTHON_NUMBERS = frozenset((bool, int, float, complex))

# What a primitive accepts: predicates on dtypes, with their names for messages.
def floating(d):
    return dtypes.issubdtype(d, np.floating)


def inexact(d):
    return dtypes.issubdtype(d, np.inexact)


def integer(d):
    return dtypes.issubdtype(d, np.integer)


def numeric(d):
    return dtypes.issubdtype(d, np.number)


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


_SPOKEN = {floating: "floating-point", inexact: "floating-point or complex", integer: "integer", numeric: "numeric",
           real: "real", integer_or_bool: "integer or bool", ordered: "real or bool", sortable: "numeric or bool", anything: "array",
           complexes: "complex"}


def joint_shape(name: str, avals) -> tuple[int, ...]:
    """The shape of an elementwise result; scalars go with anything, and dimensions of size 1 spread."""
    shape: tuple[int, ...] = ()
    for a in avals:
        if a.shape and a.shape != shape:
            if not shape:
                shape = a.shape
            elif len(shape) == len(a.shape) and all(m == n or m == 1 or n == 1 for m, n in zip(shape, a.shape)):
                shape = tuple(n if m == 1 else m for m, n in zip(shape, a.shape))
            else:
                shapes = ", ".join(str(a.shape) for a in avals)
                raise TypeError(
                    f"{name} got incompatible shapes for broadcasting: {shapes}. Operands are scalars or have one "
                    f"number of dimensions, with sizes equal or 1; reshape one of them.")
    return shape


def check_dtypes(name: str, avals, accepts) -> None:
    first = avals[0].dtype
    for a in avals[1:]:
        if a.dtype != first:
            listed = ", ".join(dtypes.name(a.dtype) for a in avals)
            raise TypeError(f"lax.{name} requires arguments to have equal dtypes, got {listed}. Convert one with "
                            f"lax.convert_element_type, or use xlab.numpy, which promotes.")
    if not accepts(first):
        raise TypeError(f"{name} does not accept dtype {dtypes.name(first)}: it takes {_SPOKEN.get(accepts, 'other')} arrays")


def elementwise(name: str, accepts: Callable = numeric, result: Callable | None = None, operands: int = 1,
                **options) -> Primitive:
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
    return prim


def to_bool(_):
    return np.dtype(bool)


def adapt(name: str, *xs):
    """Operands for a `lax` function: Python numbers take the dtype of the arrays beside them."""
    for x in xs:
        if type(x) in _PYTHON_NUMBERS:
            return _adapted(name, xs)
    return xs


def _adapted(name, xs):
    arrays = [x for x in xs if type(x) not in _PYTHON_NUMBERS]
    if not arrays:
        return xs
    dtype, weak = aval_of(arrays[0]).dtype, all(aval_of(x).weak_type for x in arrays)
    return tuple(scalar_like(name, x, dtype, weak) if type(x) in _PYTHON_NUMBERS else x for x in xs)


def scalar_like(name, x, dtype, weak=False):
    """A Python number as a NumPy scalar of the given dtype (a Python one where that is weak), if that keeps its kind."""
    kind = dtypes.python_scalar_dtype(type(x))
    ok = (dtypes.issubdtype(dtype, np.complexfloating)
          or (not dtypes.issubdtype(kind, np.complexfloating)
              and (dtypes.issubdtype(dtype, np.floating)
                   or (not dtypes.issubdtype(kind, np.floating)
                       and (dtypes.issubdtype(dtype, np.integer) or kind == np.bool_)))))
    if not ok or dtypes.is_extended(dtype):
        raise TypeError(f"lax.{name} requires arguments to have equal dtypes, got {dtypes.name(dtype)} and the Python "
                        f"{type(x).__name__} {x}")
    if type(x) is int and not dtypes.issubdtype(dtype, np.integer):
        aval_of(x)                # a number that no integer type of programs holds is refused
    if type(x) is int and dtypes.issubdtype(dtype, np.integer):
        limits = dtypes.iinfo(dtype)
        if not limits.min <= x <= limits.max:
            raise OverflowError(f"lax.{name}: the Python int {x} does not fit into {dtypes.name(dtype)}, which holds "
                                f"{limits.min} to {limits.max}")
    if weak:
        scalar = dtypes.scalar_type_of(dtype)
        if dtypes.canonicalize_dtype(dtypes.python_scalar_dtype(scalar)) == dtype:
            return scalar(x)
    return np.asarray(x).astype(dtype)[()]


def operand_aval(x):
    return x.aval if ad.is_undefined_primal(x) else aval_of(x)


def real_part_dtype(dtype):
    """The dtype of real and imaginary parts; real dtypes stay."""
    return np.zeros((), dtype).real.dtype if complexes(dtype) else dtype
