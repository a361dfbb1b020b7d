"""Index tricks: choosing by index, index grids, putting at positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.array import Array
from xlab.core.dims import dim_index, dim_indices
from xlab.core.typing import ArrayLike, DTypeLike, ShapeLike
from xlab.numpy.arithmetic import as_array, scalar
from xlab.numpy.arithmetic import select_promoted as _choose_by_mask
from xlab.numpy.creation import asarray
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    cast_operand,
    check,
    dtype_of,
    host,
    kind_of,
    ndim_of,
    promoted,
    shape_of,
)
from xlab.numpy.shape import ravel

__all__ = [
    "c_",
    "choose",
    "diag_indices_from",
    "fill_diagonal",
    "index_exp",
    "iterable",
    "mask_indices",
    "mgrid",
    "ogrid",
    "place",
    "put",
    "r_",
    "ravel_multi_index",
    "s_",
    "tril_indices_from",
    "triu_indices_from",
    "unravel_index",
]

index_exp, s_ = np.index_exp, np.s_
iterable = np.iterable


def choose(
    a: ArrayLike, choices: ArrayLike | Sequence[ArrayLike], out: None = None, mode: str = "raise"
) -> Array:
    """For each position, the element of the choice that `a` names there.

    Args:
        a: integers.
        choices: arrays that broadcast together, and with `a`.
        out: not supported.
        mode: for numbers out of range: "raise" (with concrete `a`), "wrap" or "clip".

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.choose(jnp.array([1, 0]), [jnp.array([1, 2]), jnp.array([10, 20])])
        Array([10,  2], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError(
            "choose: arrays are not changed in place, so out= is not supported; use the result"
        )
    a, *choices = check("choose", a, *choices)
    if not dtypes.issubdtype(dtype_of(a), np.integer):
        raise ValueError("`a` array must be integer typed")
    n = len(choices)
    if not n and not math.prod(shape_of(a)):
        raise IndexError("choose: there is nothing to choose from: give at least one choice")
    if mode == "raise":
        index = host(a, "choose")
        if ((index < 0) | (index >= n)).any():
            raise ValueError(
                "invalid entry in choice array: numbers go from 0 to the number of choices less one"
            )
        mode = "clip"
    if mode not in ("wrap", "clip"):
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    return _choose(a, choices, mode=mode)


@jit_when_eager(static="mode")
def _choose(a, choices, mode):
    from xlab.numpy.arithmetic import remainder

    n = len(choices)
    index = cast_operand(
        remainder(a, n)
        if mode == "wrap"
        else lax.clamp(cast_operand(0, dtype_of(a)), as_array(a), cast_operand(n - 1, dtype_of(a))),
        np.dtype(np.int32),
    )
    choices = promoted("choose", *choices)
    choices = [cast_operand(c, dtype_of(c)) for c in choices]
    shape = lax.broadcast_shapes(shape_of(a), *map(shape_of, choices))
    spread = [
        lax.broadcast_in_dim(v, shape, range(len(shape) - ndim_of(v), len(shape)))
        for v in (index, *choices)
    ]
    out = lax.select_n(*spread)
    return cast_operand(out, dtype_of(out))


# -- indices ----------------------------------------------------------------------------------------------


@jit_when_eager(static="shape")
def _unravel(indices, shape):
    from xlab.numpy.arithmetic import divmod

    out, rest = [], as_array(indices)
    for size in shape[::-1]:
        rest, place = divmod(rest, size)
        out.append(place)
    above = lax.gt(rest, scalar(0, rest))
    below = (
        None
        if dtypes.issubdtype(dtype_of(rest), np.unsignedinteger)
        else lax.lt(rest, scalar(-1, rest))
    )
    fixed = []
    for place, size in zip(out[::-1], shape):
        place = place if below is None else _choose_by_mask(below, scalar(0, place), place)
        fixed.append(_choose_by_mask(above, scalar(size - 1, place), place))
    return fixed


def unravel_index(indices: ArrayLike, shape: ShapeLike) -> tuple[Array, ...]:
    """Positions in the flattened array as positions along each axis; those out of range go to the ends.

    Example:
        >>> import xlab.numpy as jnp
        >>> [int(i) for i in jnp.unravel_index(5, (2, 3))]
        [1, 2]
    """
    (indices,) = check("unravel_index", indices)
    sizes = (dim_index(shape),) if np.ndim(shape) == 0 else dim_indices(shape)
    return tuple(_unravel(indices, shape=sizes))


def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Positions along each axis as positions in the flattened array.

    Args:
        multi_index: integers for each axis.
        dims: sizes of the axes.
        mode: for numbers out of range: "raise" (with concrete ones), "wrap" or "clip".
        order: "C" or "F", which axis varies fastest.
        dtype: an integer type for the result, by default that of the numbers; it has to hold every position of the array.

    Example:
        >>> import xlab.numpy as jnp
        >>> int(jnp.ravel_multi_index((1, 2), (2, 3)))
        5
    """
    from xlab.numpy.arithmetic import mod
    from xlab.numpy.logic import clip
    from xlab.numpy.ufuncs import add, multiply

    dims = dim_indices(dims)
    parts = list(check("ravel_multi_index", *multi_index))
    if len(parts) != len(dims):
        raise ValueError(f"len(multi_index)={len(parts)} != len(dims)={len(dims)}")
    dtype = (
        dtypes.result_type(*parts)
        if dtype is None
        else dtypes.check_user_dtype(dtype, "ravel_multi_index")
    )
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(
            f"ravel_multi_index: dtype={dtypes.name(dtype)} is not an integer type, as positions are"
        )
    if math.prod(dims) - 1 > dtypes.iinfo(dtype).max:
        raise ValueError(
            f"ravel_multi_index: dtype={dtypes.name(dtype)} is not large enough for the positions in an array of shape {dims}: "
            f"give dtype=, such as 'int32'"
        )
    if mode == "raise":
        for part, d in zip(parts, dims):
            value = host(part, "ravel_multi_index")
            if ((value < 0) | (value >= d)).any():
                raise ValueError("invalid entry in coordinates array")
    elif mode == "clip":
        parts = [clip(p, 0, d - 1) for p, d in zip(parts, dims)]
    elif mode == "wrap":
        parts = [mod(p, d) for p, d in zip(parts, dims)]
    else:
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', or 'clip'")
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    strides = (
        np.cumprod((1, *dims[::-1][:-1]))[::-1] if order == "C" else np.cumprod((1, *dims[:-1]))
    )
    out = None
    for part, stride in zip(parts, strides.tolist()):
        term = multiply(cast_operand(part, dtype), stride)
        out = term if out is None else add(out, term)
    return asarray(out, dtype=dtype)


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Indices of the main diagonal of an array with equal sides.

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.diag_indices_from(jnp.ones((2, 2))))
        2
    """
    from xlab.numpy.grids import diag_indices

    shape = shape_of(*check("diag_indices_from", arr))
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(shape[0], ndim=len(shape))


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """Indices of the lower triangle of a matrix.

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.tril_indices_from(jnp.ones((2, 2)))[0])
        3
    """
    from xlab.numpy.triangles import tril_indices

    n, m = _matrix("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """Indices of the upper triangle of a matrix.

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.triu_indices_from(jnp.ones((2, 2)))[0])
        3
    """
    from xlab.numpy.triangles import triu_indices

    n, m = _matrix("triu_indices_from", arr)
    return triu_indices(n, k, m)


def _matrix(name, arr):
    shape = shape_of(*check(name, arr))
    if len(shape) != 2:
        raise ValueError(f"{name} takes a matrix: only 2-d inputs are accepted, got shape {shape}")
    return shape


def mask_indices(
    n: int, mask_func: Callable, k: int = 0, *, size: int | None = None
) -> tuple[Array, ...]:
    """Indices at which a function such as `triu` leaves a matrix of ones.

    Args:
        n: size of the square matrix.
        mask_func: takes a matrix of ones and `k`, and returns which elements stay.
        k: handed to `mask_func`.
        size: how many entries the result has; needed while tracing, where it cannot depend on
            values.

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.mask_indices(2, jnp.triu)[0])
        3
    """
    from xlab.numpy.creation import ones
    from xlab.numpy.searching import nonzero

    return nonzero(mask_func(ones((n, n)), k), size=size)


class _Grid:
    """`mgrid` and `ogrid`: coordinates of the grid that slices span."""

    def __init__(self, name: str, sparse: bool):
        self.name, self.sparse = name, sparse

    def __repr__(self):
        return f"xlab.numpy.{self.name}"

    def __getitem__(self, key):
        from xlab.numpy.grids import meshgrid
        from xlab.numpy.joining import stack

        if isinstance(key, slice):
            return _from_slice(key)
        if not key:
            return [] if self.sparse else asarray(np.zeros(0, int))
        axes = list(promoted(self.name, *[_from_slice(k) for k in key]))
        out = meshgrid(*axes, indexing="ij", sparse=self.sparse)
        return out if self.sparse else stack(out, 0)


def _from_slice(key: slice):
    from xlab.numpy.grids import arange, linspace

    start, stop, step = (
        0 if key.start is None else key.start,
        key.stop,
        1 if key.step is None else key.step,
    )
    if isinstance(step, complex) or np.iscomplexobj(step):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


mgrid, ogrid = _Grid("mgrid", False), _Grid("ogrid", True)


class _Concatenator:
    """`r_` and `c_`: arrays, numbers and slices joined along an axis.

    A text in front says how: "axis", "axis,ndmin" (least number of dimensions), or "axis,ndmin,place" (where the own dimensions of an
    array stand among those); "r" and "c" make a matrix of one row or column of what would be a vector.
    """

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int):
        self.name, self.defaults = name, (axis, ndmin, trans1d)

    def __repr__(self):
        return f"xlab.numpy.{self.name}"

    def __getitem__(self, key):
        from xlab.numpy.joining import concatenate

        items = list(key) if isinstance(key, tuple) else [key]
        (axis, ndmin, trans1d), matrix = self.defaults, None
        if items and isinstance(items[0], str):
            text = items.pop(0)
            if text in ("r", "c"):
                matrix = text
            else:
                axis, ndmin, trans1d = self._directive(text)
        if any(isinstance(item, str) for item in items):
            raise ValueError(
                f"{self.name}: the string directive must be placed at the beginning, got {key!r}"
            )
        out = concatenate([_at_least(_part(item), ndmin, trans1d) for item in items], axis=axis)
        return (
            out
            if matrix is None or out.ndim > 1
            else lax.expand_dims(out, (0 if matrix == "r" else 1,))
        )

    def _directive(self, text: str):
        try:
            given = [int(v) for v in text.split(",")][:3]
        except ValueError:
            raise ValueError(
                f"{self.name} cannot understand the directive {text!r}: expected 'r', 'c' or up to three integers, "
                f"'axis,ndmin,place'"
            ) from None
        return (*given, *self.defaults[len(given) :])


def _part(item):
    if isinstance(item, slice):
        return _from_slice(item)
    return item if kind_of(item) == "python" else asarray(item)


def _at_least(value, ndmin: int, place: int):
    """An array with new dimensions of size 1 up to a number; its own stand from the `place` on that is asked for."""
    ndim = ndim_of(value)
    new = ndmin - ndim
    if new <= 0:
        return value
    first = min(max(place if place >= 0 else place + new + 1, 0), new) if ndim else 0
    return lax.expand_dims(value, [*range(first), *range(first + ndim, ndmin)])


r_, c_ = _Concatenator("r_", 0, 1, -1), _Concatenator("c_", -1, 2, 0)


# -- changes at positions ---------------------------------------------------------------------------------


def _changed(name, inplace):
    if inplace:
        raise ValueError(
            f"{name}: arrays are never changed in place. Pass inplace=False and use the result."
        )


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """The array with values at positions of the flattened array; needs `inplace=False`.

    Args:
        a: an array.
        ind: positions in the flattened array.
        v: values, repeated as needed.
        mode: what happens to indices outside of the bounds.
        inplace: has to be False: arrays are not written to, the result is a new one.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.put(jnp.zeros(3), jnp.array([0, 2]), 1.0, inplace=False)
        Array([1., 0., 1.], dtype=float32)
    """
    _changed("put", inplace)
    a, ind, v = check("put", a, ind, v)
    ind, v = ravel(ind), ravel(v)
    if not ind.shape[0] or not v.shape[0]:
        return as_array(a)
    n = math.prod(shape_of(a))
    if mode == "clip":
        ind = lax.clamp(cast_operand(0, ind.dtype), ind, cast_operand(n - 1, ind.dtype))
    elif mode == "wrap":
        from xlab.numpy.arithmetic import remainder

        ind = remainder(ind, n)
    elif mode not in (None, "drop"):
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got mode={mode!r}")
    repeats = -(-ind.shape[0] // v.shape[0])
    v = lax.reshape(lax.broadcast_in_dim(v, (repeats, v.shape[0]), (1,)), (repeats * v.shape[0],))[
        : ind.shape[0]
    ]
    return lax.reshape(ravel(a).at[ind].set(v, mode="drop"), shape_of(a))


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """The array with values where a mask holds; needs `inplace=False`.

    Args:
        arr: an array.
        mask: which elements are replaced.
        vals: values, repeated as needed.
        inplace: has to be False: arrays are not written to, the result is a new one.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.place(jnp.zeros(3), jnp.array([True, False, True]), jnp.array([1.0, 2.0]), inplace=False)
        Array([1., 0., 2.], dtype=float32)
    """
    from xlab.numpy.searching import flatnonzero

    _changed("place", inplace)
    arr, mask = check("place", arr, mask)
    if shape_of(arr) != shape_of(mask) and np.prod(shape_of(arr)) != np.prod(shape_of(mask)):
        raise ValueError("place: arr and mask must have the same size")
    vals = ravel(asarray(vals))
    n = math.prod(shape_of(arr))
    if not vals.shape[0]:
        raise ValueError("Cannot place values from an empty array")
    where = flatnonzero(mask, size=n, fill_value=n)
    return lax.reshape(put_flat(ravel(arr), where, vals), shape_of(arr))


def put_flat(flat, where, vals):
    """Values in turn at positions of a vector; positions past its end are left out."""
    n = flat.shape[0]
    repeats = -(-n // vals.shape[0]) if n else 0
    vals = lax.reshape(
        lax.broadcast_in_dim(vals, (repeats, vals.shape[0]), (1,)), (repeats * vals.shape[0],)
    )[:n]
    return flat.at[where].set(cast_operand(vals, flat.dtype), mode="drop")


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """The array with values on its main diagonal; needs `inplace=False`.

    Args:
        a: an array of two or more dimensions.
        val: what to put on the diagonal.
        wrap: has to be False: tall matrices do not begin again below.
        inplace: has to be False: arrays are not written to, the result is a new one.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 1.0, inplace=False)
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    if inplace:
        raise NotImplementedError(
            "fill_diagonal: arrays are immutable; pass inplace=False and use the result"
        )
    if wrap:
        raise NotImplementedError("fill_diagonal: wrap=True is not supported")
    a, val = check("fill_diagonal", a, val)
    a = as_array(a)
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    n = min(a.shape)
    index = lax.iota(np.int32, n)
    return a.at[(index,) * a.ndim].set(
        val if not ndim_of(val) else put_flat(lax.full((n,), 0, a.dtype), index, ravel(val))
    )
