"""Ranges and grids: arrays that are functions of their indices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dim_values import range_size
from xlab.core.dims import SymbolicDim, as_dim, compared, dim_index, known_negative
from xlab.core.typing import Array, ArrayLike, DeviceLike, DTypeLike, ShapeLike, ShardingLike
from xlab.errors import InconclusiveDimensionOperation
from xlab.lax.convert import convert_element_type
from xlab.lax.shape import canonical_axis
from xlab.numpy.creation import asarray
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    cast_operand,
    check,
    host,
    kind_of,
    kinds_of,
    ndim_of,
    promoted,
    promoted_inexact,
    shape_of,
    spread_to,
)
from xlab.transforms.vmap import vmap

__all__ = ["arange", "diag_indices", "eye", "fromfunction", "geomspace", "identity", "indices", "ix_", "linspace", "logspace",
           "meshgrid", "vander"]  # fmt: skip


def arange(
    start: ArrayLike,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Evenly spaced values from `start` to below `stop`; the numbers must be known while tracing.

    Args:
        start: the first number, or where only one argument is given the end.
        stop: the end, not included.
        step: distance of the numbers, 1 by default.
        dtype: their dtype; by default that of the arguments.
        device: a device or sharding the result is put on.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.arange(2, 8, 3)
        Array([2, 5], dtype=int32)
    """
    given = [v for v in (start, stop, step) if v is not None]
    if start is None:
        raise TypeError("arange needs a number to stop at, got None")
    if any(isinstance(v, SymbolicDim) for v in given):
        return asarray(
            _symbolic_arange(start, stop, step, dtype), device=device, out_sharding=out_sharding
        )
    check("arange", *given)
    values = [host(v, "arange") for v in given]
    if any(v.ndim for v in values):
        raise ValueError(
            f"arange takes scalars, got shapes {[v.shape for v in values]}: take one number of an array, as x[0]"
        )
    if any(np.iscomplexobj(v) for v in values):
        raise ValueError(
            f"arange counts in real numbers, got {', '.join(map(str, values))}: take the real part, or multiply the result by a complex "
            f"number"
        )
    if dtype is None:
        found = dtypes.result_of(kinds_of(given))[0]
    else:
        found = dtypes.check_user_dtype(dtype, "arange")
    if found == np.bool_ and dtype is None:
        found = dtypes.canonicalize_dtype(np.int64)
    first = start if stop is not None else 0
    last = stop if stop is not None else start
    first, last = host(first, "arange")[()], host(last, "arange")[()]
    by = 1 if step is None else host(step, "arange")[()]
    if by == 0:
        raise ZeroDivisionError("arange needs a step other than 0")
    size = max(0, math.ceil((last - first) / by))
    if dtypes.issubdtype(found, np.integer) and dtype is not None:
        first, by = int(first), int(by) if by == int(by) else by
    out = lax.iota(found, size)
    if step is None and first == 0:
        return asarray(out, device=device, out_sharding=out_sharding)
    out = _affine(out, found.type(first) if first else None, found.type(by) if by != 1 else None)
    return asarray(out, device=device, out_sharding=out_sharding)


def _symbolic_arange(start, stop, step, dtype):
    """`arange` between sizes of which some are symbolic."""
    first, last = (start, stop) if stop is not None else (0, start)
    by = 1 if step is None else step
    if any(as_dim(v) is None for v in (first, last, by)):
        raise ValueError(
            f"arange with symbolic dimensions takes integers and dimensions, got start={first}, stop={last}, step={by}"
        )
    found = dtypes.canonicalize_dtype(np.int64 if dtype is None else dtype)
    if by == 0:
        raise ZeroDivisionError("arange needs a step other than 0")
    if compared(by, ">=", 0) is None:
        raise InconclusiveDimensionOperation(f"arange needs to know the sign of its step {by}")
    out = lax.iota(found, range_size(first, last, by))
    factor, offset = (convert_element_type(v, found) for v in (by, first))
    return _affine(out, offset if first != 0 else None, factor if by != 1 else None)


def _affine(x, offset, factor):
    if factor is not None:
        x = lax.mul(factor, x)
    return x if offset is None else lax.add(offset, x)


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: DeviceLike | None = None,
) -> Array | tuple[Array, Array]:
    """`num` evenly spaced values from `start` to `stop`.

    Args:
        start: where the numbers begin.
        stop: where the numbers end.
        num: how many.
        endpoint: whether `stop` is the last one.
        retstep: whether the distance is returned too.
        dtype: a dtype, floating by default.
        axis: where the new axis stands, for arrays as ends.
        device: a device or sharding the result is put on.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linspace(0, 1, 3)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    num = dim_index(num)
    if known_negative(num):
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    check("linspace", start, stop)
    if dtype is not None:
        dtype = dtypes.check_user_dtype(dtype, "linspace")
    out, step = _linspace(start, stop, num, bool(endpoint), dtype, axis)
    out = asarray(out, device=device)
    return (out, step) if retstep else out


@jit_when_eager(static=("num", "endpoint", "dtype", "axis"))
def _linspace(start, stop, num, endpoint, dtype, axis):
    computed = dtypes.inexact_dtype(dtypes.result_of(kinds_of((start, stop)))[0])
    if dtype is None:
        dtype = computed
    computed = (
        dtypes.promote_types(computed, dtypes.canonicalize_dtype(np.float32))
        if computed != dtype
        else computed
    )
    start, stop = cast_operand(start, computed), cast_operand(stop, computed)
    shape = lax.broadcast_shapes(shape_of(start), shape_of(stop))
    start, stop = spread_to(start, shape), spread_to(stop, shape)
    div = num - 1 if endpoint else num
    if num > 1:
        step = lax.div(lax.sub(stop, start), computed.type(div))
        n = num - 1 if endpoint else num
        ramp = lax.div(
            lax.reshape(lax.iota(_real(computed), n), (n,) + (1,) * len(shape)),
            _real(computed).type(div),
        )
        ramp = cast_operand(ramp, computed)
        down = lax.sub(computed.type(1), ramp)
        first, last = lax.reshape(start, (1, *shape)), lax.reshape(stop, (1, *shape))
        out = lax.add(lax.mul(first, down), lax.mul(last, ramp))
        if endpoint:
            out = lax.concatenate([out, last], 0)
    elif num == 1:
        step = lax.sub(stop, start) if not endpoint else lax.full((), np.nan, computed)
        out = lax.reshape(start, (1, *shape))
    else:
        step = lax.full((), np.nan, computed)
        out = lax.full((0, *shape), 0, computed)
    axis = canonical_axis(axis, len(shape) + 1)
    if axis:
        order = list(range(1, len(shape) + 1))
        order.insert(axis, 0)
        out = lax.transpose(out, order)
    if dtypes.issubdtype(dtype, np.integer) and not dtypes.issubdtype(computed, np.integer):
        out = lax.floor(out)
    return cast_operand(out, dtype), step


def _real(dtype):
    return np.zeros((), dtype).real.dtype if dtypes.issubdtype(dtype, np.complexfloating) else dtype


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`num` values from `base**start` to `base**stop` with equal ratios.

    Args:
        start, stop: exponents of the ends.
        num: how many.
        endpoint: whether `stop` is the last one.
        base: the base of the powers.
        dtype: a dtype, floating by default.
        axis: where the new axis stands, for arrays as ends.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.logspace(0, 2, 3)
        Array([  1.,  10., 100.], dtype=float32)
    """
    from xlab.numpy.arithmetic import power

    exponents = linspace(start, stop, num, endpoint, axis=axis)
    out = power(cast_operand(base, exponents.aval.dtype), exponents)
    return out if dtype is None else cast_operand(out, dtypes.check_user_dtype(dtype, "logspace"))


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`num` values from `start` to `stop` with equal ratios.

    Args:
        start: where the numbers begin.
        stop: where the numbers end.
        num: how many.
        endpoint: whether `stop` is the last one.
        dtype: a dtype, floating by default.
        axis: where the new axis stands, for arrays as ends.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.geomspace(1.0, 4.0, 3).shape
        (3,)
    """
    from xlab.numpy.arithmetic import log10
    from xlab.numpy.arithmetic import sign as sign_of
    from xlab.numpy.ufuncs import multiply, true_divide

    start, stop = promoted_inexact("geomspace", start, stop)
    sign = sign_of(start)
    out = logspace(
        log10(true_divide(start, sign)), log10(true_divide(stop, sign)), num, endpoint, axis=axis
    )
    if ndim_of(sign):
        shape = lax.broadcast_shapes(shape_of(start), shape_of(stop))
        sign = lax.expand_dims(spread_to(sign, shape), (canonical_axis(axis, len(shape) + 1),))
    out = multiply(sign, out)
    return out if dtype is None else cast_operand(out, dtypes.check_user_dtype(dtype, "geomspace"))


def eye(
    N: int,
    M: int | None = None,
    k: ArrayLike = 0,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
) -> Array:
    """A matrix with ones on a diagonal.

    Args:
        N: number of rows.
        M: number of columns, by default as many as rows.
        k: which diagonal: 0 the main one, positive above, negative below.
        dtype: its dtype, float32 by default.
        device: a device or sharding the result is put on.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.eye(2)
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    dtype = (
        dtypes.canonicalize_dtype(np.float64)
        if dtype is None
        else dtypes.check_user_dtype(dtype, "eye")
    )
    n = dim_index(N)
    m = n if M is None else dim_index(M)
    if known_negative(n) or known_negative(m):
        raise ValueError(f"negative dimensions are not allowed, got {n} and {m}")
    return asarray(_diagonal(n, m, k if hasattr(k, "aval") else dim_index(k), dtype), device=device)


@jit_when_eager(static=("n", "m", "dtype"))
def _diagonal(n, m, k, dtype):
    rows = lax.broadcasted_iota(np.int32, (n, m), 0)
    columns = lax.broadcasted_iota(np.int32, (n, m), 1)
    return lax.convert_element_type(
        lax.eq(lax.add(rows, cast_operand(k, np.dtype(np.int32))), columns), dtype
    )


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The identity matrix.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.identity(2, int)
        Array([[1, 0],
               [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Indices of the main diagonal of an array with equal sides.

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.diag_indices(3))
        2
    """
    if n < 0 or ndim < 0:
        raise ValueError(f"diag_indices takes non-negative sizes, got n={n}, ndim={ndim}")
    return (arange(n),) * ndim


def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False
) -> Array | tuple[Array, ...]:
    """The index along each dimension, for every element of a grid.

    Args:
        dimensions: the shape of the grid.
        dtype: an integer dtype, int32 by default.
        sparse: whether to return one array for each axis, of size 1 along the others.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.indices((2, 3)).shape
        (2, 2, 3)
    """
    dimensions = tuple(dim_index(d) for d in dimensions)
    dtype = dtypes.canonicalize_dtype(np.int64 if dtype is None else dtype)
    n = len(dimensions)
    out = []
    for i, d in enumerate(dimensions):
        shape = tuple(d if j == i else 1 for j in range(n)) if sparse else dimensions
        out.append(lax.broadcast_in_dim(lax.iota(dtype, d), shape, (i,)))
    if sparse:
        return tuple(out)
    if not out:
        return lax.full((0,), 0, dtype)
    return lax.concatenate([lax.expand_dims(x, (0,)) for x in out], 0)


def fromfunction(
    function: Callable, shape: ShapeLike, *, dtype: DTypeLike | None = float, **kwargs: Any
) -> Any:
    """An array whose entries are a function of their indices; the function is called once, on scalars under `vmap`.

    Args:
        function: from one index per axis to an array or a pytree of them; its shapes follow those of the grid.
        shape: of the grid: a size, or one per axis.
        dtype: of the indices.
        kwargs: passed on; arrays are mapped along with the indices, an axis for each axis of the grid.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
        Array([[0, 1],
               [1, 2]], dtype=int32)
    """
    try:
        sizes = tuple(map(dim_index, (shape,) if np.ndim(shape) == 0 else shape))
    except TypeError:
        raise TypeError(
            f"fromfunction needs sizes known while tracing, got shape {shape!r}"
        ) from None
    mapped = {name: v for name, v in kwargs.items() if kind_of(v) is not None and ndim_of(v)}
    fun = functools.partial(
        function, **{name: v for name, v in kwargs.items() if name not in mapped}
    )
    for i in reversed(range(len(sizes))):
        fun = vmap(fun, in_axes=tuple([0 if j == i else None for j in range(len(sizes))]))
    return fun(*[arange(n, dtype=dtype) for n in sizes], **mapped)


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Coordinate arrays of the grid that vectors span.

    Args:
        xi: vectors, one for each axis.
        copy: has no effect: arrays are not written to.
        sparse: whether each result has size 1 along the axes of the others.
        indexing: 'xy' (the first two axes swapped) or 'ij'.

    Example:
        >>> import xlab.numpy as jnp
        >>> x, y = jnp.meshgrid(jnp.arange(3), jnp.arange(2))
        >>> x.shape
        (2, 3)
    """
    xi = check("meshgrid", *xi)
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    if any(ndim_of(x) != 1 for x in xi):
        raise ValueError(f"meshgrid takes vectors, got shapes {[shape_of(x) for x in xi]}")
    return _meshgrid(list(xi), sparse=bool(sparse), indexing=indexing)


@jit_when_eager(static=("sparse", "indexing"))
def _meshgrid(xi, sparse, indexing):
    places = list(range(len(xi)))
    if indexing == "xy" and len(xi) >= 2:
        places[0], places[1] = 1, 0
    shape = [0] * len(xi)
    for x, place in zip(xi, places):
        shape[place] = shape_of(x)[0]
    return [
        lax.broadcast_in_dim(
            x, [s if not sparse or i == place else 1 for i, s in enumerate(shape)], (place,)
        )
        for x, place in zip(xi, places)
    ]


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays that select the cross product of positions.

    Example:
        >>> import xlab.numpy as jnp
        >>> [i.shape for i in jnp.ix_(jnp.arange(2), jnp.arange(3))]
        [(2, 1), (1, 3)]
    """
    out = []
    for i, a in enumerate(args):
        a = asarray(a)
        if a.ndim != 1:
            raise ValueError(f"ix_ takes vectors, got shape {a.shape} at position {i}")
        if a.dtype == np.bool_:
            a = asarray(np.nonzero(host(a, "ix_"))[0])
        elif not a.size:
            a = a.astype(np.int32)  # as an empty list of positions is
        out.append(
            lax.broadcast_in_dim(a, [a.shape[0] if j == i else 1 for j in range(len(args))], (i,))
        )
    return tuple(out)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix of powers of a vector.

    Args:
        x: a vector.
        N: number of columns; by default a square matrix.
        increasing: whether powers grow from left to right.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.vander(jnp.array([1.0, 2.0]), 3)
        Array([[1., 1., 1.],
               [4., 2., 1.]], dtype=float32)
    """
    (x,) = check("vander", x)
    if ndim_of(x) != 1:
        raise ValueError(f"vander takes a vector, got shape {shape_of(x)}")
    n = shape_of(x)[0] if N is None else dim_index(N)
    if n < 0:
        raise ValueError(f"vander: N must be non-negative, got {n}")
    return _vander(x, n, bool(increasing))


@jit_when_eager(static=("n", "increasing"))
def _vander(x, n, increasing):
    from xlab.numpy.arithmetic import power

    dtype = aval_of(x).dtype
    exponents = lax.iota(dtype, n)
    if not increasing:
        exponents = lax.sub(dtype.type(n - 1), exponents)
    (x,) = promoted("vander", x)
    return power(lax.expand_dims(x, (1,)), lax.expand_dims(exponents, (0,)))
