"""Reductions by any associative operation: over whole axes, and over windows that slide along them.

Both are written through slices and the operation itself, so they have every derivative the operation has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.lax import arithmetic as _a
from xlab.lax import bits as _b
from xlab.lax.reductions import (
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reduce_xor,
)
from xlab.lax.shape import (
    broadcast_in_dim,
    canonical_axes,
    concatenate,
    full,
    pad,
    reshape,
    transpose,
)
from xlab.lax.slicing import index_in_dim, slice, slice_in_dim

__all__ = ["padtype_to_pads", "reduce", "reduce_window"]

_KNOWN = {_a.add: reduce_sum, _a.mul: reduce_prod, _a.max: reduce_max, _a.min: reduce_min, _b.bitwise_and: reduce_and,
          _b.bitwise_or: reduce_or, _b.bitwise_xor: reduce_xor}


def reduce(operands, init_values, computation: Callable, dimensions: Sequence[int], out_sharding=None):
    """Reduces axes with an associative `computation(a, b)`; operands and initial values are pytrees of one structure.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> float(lax.reduce(np.float32([1, 2, 3]), np.float32(0), lax.add, (0,)))
        6.0
    """
    flat, structure = _tree.flatten(operands)
    inits, init_structure = _tree.flatten(init_values)
    if structure != init_structure:
        raise ValueError(f"operands and initial values must have the same tree structure, got {structure} and "
                         f"{init_structure}")
    axes = canonical_axes(dimensions, aval_of(flat[0]).ndim)
    if len(flat) == 1 and computation in _KNOWN:
        out = _KNOWN[computation](flat[0], axes)
        return _tree.unflatten(structure, [computation(out, inits[0])])

    def combine(a, b):
        return _tree.leaves(computation(_tree.unflatten(structure, a), _tree.unflatten(structure, b)))
    kept = [i for i in range(aval_of(flat[0]).ndim) if i not in axes]
    shape = [aval_of(flat[0]).shape[i] for i in kept]
    size = int(np.prod([aval_of(flat[0]).shape[i] for i in axes], dtype=np.int64))
    xs = [reshape(transpose(x, (*axes, *kept)), (size, *shape)) for x in flat]
    starts = [broadcast_in_dim(i, shape, ()) for i in inits]
    if size == 0:
        return _tree.unflatten(structure, starts)
    while size > 1:     # halves against each other: logarithmic depth
        half, odd = divmod(size, 2)
        pairs = combine([slice_in_dim(x, 0, half) for x in xs], [slice_in_dim(x, half, 2 * half) for x in xs])
        if odd:
            last = [slice_in_dim(x, size - 1, size) for x in xs]
            first = combine([slice_in_dim(p, 0, 1) for p in pairs], last)
            pairs = [concatenate([f, slice_in_dim(p, 1, half)], 0) for f, p in zip(first, pairs)]
        xs, size = pairs, half
    return _tree.unflatten(structure, combine([index_in_dim(x, 0, 0, False) for x in xs], starts))


def padtype_to_pads(in_shape, window_shape, window_strides, padding) -> list[tuple[int, int]]:
    """'SAME', 'SAME_LOWER' or 'VALID' as (low, high) padding per dimension."""
    kind = padding.upper() if isinstance(padding, str) else padding
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind in ("SAME", "SAME_LOWER"):
        out = []
        for n, w, s in zip(in_shape, window_shape, window_strides):
            total = max((-(-n // s) - 1) * s + w - n, 0)
            low = total // 2 if kind == "SAME" else total - total // 2
            out.append((low, total - low))
        return out
    raise ValueError(f"padding must be 'VALID', 'SAME', 'SAME_LOWER' or a sequence of (low, high), got {padding!r}")


def reduce_window(operand, init_value, computation: Callable, window_dimensions: Sequence[int],
                  window_strides: Sequence[int], padding, base_dilation: Sequence[int] | None = None,
                  window_dilation: Sequence[int] | None = None):
    """Reduces every window of an array with an associative `computation`.

    Args:
        init_value: scalar to start from; also what padding holds.
        padding: 'VALID', 'SAME', 'SAME_LOWER', or (low, high) per dimension.
        base_dilation, window_dilation: distances between neighbouring elements of array and window.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.reduce_window(np.float32([1, 3, 2, 5]), np.float32(0), lax.add, (2,), (1,), "VALID"))
        [4. 5. 7.]
    """
    ndim = aval_of(operand).ndim
    base = tuple(base_dilation or (1,) * ndim)
    spread = tuple(window_dilation or (1,) * ndim)
    window, strides = tuple(window_dimensions), tuple(window_strides)
    if not len(window) == len(strides) == len(base) == len(spread) == ndim:
        raise ValueError(f"reduce_window needs one window size, stride and dilation per dimension of {aval_of(operand)}")
    reach = [(w - 1) * d + 1 for w, d in zip(window, spread)]
    grown = [(n - 1) * d + 1 if n else 0 for n, d in zip(aval_of(operand).shape, base)]
    pads = padtype_to_pads(grown, reach, strides, padding) if isinstance(padding, str) else [tuple(p) for p in padding]
    x = pad(operand, init_value, [(lo, hi, d - 1) for (lo, hi), d in zip(pads, base)])
    shape = aval_of(x).shape
    counts = [max(0, (n - r) // s + 1) for n, r, s in zip(shape, reach, strides)]
    if 0 in counts:
        return full(counts, init_value)
    total = None
    for offset in itertools.product(*(range(0, r, d) for r, d in zip(reach, spread))):
        part = slice(x, offset, [o + (c - 1) * s + 1 for o, c, s in zip(offset, counts, strides)], strides)
        total = part if total is None else computation(total, part)
    return computation(total, broadcast_in_dim(init_value, counts, ()) if not isinstance(init_value, np.generic)
                       else full(counts, init_value))
