"""Remaining names: choosing by index, index grids, changes at positions, files, bits in bytes, printing."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xlab import lax
from xlab.backend.client import default_device
from xlab.core import dtypes
from xlab.core.array import Array
from xlab.core.typing import ArrayLike, DeviceLike, DTypeLike, ShapeLike
from xlab.numpy.arithmetic import as_array, scalar
from xlab.numpy.arithmetic import select_promoted as _choose_by_mask
from xlab.numpy.creation import array, asarray
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
from xlab.sharding import Sharding, SingleDeviceSharding

__all__ = ["array_repr", "array_str", "c_", "choose", "diag_indices_from", "fill_diagonal", "frombuffer", "from_dlpack", "fromfile",
           "fromiter", "fromstring", "get_printoptions", "index_exp", "iterable", "load", "mask_indices", "mgrid", "ogrid",
           "packbits", "place", "printoptions", "put", "r_", "ravel_multi_index", "s_", "save", "savez", "set_printoptions",
           "tril_indices_from", "triu_indices_from", "unpackbits", "unravel_index"]  # fmt: skip

index_exp, s_ = np.index_exp, np.s_
array_repr, array_str = np.array_repr, np.array_str
get_printoptions, set_printoptions, printoptions = np.get_printoptions, np.set_printoptions, np.printoptions
save, savez = np.save, np.savez
iterable = np.iterable


def choose(a: ArrayLike, choices: ArrayLike | Sequence[ArrayLike], out: None = None, mode: str = "raise") -> Array:
    """For each position, the element of the choice whose number stands there.

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
        raise NotImplementedError("choose: arrays are not changed in place, so out= is not supported; use the result")
    a, *choices = check("choose", a, *choices)
    if not dtypes.issubdtype(dtype_of(a), np.integer):
        raise ValueError("`a` array must be integer typed")
    n = len(choices)
    if not n and not math.prod(shape_of(a)):
        raise IndexError("choose: there is nothing to choose from: give at least one choice")
    if mode == "raise":
        index = host(a, "choose")
        if ((index < 0) | (index >= n)).any():
            raise ValueError("invalid entry in choice array: numbers go from 0 to the number of choices less one")
        mode = "clip"
    if mode not in ("wrap", "clip"):
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    return _choose(a, choices, mode=mode)


@jit_when_eager(static="mode")
def _choose(a, choices, mode):
    from xlab.numpy.arithmetic import remainder
    n = len(choices)
    index = cast_operand(remainder(a, n) if mode == "wrap" else lax.clamp(cast_operand(0, dtype_of(a)), as_array(a), cast_operand(n - 1, dtype_of(a))),
                  np.dtype(np.int32))
    choices = promoted("choose", *choices)
    choices = [cast_operand(c, dtype_of(c)) for c in choices]
    shape = lax.broadcast_shapes(shape_of(a), *map(shape_of, choices))
    spread = [lax.broadcast_in_dim(v, shape, range(len(shape) - ndim_of(v), len(shape))) for v in (index, *choices)]
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
    below = None if dtypes.issubdtype(dtype_of(rest), np.unsignedinteger) else lax.lt(rest, scalar(-1, rest))
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
    sizes = (operator.index(shape),) if np.ndim(shape) == 0 else tuple(map(operator.index, shape))
    return tuple(_unravel(indices, shape=sizes))


def ravel_multi_index(multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise", order: str = "C", *, dtype: DTypeLike | None = None) -> Array:
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
    dims = tuple(map(operator.index, dims))
    parts = list(check("ravel_multi_index", *multi_index))
    if len(parts) != len(dims):
        raise ValueError(f"len(multi_index)={len(parts)} != len(dims)={len(dims)}")
    dtype = dtypes.result_type(*parts) if dtype is None else dtypes.check_user_dtype(dtype, "ravel_multi_index")
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(f"ravel_multi_index: dtype={dtypes.name(dtype)} is not an integer type, as positions are")
    if math.prod(dims) - 1 > dtypes.iinfo(dtype).max:
        raise ValueError(f"ravel_multi_index: dtype={dtypes.name(dtype)} is not large enough for the positions in an array of shape {dims}: "
                         f"give dtype=, such as 'int32'")
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
    strides = np.cumprod((1, *dims[::-1][:-1]))[::-1] if order == "C" else np.cumprod((1, *dims[:-1]))
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
    from xlab.numpy.grids import tril_indices
    n, m = _matrix("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """Indices of the upper triangle of a matrix.

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.triu_indices_from(jnp.ones((2, 2)))[0])
        3
    """
    from xlab.numpy.grids import triu_indices
    n, m = _matrix("triu_indices_from", arr)
    return triu_indices(n, k, m)


def _matrix(name, arr):
    shape = shape_of(*check(name, arr))
    if len(shape) != 2:
        raise ValueError(f"{name} takes a matrix: only 2-d inputs are accepted, got shape {shape}")
    return shape


def mask_indices(n: int, mask_func: Callable, k: int = 0, *, size: int | None = None) -> tuple[Array, ...]:
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
    start, stop, step = 0 if key.start is None else key.start, key.stop, 1 if key.step is None else key.step
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
            raise ValueError(f"{self.name}: the string directive must be placed at the beginning, got {key!r}")
        out = concatenate([_at_least(_part(item), ndmin, trans1d) for item in items], axis=axis)
        return out if matrix is None or out.ndim > 1 else lax.expand_dims(out, (0 if matrix == "r" else 1,))

    def _directive(self, text: str):
        try:
            given = [int(v) for v in text.split(",")][:3]
        except ValueError:
            raise ValueError(f"{self.name} cannot understand the directive {text!r}: expected 'r', 'c' or up to three integers, "
                             f"'axis,ndmin,place'") from None
        return (*given, *self.defaults[len(given):])


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
        raise ValueError(f"{name}: arrays are never changed in place. Pass inplace=False and use the result.")


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
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
    n = int(np.prod(shape_of(a), dtype=np.int64))
    if mode == "clip":
        ind = lax.clamp(cast_operand(0, ind.dtype), ind, cast_operand(n - 1, ind.dtype))
    elif mode == "wrap":
        from xlab.numpy.arithmetic import remainder
        ind = remainder(ind, n)
    elif mode not in (None, "drop"):
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got mode={mode!r}")
    repeats = -(-ind.shape[0] // v.shape[0])
    v = lax.reshape(lax.broadcast_in_dim(v, (repeats, v.shape[0]), (1,)), (repeats * v.shape[0],))[:ind.shape[0]]
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
    n = int(np.prod(shape_of(arr), dtype=np.int64))
    if not vals.shape[0]:
        raise ValueError("Cannot place values from an empty array")
    where = flatnonzero(mask, size=n, fill_value=n)
    return lax.reshape(put_flat(ravel(arr), where, vals), shape_of(arr))


def put_flat(flat, where, vals):
    """Values in turn at positions of a vector; positions past its end are left out."""
    n = flat.shape[0]
    repeats = -(-n // vals.shape[0]) if n else 0
    vals = lax.reshape(lax.broadcast_in_dim(vals, (repeats, vals.shape[0]), (1,)), (repeats * vals.shape[0],))[:n]
    return flat.at[where].set(cast_operand(vals, flat.dtype), mode="drop")


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """The array with values on its main diagonal; needs `inplace=False`.

    Args:
        a: an array of two or more dimensions.
        val: what to put on the diagonal.
        wrap: whether tall matrices begin again below.
        inplace: has to be False: arrays are not written to, the result is a new one.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 1.0, inplace=False)
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    if inplace:
        raise NotImplementedError("fill_diagonal: arrays are immutable; pass inplace=False and use the result")
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
    return a.at[(index,) * a.ndim].set(val if not ndim_of(val) else put_flat(lax.full((n,), 0, a.dtype), index, ravel(val)))


# -- bytes and files --------------------------------------------------------------------------------------


@jit_when_eager(static=("axis", "bitorder"))
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight booleans per byte along an axis.

    Args:
        a: booleans or integers, nonzero meaning 1.
        axis: the axis to pack along; by default the flattened array.
        bitorder: 'big' or 'little': which bit of a byte comes first.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.packbits(jnp.array([1, 0, 1]))
        Array([160], dtype=uint8)
    """
    from xlab.numpy.logic import truth
    (a,) = check("packbits", a)
    if not (dtypes.issubdtype(dtype_of(a), np.integer) or dtype_of(a) == np.bool_):
        raise TypeError("Expected an input array of integer or boolean data type")
    shifts = _shifts("packbits", bitorder)
    a, axis = (ravel(a), 0) if axis is None else (as_array(a), axis % ndim_of(a))
    bits = lax.convert_element_type(truth(a), np.uint8)
    n = bits.shape[axis]
    bits = lax.pad(bits, np.uint8(0), [(0, -n % 8, 0) if i == axis else (0, 0, 0) for i in range(bits.ndim)])
    shape = bits.shape
    bits = lax.reshape(bits, (*shape[:axis], shape[axis] // 8, 8, *shape[axis + 1:]))
    wide = lax.broadcast_in_dim(shifts, bits.shape, (axis + 1,))
    return lax.reduce_sum(lax.shift_left(bits, wide), (axis + 1,))


def _shifts(name, bitorder):
    if bitorder not in ("little", "big"):
        raise ValueError(f"{name}: 'order' must be either 'little' or 'big', got {bitorder!r}")
    return np.arange(8, dtype=np.uint8)[::-1 if bitorder == "big" else 1].copy()


@jit_when_eager(static=("axis", "count", "bitorder"))
def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The eight bits of each byte along an axis.

    Args:
        a: bytes, uint8.
        axis: the axis to unpack along; by default the flattened array.
        count: how many bits to keep.
        bitorder: 'big' or 'little': which bit of a byte comes first.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unpackbits(jnp.array([160], dtype=jnp.uint8))
        Array([1, 0, 1, 0, 0, 0, 0, 0], dtype=uint8)
    """
    (a,) = check("unpackbits", a)
    if dtype_of(a) != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    shifts = _shifts("unpackbits", bitorder)
    a, axis = (ravel(a), 0) if axis is None else (as_array(a), axis % ndim_of(a))
    shape = (*a.shape[:axis + 1], 8, *a.shape[axis + 1:])
    wide = lax.broadcast_in_dim(a, shape, [i + (i > axis) for i in range(a.ndim)])
    bits = lax.bitwise_and(lax.shift_right_logical(wide, lax.broadcast_in_dim(shifts, shape, (axis + 1,))), np.uint8(1))
    bits = lax.reshape(bits, (*a.shape[:axis], a.shape[axis] * 8, *a.shape[axis + 1:]))
    if count is None:
        return bits
    n = bits.shape[axis]
    if count > n:
        return lax.pad(bits, np.uint8(0), [(0, count - n, 0) if i == axis else (0, 0, 0) for i in range(bits.ndim)])
    return lax.slice_in_dim(bits, 0, count if count >= 0 else max(n + count, 0), axis=axis)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Arrays from a file of `numpy.save`; bfloat16, which such files call two bytes without meaning, is recognized.

    Values that are no numbers, among them those of the other narrow types, come as NumPy arrays.

    Args:
        file: a path or an open file.
        args: as for `numpy.load`.
        kwargs: as for `numpy.load`.

    Example:
        >>> import io
        >>> import xlab.numpy as jnp
        >>> f = io.BytesIO()
        >>> jnp.save(f, jnp.ones(2))
        >>> _ = f.seek(0)
        >>> jnp.load(f)
        Array([1., 1.], dtype=float32)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == np.dtype("V2"):
        found = found.view(dtypes.bfloat16)
    numbers = found.dtype == dtypes.bfloat16 or (found.dtype.kind not in "OSUVMm" and found.dtype.isnative)
    return asarray(found) if numbers else found


def frombuffer(buffer: bytes | Any, dtype: DTypeLike | None = float, count: int = -1, offset: int = 0) -> Array:
    """A vector from bytes.

    Args:
        buffer: an object with the buffer interface, such as `bytes`.
        dtype: the dtype of the items.
        count: how many items; -1 for all.
        offset: where to begin, in bytes.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.frombuffer(bytes([1, 2]), jnp.uint8)
        Array([1, 2], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtype=dtypes.to_dtype(dtype), count=count, offset=offset))


def fromiter(iterable: Iterable, dtype: DTypeLike | None, count: int = -1) -> Array:
    """A vector from the values of an iterable.

    Args:
        iterable: numbers.
        dtype: the dtype of the items.
        count: how many items; -1 for all.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fromiter(range(3), int)
        Array([0, 1, 2], dtype=int32)
    """
    return asarray(np.fromiter(iterable, dtype=dtypes.to_dtype(dtype), count=count))


def fromfile(file: Any, dtype: DTypeLike | None = float, count: int = -1, sep: str = "", offset: int = 0) -> Array:
    """A vector from the numbers in a file, read at once: in a traced function they are constants.

    Args:
        file: a path or an open file.
        dtype: the dtype of the items.
        count: how many items; -1 for all.
        sep: what stands between items written as text.
        offset: where to begin, in bytes.

    Example:
        >>> import tempfile, numpy as np, xlab.numpy as jnp
        >>> with tempfile.TemporaryFile() as file:
        ...     np.float32([1, 2]).tofile(file), file.seek(0)
        ...     print(jnp.fromfile(file, jnp.float32))
        (None, 0)
        [1. 2.]
    """
    return asarray(np.fromfile(file, dtype=dtypes.to_dtype(dtype), count=count, sep=sep, offset=offset))


def fromstring(string: str, dtype: DTypeLike | None = float, count: int = -1, *, sep: str) -> Array:
    """A vector from a text of numbers.

    Args:
        string: numbers as text.
        dtype: the dtype of the items.
        count: how many items; -1 for all.
        sep: what stands between items written as text.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fromstring("1 2", int, sep=" ")
        Array([1, 2], dtype=int32)
    """
    return asarray(np.fromstring(string, dtype=dtypes.to_dtype(dtype), count=count, sep=sep))


def from_dlpack(x: Any, /, *, device: DeviceLike | None = None, copy: bool | None = None) -> Array:
    """An array from another library's, through the DLPack protocol.

    Args:
        x: an array with the methods `__dlpack__` and `__dlpack_device__`.
        device: a device or a sharding for the result.
        copy: True always copies, False never does.

    Raises:
        TypeError: `x` has no such methods.
        BufferError: its dtype or layout is none that DLPack knows.
        ValueError: with `copy=False` the device would need a copy.

    Example:
        >>> import numpy as np
        >>> import xlab.numpy as jnp
        >>> jnp.from_dlpack(np.ones(2, np.float32))
        Array([1., 1.], dtype=float32)
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack needs an array with the methods __dlpack__ and __dlpack_device__, got {type(x)}")
    if copy is False and device is not None:
        here = x.sharding if isinstance(x, Array) else SingleDeviceSharding(default_device())
        there = device if isinstance(device, Sharding) else SingleDeviceSharding(device)
        if there.device_set != here.device_set:
            raise ValueError(f"from_dlpack: the array is on {here} and device={device} needs a copy, which copy=False forbids: "
                             f"leave copy out")
    if isinstance(x, Array):
        return array(x, copy=bool(copy), device=device)
    try:
        host = np.from_dlpack(x)
    except (RuntimeError, BufferError) as e:
        raise BufferError(f"from_dlpack cannot take {type(x).__name__} with dtype {getattr(x, 'dtype', 'unknown')} through DLPack: {e} "
                          "Use asarray, or view it as integers of its width first.") from e
    return asarray(host.copy() if copy else host, device=device)
