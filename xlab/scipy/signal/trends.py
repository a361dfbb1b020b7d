"""Trends of signals: constants, and straight lines between breakpoints.

Example:
    >>> import xlab.numpy as jnp
    >>> bool(jnp.allclose(detrend(3 * jnp.arange(5.) + 2), 0, atol=1e-5))
    True
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array
from xlab.numpy.conversion import from_lists
from xlab.numpy.operands import promoted_inexact

__all__ = ["detrend"]


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """A signal without its mean, or without the straight lines that fit it best.

    Args:
        data: an array of numbers; integers become floats.
        axis: the axis along which the signal runs.
        type: "constant" takes away the mean, "linear" a line per piece, fitted by least squares.
        bp: positions where a new line begins, for "linear"; by default one line fits all.
        overwrite_data: None: arrays are never overwritten.

    Returns:
        An array of the shape of `data`.

    Raises:
        ValueError: for another `type`, or breakpoints outside of the data.
        NotImplementedError: when `overwrite_data` is given.
    """
    if overwrite_data is not None:
        raise NotImplementedError(
            f"detrend: arrays are never overwritten, leave out overwrite_data={overwrite_data!r}"
        )
    (data,) = promoted_inexact("detrend", from_lists(data))
    data = as_array(data)
    if type in ("constant", "c"):
        return data - data.mean(axis, keepdims=True)
    if type not in ("linear", "l"):
        raise ValueError(f"detrend: type must be 'linear' or 'constant', got {type!r}")
    axis = canonical_axis(axis, data.ndim)
    size = data.shape[axis]
    points = np.unique(np.concatenate([[0], np.ravel(bp), [size]]).astype(int))
    if points[0] < 0 or points[-1] > size:
        raise ValueError(
            f"detrend: breakpoints must lie between 0 and {size}, the length of the data, got {bp}"
        )
    data = jnp.moveaxis(data, axis, -1)
    pieces = [_without_line(data[..., a:b]) for a, b in itertools.pairwise(points)]
    return jnp.moveaxis(jnp.concatenate(pieces, -1) if pieces else data, -1, axis)


def _without_line(piece):
    """The residual of the least squares fit of a line: the centered signal without its part along the centered positions."""
    size = piece.shape[-1]
    steps = (np.arange(size) - (size - 1) / 2).astype(np.dtype(piece.real.dtype))
    centered = piece - piece.mean(-1, keepdims=True)
    if size < 2:
        return centered
    slope = (centered * steps).sum(-1, keepdims=True) / (steps * steps).sum()
    return centered - slope * steps
