"""Reductions: sums, products, extrema, truth.

Small integers and booleans are summed in 32 bits or more, 16-bit floats in 32-bit floats; `where` masks with the
identity; `initial` takes part as one more element.
"""

from __future__ import annotations

import math
import operator

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.alias import alias
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, AxisLike, DTypeLike
from xlab.lax.convert import convert
from xlab.lax.reductions import highest, lowest
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import select_promoted
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.logic import truth
from xlab.numpy.operands import (
    cast_operand,
    check,
    dtype_of,
    index_dtype,
    known_axis,
    narrow_host_dtype,
    ndim_of,
    no_out,
    shape_of,
    strip_weak_type,
)

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "max", "min", "prod", "ptp", "sum",]  # fmt: skip


def axes_of(name: str, axis, ndim: int) -> tuple[int, ...]:
    """Axes as numbers from 0; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    known_axis(axis, name)
    try:
        axes = (operator.index(axis),)
    except TypeError:
        axes = tuple(operator.index(a) for a in axis)
    axes = tuple(canonical_axis(a, ndim) for a in axes)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis} of {name}")
    return axes


def kept(x, out, axes):
    """The result with reduced axes as dimensions of size 1."""
    shape = shape_of(x)
    return lax.broadcast_in_dim(
        out,
        [1 if i in axes else d for i, d in enumerate(shape)],
        [i for i in range(len(shape)) if i not in axes],
    )


def widened(dtype):
    """The dtype small integers are summed in."""
    if dtype == np.bool_:
        return dtypes.canonicalize_dtype(np.int64)
    for category, wide in ((np.unsignedinteger, np.uint64), (np.integer, np.int64)):
        if dtypes.issubdtype(dtype, category):
            return dtypes.promote_types(dtype, dtypes.canonicalize_dtype(wide))
    return dtype


def is_half(dtype) -> bool:
    return dtypes.issubdtype(dtype, np.floating) and dtypes.itemsize(dtype) < 4


def _prepare(name, a, dtype):
    """The operand in the dtype it is reduced in, and the dtype of the result."""
    a = narrow_host_dtype(*check(name, a))
    result = dtypes.check_user_dtype(dtype, name) if dtype is not None else widened(dtype_of(a))
    computed = result
    if is_half(result):
        computed = np.dtype(np.float32)
    return cast_operand(a, computed), result


def _masked(a, where, identity):
    if where is None or where is True:
        return a
    (where,) = check("where", where)
    if dtype_of(where) != np.bool_:
        raise ValueError(
            f"where must be None or a boolean array; got one of dtype {dtype_of(where)}. Compare it first, as in "
            f"where != 0."
        )
    return select_promoted(where, a, cast_operand(identity, aval_of(a).dtype))


def _check_initial(name, initial):
    if initial is not None and ndim_of(*check(name, initial)):
        raise ValueError(f"{name}: initial value must be a scalar, got shape {shape_of(initial)}")


def _additive(
    name, reduce, combine, identity, a, axis, dtype, out, keepdims, initial, where, promote_integers
):
    no_out(name, out)
    if not promote_integers and dtype is None and (given := dtype_of(*check(name, a))) != np.bool_:
        dtype = given
    _check_initial(name, initial)
    if dtype is not None and dtypes.to_dtype(dtype) == np.bool_:
        logical = any if reduce is lax.reduce_sum else all
        return logical(a, axis, keepdims=keepdims, where=where)
    a, result = _prepare(name, a, dtype)
    if where is not None and where is not True:
        a = _masked(a, where, identity)
    axes = axes_of(name, axis, ndim_of(a))
    total = reduce(a, axes)
    if initial is not None:
        total = combine(cast_operand(initial, aval_of(total).dtype), total)
    if keepdims:
        total = kept(a, total, axes)
    return convert(total, result, False)


@jit_when_eager(static=("axis", "dtype", "out", "keepdims", "promote_integers"))
def sum(
    a: ArrayLike,
    axis: AxisLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Sum over axes.

    Args:
        a: array.
        axis: an axis or a tuple of them; all by default.
        dtype: type of the result; integers are summed in at least 32 bits by default.
        out: not supported.
        keepdims: whether reduced axes stay as dimensions of size 1.
        initial: a value to start from.
        where: mask of the elements that take part.
        promote_integers: whether small integers are summed in a wider type.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.sum(jnp.ones((2, 3)), axis=1)
        Array([3., 3.], dtype=float32)
    """
    return _additive(
        "sum",
        lax.reduce_sum,
        lax.add,
        0,
        a,
        axis,
        dtype,
        out,
        keepdims,
        initial,
        where,
        promote_integers,
    )


@jit_when_eager(static=("axis", "dtype", "out", "keepdims", "promote_integers"))
def prod(
    a: ArrayLike,
    axis: AxisLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Product over axes; the arguments are those of `sum`.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        initial: a value the reduction starts from.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.
        promote_integers: whether small integers are multiplied in the default integer width.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.prod(jnp.array([2, 3, 4]))
        Array(24, dtype=int32)
    """
    return _additive(
        "prod",
        lax.reduce_prod,
        lax.mul,
        1,
        a,
        axis,
        dtype,
        out,
        keepdims,
        initial,
        where,
        promote_integers,
    )


def _extremum(name, reduce, combine, identity, a, axis, out, keepdims, initial, where):
    no_out(name, out)
    a = narrow_host_dtype(*check(name, a))
    axes = axes_of(name, axis, ndim_of(a))
    _check_initial(name, initial)
    if initial is None:
        if any_empty(a, axes):
            raise ValueError(
                f"zero-size array to reduction operation {name} which has no identity: its axes {axes} of shape "
                f"{shape_of(a)} are empty. Give initial= for empty arrays."
            )
        if where is not None and where is not True:
            raise ValueError(
                f"reduction operation {name} does not have an identity, so to use a where mask one has to "
                f"specify 'initial'"
            )
    # What is weak stops being so before the reduction, so that its derivative is weak again.
    found = reduce(_masked(strip_weak_type(a), where, identity(dtype_of(a))), axes)
    if initial is not None:
        found = combine(cast_operand(initial, aval_of(found).dtype), found)
    return kept(a, found, axes) if keepdims else found


def _strong(x):
    return convert(x, aval_of(x).dtype, False)


def any_empty(a, axes) -> bool:
    shape = shape_of(a)
    return not math.prod([shape[i] for i in axes])


@jit_when_eager(static=("axis", "out", "keepdims"))
def max(
    a: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Maximum over axes; NaN where there is one.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        initial: a value the reduction starts from.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.max(jnp.array([[1, 5], [2, 3]]), axis=0)
        Array([2, 5], dtype=int32)
    """
    return _extremum("max", lax.reduce_max, lax.max, lowest, a, axis, out, keepdims, initial, where)


@jit_when_eager(static=("axis", "out", "keepdims"))
def min(
    a: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Minimum over axes; NaN where there is one.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        initial: a value the reduction starts from.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.min(jnp.array([[1, 5], [2, 3]]), axis=0)
        Array([1, 3], dtype=int32)
    """
    return _extremum(
        "min", lax.reduce_min, lax.min, highest, a, axis, out, keepdims, initial, where
    )


amax, amin = alias(max, "amax"), alias(min, "amin")


def _logical(name, reduce, identity, a, axis, out, keepdims, where):
    no_out(name, out)
    a = truth(*check(name, a))
    if where is not None and where is not True:
        a = _masked(a, where, identity)
    axes = axes_of(name, axis, ndim_of(a))
    found = reduce(a, axes)
    return _strong(kept(a, found, axes) if keepdims else found)


@jit_when_eager(static=("axis", "out", "keepdims"))
def any(
    a: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether any element is true.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.any(jnp.array([0, 1]))
        Array(True, dtype=bool)
    """
    return _logical("any", lax.reduce_or, np.False_, a, axis, out, keepdims, where)


@jit_when_eager(static=("axis", "out", "keepdims"))
def all(
    a: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements are true.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.all(jnp.array([0, 1]))
        Array(False, dtype=bool)
    """
    return _logical("all", lax.reduce_and, np.True_, a, axis, out, keepdims, where)


@jit_when_eager(static=("axis", "keepdims"))
def count_nonzero(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """Number of elements that are not zero.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        keepdims: whether the reduced dimensions stay, with size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.count_nonzero(jnp.array([0, 3, 4]))
        Array(2, dtype=int32)
    """
    return sum(truth(*check("count_nonzero", a)), axis=axis, dtype=index_dtype(), keepdims=keepdims)


@jit_when_eager(static=("axis", "out", "keepdims"))
def ptp(
    a: ArrayLike, axis: AxisLike | None = None, out: None = None, keepdims: bool = False
) -> Array:
    """Maximum minus minimum over axes.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.ptp(jnp.array([3, 1, 7]))
        Array(6, dtype=int32)
    """
    no_out("ptp", out)
    return lax.sub(max(a, axis=axis, keepdims=keepdims), min(a, axis=axis, keepdims=keepdims))


def _arg(name, op, a, axis, out, keepdims):
    no_out(name, out)
    a = narrow_host_dtype(*check(name, a))
    ndim = ndim_of(a)
    if axis is None:
        found = op(lax.reshape(a, (math.prod(shape_of(a)),)), 0, index_dtype())
        return lax.reshape(found, (1,) * ndim) if keepdims else found
    axis = canonical_axis(axis, ndim)
    found = op(a, axis, index_dtype())
    return lax.expand_dims(found, (axis,)) if keepdims else found


@jit_when_eager(static=("axis", "out", "keepdims"))
def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Position of the maximum; the first of several.

    Args:
        a: an array.
        axis: the axis to search; by default the flattened array.
        out: has to be None: arrays are not written to.
        keepdims: whether the searched dimension stays, with size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.argmax(jnp.array([1, 5, 5]))
        Array(1, dtype=int32)
    """
    return _arg("argmax", lax.argmax, a, axis, out, keepdims)


@jit_when_eager(static=("axis", "out", "keepdims"))
def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Position of the minimum; the first of several.

    Args:
        a: an array.
        axis: the axis to search; by default the flattened array.
        out: has to be None: arrays are not written to.
        keepdims: whether the searched dimension stays, with size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.argmin(jnp.array([3, 1, 1]))
        Array(1, dtype=int32)
    """
    return _arg("argmin", lax.argmin, a, axis, out, keepdims)
