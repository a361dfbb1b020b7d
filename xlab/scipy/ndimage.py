"""Reading arrays between their entries.

Example:
    >>> import xlab.numpy as jnp
    >>> map_coordinates(jnp.array([0., 10., 20.]), [jnp.array([0.5, 1.25])], order=1).tolist()
    [5.0, 12.5]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array

__all__ = ["map_coordinates"]


def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence,
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """The values of an array at positions that may lie between its entries.

    Args:
        input: an array.
        coordinates: the positions, an array per dimension of `input`.
        order: 0 for the nearest entry, 1 for linear interpolation.
        mode: what lies outside: "constant" (`cval`), "nearest", "wrap", "mirror" or "reflect".
        cval: the value outside for "constant".
    """
    input = as_array(input)
    coordinates = [as_array(c) for c in coordinates]
    if len(coordinates) != input.ndim:
        raise ValueError(
            f"coordinates must be a sequence of length input.ndim, but {len(coordinates)} != {input.ndim}"
        )
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates: order 0 (nearest) or 1 (linear), got {order}")
    if mode not in _INSIDE:
        raise NotImplementedError(
            f"map_coordinates: mode is one of {', '.join(_INSIDE)}, got {mode!r}"
        )
    cval = jnp.asarray(cval, input.dtype)
    corners = [_nearest(c) if order == 0 else _around(c) for c in coordinates]
    total = None
    for chosen in itertools.product(*corners):
        places = [_INSIDE[mode](index, size) for (index, _), size in zip(chosen, input.shape)]
        value = input[tuple(places)]
        if mode == "constant":
            inside = [
                (index >= 0) & (index < size) for (index, _), size in zip(chosen, input.shape)
            ]
            value = jnp.where(_all(inside), value, cval)
        for _, weight in chosen:
            value = value if weight is None else value * weight
        total = value if total is None else total + value
    if jnp.issubdtype(input.dtype, np.integer) and jnp.issubdtype(total.dtype, np.inexact):
        total = jnp.round(total)
    return total.astype(input.dtype)


def _nearest(c):
    return [((lax.round(c) if jnp.issubdtype(c.dtype, np.inexact) else c).astype(np.int32), None)]


def _around(c):
    """The two entries around a position, with their weights."""
    lower = jnp.floor(c)
    weight = c - lower
    index = lower.astype(np.int32)
    return [(index, 1 - weight), (index + 1, weight)]


def _all(conditions):
    out = conditions[0]
    for condition in conditions[1:]:
        out = out & condition
    return out


def _mirror(index, size):
    span = max(2 * size - 2, 1)
    return jnp.abs((index + size - 1) % span - (size - 1))


def _reflect(index, size):
    return jnp.floor_divide(_mirror(2 * index + 1, 2 * size + 1), 2)


_INSIDE = {
    "constant": lambda i, n: jnp.clip(i, 0, n - 1),
    "nearest": lambda i, n: jnp.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "mirror": _mirror,
    "reflect": _reflect,
}
