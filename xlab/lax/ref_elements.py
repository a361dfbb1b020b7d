"""Single elements that an access of a reference touches, and accesses of NumPy arrays: for interpreters that run on NumPy arrays.

The transforms are those of an equation (`ref_transforms.py`) with numbers, or NumPy integers, as leaves:
`transforms = tree.unflatten(eqn.params["tree"], leaves)`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.lax.indexers import NDIndexer
from xlab.lax.ref_transforms import Outside, RefBitcaster, RefReshaper, Transform


@functools.lru_cache(maxsize=256)
def _numbers(shape: tuple[int, ...], parts: int) -> np.ndarray:
    out = np.arange(math.prod(shape) * parts).reshape(*shape, parts)
    out.flags.writeable = False
    return out


def touched(
    transforms: Sequence[Transform],
    shape: tuple[int, ...],
    dtype: Any,
    outside: Outside = "clamp",
    writing: bool = False,
) -> np.ndarray:
    """Row-major numbers of the elements of an array that transforms select, -1 for those outside.

    The result has the shape of the view and one more dimension, for elements of the view that have several elements of the
    array inside; its size is 1 unless a bitcast widens.

    Args:
        transforms: the view.
        shape: shape of the array.
        dtype: dtype of the array.
        outside: what a position outside means: "clamp" is what compiled programs do, "missing" gives -1.
        writing: whether the access writes; compiled writes to single positions outside are dropped.

    Example:
        >>> from xlab.lax.indexers import indexer
        >>> touched((indexer((1, slice(0, 2)), (2, 3)),), (2, 3), "float32")[..., 0].tolist()
        [3, 4]
    """
    casts = [t for t in transforms if type(t) is RefBitcaster]
    if not casts:
        parts = 1
    else:
        bits = [dtypes.itemsize_bits(d) for d in (dtype, *(t.dtype for t in casts))]
        parts = bits[0] // min(bits)
    out = _numbers(tuple(shape), parts)
    for t in transforms:
        out = t.touched(out, outside, -1, writing)
    return out if parts == 1 else out // parts


def reach(transforms: Sequence[Transform]) -> list[str]:
    """What is said of each index that reaches outside what it indexes; empty where all are inside.

    Example:
        >>> from xlab.lax.indexers import NDIndexer
        >>> reach((NDIndexer((5,), (3,)),))
        ['index 5 in dimension 0 of size 3']
    """
    return [text for t in transforms if isinstance(t, NDIndexer) for text in t.outside()]


def region(
    transforms: Sequence[Transform], shape: tuple[int, ...], dtype: Any
) -> tuple[tuple[int, int], ...]:
    """Per dimension of an array the half-open range around every element that transforms select.

    Example:
        >>> from xlab.lax.indexers import indexer
        >>> region((indexer((1, slice(0, 2)), (2, 3)),), (2, 3), "float32")
        ((1, 2), (0, 2))
    """
    if not transforms:
        return tuple((0, n) for n in shape)
    if len(transforms) == 1 and isinstance(transforms[0], NDIndexer):
        return transforms[0].region()
    numbers = touched(transforms, shape, dtype)
    if not numbers.size or not shape:
        return tuple((0, 0) for _ in shape)
    return tuple((int(p.min()), int(p.max()) + 1) for p in np.unravel_index(numbers, shape))


def take(
    x: np.ndarray, transforms: Sequence[Transform], outside: Outside = "clamp", fill: Any = 0
) -> np.ndarray:
    """The part of a NumPy array that transforms select; `fill` at missing positions. May share memory with the array.

    Example:
        >>> from xlab.lax.indexers import NDIndexer
        >>> take(np.arange(3), (NDIndexer((np.array([0, 5]),), (3,), (2,)),), "missing", -7).tolist()
        [0, -7]
    """
    for t in transforms:
        if type(t) is RefBitcaster:
            x = _bitcast(x, t.dtype, t.result_shape())
        else:
            x = t.touched(x[..., None], outside, fill)[..., 0]
    return x


def put(
    x: np.ndarray,
    transforms: Sequence[Transform],
    value: np.ndarray,
    update: str = "set",
    outside: Outside = "clamp",
) -> None:
    """Writes the part of a NumPy array that transforms select, in place; positions that are missing are left out.

    Where positions repeat, the last in row-major order is kept ("set"), or everything is added ("add").

    Example:
        >>> from xlab.lax.indexers import indexer
        >>> x = np.zeros((2, 3))
        >>> put(x, (indexer((1, slice(0, 2)), (2, 3)),), np.array([1.0, 2.0]))
        >>> x.tolist()
        [[0.0, 0.0, 0.0], [1.0, 2.0, 0.0]]
    """
    transforms = tuple(transforms)
    cast = next((k for k, t in enumerate(transforms) if type(t) is RefBitcaster), None)
    if cast is not None:
        before, t, after = transforms[:cast], transforms[cast], transforms[cast + 1 :]
        part = take(x, before)
        wide = _bitcast(part, t.dtype, t.result_shape()).copy()
        put(wide, after, value, update, outside)
        return put(x, before, _bitcast(wide, t.old_dtype, t.old), "set", outside)
    view = x[..., None]
    for t in transforms:
        if type(t) is RefReshaper or (isinstance(t, NDIndexer) and not t.is_basic(outside)):
            break
        view = t.touched(view)
    else:
        view = view[..., 0]
        if update == "add":
            value = view + value
        view[...] = value
        return None
    numbers = touched(transforms, x.shape, x.dtype, outside, writing=True)[..., 0].ravel()
    value = np.broadcast_to(value, part_shape(transforms, x.shape)).ravel()
    if numbers.size and numbers.min() < 0:
        value, numbers = value[numbers >= 0], numbers[numbers >= 0]
    flat = x.reshape(-1) if x.flags.c_contiguous else x.flatten()
    if update == "add":
        np.add.at(flat, numbers, value)
    else:
        flat[numbers] = value
    if not x.flags.c_contiguous:
        x[...] = flat.reshape(x.shape)
    return None


def part_shape(transforms: Sequence[Transform], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the part that transforms select."""
    return transforms[-1].result_shape() if transforms else tuple(shape)


def _bitcast(x: np.ndarray, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The same bits as another dtype; NumPy keeps elements of less than 8 bits in a byte each."""
    mine, other = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(dtype)
    x = np.ascontiguousarray(x)
    if mine < 8:
        x = _packed(x.view(np.uint8).reshape(-1, 8 // mine), mine)
    bits = x.reshape(-1).view(np.uint8)
    if other < 8:
        bits = np.stack([(bits >> k) & (2**other - 1) for k in range(0, 8, other)], -1)
        signed = dtypes.issubdtype(dtype, np.signedinteger)
        if signed:
            bits = (bits ^ 2 ** (other - 1)).astype(np.int8) - 2 ** (other - 1)
            return bits.astype(dtype).reshape(shape)
    return bits.reshape(-1).view(dtype).reshape(shape)


def _packed(parts: np.ndarray, bits: int) -> np.ndarray:
    low = parts & (2**bits - 1)
    out = np.zeros(len(parts), np.uint8)
    for k in range(parts.shape[1]):
        out |= low[:, k] << np.uint8(k * bits)
    return out
