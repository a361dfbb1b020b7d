"""Histograms: how many elements, or points, lie in each bin."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import lax
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array, select_promoted
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    cast_operand,
    check,
    float_like,
    index_dtype,
    kind_of,
    ndim_of,
    promoted_inexact,
    shape_of,
)
from xlab.numpy.reductions import sum as _sum
from xlab.numpy.shape import ravel

__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def histogram_bin_edges(
    a: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike] = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
) -> Array:
    """Bounds of the bins `histogram` would use.

    Args:
        a: array.
        bins: number of bins of equal width, or a vector of bounds.
        range: lower and upper bound of bins that are given as a number; by default the smallest and the largest element.
        weights: not looked at.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.histogram_bin_edges(jnp.array([0.0, 4.0]), 2)
        Array([0., 2., 4.], dtype=float32)
    """
    return _bounds("histogram_bin_edges", a, bins, range)


def _bounds(name, a, bins, range):
    if isinstance(bins, str):
        error = NotImplementedError if name == "histogram_bin_edges" else TypeError
        raise error(
            f"{name}: rules for bins such as {bins!r} are not supported, as the number of bins would depend on values; give "
            f"their number or their bounds"
        )
    check(name, a, bins)
    if ndim_of(bins) == 1:
        return cast_operand(as_array(bins), float_like(a).dtype)
    if ndim_of(bins):
        raise TypeError(
            f"{name}: bins must be a number or a vector of bounds, got shape {shape_of(bins)}"
        )
    bins = operator.index(bins)
    if range is not None:
        if (
            ndim_of(range) != 1
            if kind_of(range) is not None
            else not isinstance(range, (list, tuple))
        ):
            raise ValueError(f"{name}: range must be None or a pair (lower, upper), got {range!r}")
        if len(range) != 2:
            raise ValueError(
                f"{name}: range must be None or a pair (lower, upper), got {len(range)} values"
            )
        range = tuple(range)
    elif 0 in shape_of(a):
        raise ValueError(
            f"{name}: an array of no elements has no smallest and largest one; give the range of the bins"
        )
    return _edges(a, range, bins=bins)


@jit_when_eager(static="bins")
def _edges(a, range, bins):
    from xlab.numpy.grids import linspace
    from xlab.numpy.reductions import max, min

    (a,) = promoted_inexact("histogram_bin_edges", a)
    a = as_array(a)
    low, high = (min(a), max(a)) if range is None else (cast_operand(v, a.dtype) for v in range)
    same = lax.eq(high, low)
    half = cast_operand(0.5, a.dtype)
    low, high = (
        select_promoted(same, lax.sub(low, half), low),
        select_promoted(same, lax.add(high, half), high),
    )
    return linspace(low, high, bins + 1, dtype=a.dtype)


def histogram(
    a: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike] = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """How many elements lie in each bin, and the bounds of the bins. A bin holds its lower bound, the last one both.

    Args:
        a: array.
        bins, range: see `histogram_bin_edges`.
        weights: how much each element counts, of the shape of `a`.
        density: whether to divide by the sum and by the bins' widths, so that the integral is 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> counts, edges = jnp.histogram(jnp.array([0.0, 0.1, 4.0]), 2)
        >>> counts
        Array([2., 1.], dtype=float32)
    """
    if weights is None:
        check("histogram", a)
        (a,) = promoted_inexact("histogram", a)
    else:
        a, weights = promoted_inexact("histogram", a, weights)
        if shape_of(weights) != shape_of(a):
            raise ValueError(
                f"histogram: weights must have the shape of a, {shape_of(a)}; got {shape_of(weights)}"
            )
    edges = _bounds("histogram", a, bins, range)
    return _histogram(a, edges, weights, density=bool(density)), edges


@jit_when_eager(static="density")
def _histogram(a, edges, weights, density):
    a, edges = ravel(a), as_array(edges)
    n = edges.shape[0] - 1
    w = lax.full(a.shape, 1, a.dtype) if weights is None else ravel(weights)
    counts = lax.slice_in_dim(_sums(w, [_places(a, edges)], (n + 2,)), 1, n + 1)
    return lax.div(lax.div(counts, _widths(edges)), _sum(counts)) if density else counts


def _places(a, edges):
    """The number of the bin of each element, counted from 1: 0 below the bins, one more than their number above."""
    from xlab.numpy.sorting import _searchsorted

    last = lax.eq(a, lax.index_in_dim(edges, -1, 0, keepdims=False))
    place = _searchsorted(edges, a, side="right")
    return select_promoted(last, cast_operand(edges.shape[0] - 1, place.dtype), place)


def _sums(weights, places, shape):
    from xlab.numpy.creation import zeros

    return zeros(shape, aval_of(weights).dtype).at[tuple(places)].add(weights, mode="drop")


def _widths(edges):
    return lax.sub(lax.slice_in_dim(edges, 1, None), lax.slice_in_dim(edges, 0, -1))


def histogramdd(
    sample: ArrayLike | Sequence[ArrayLike],
    bins: ArrayLike | Sequence[ArrayLike] = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """Histogram over D dimensions, and a list of the bounds along each.

    Args:
        sample: matrix of N points, a row of D coordinates each.
        bins: number of bins, or one per dimension, each a number or a vector of bounds.
        range: None, or for each dimension None or the outer bounds.
        weights: vector of how much each point counts.
        density: whether to divide by the sum and by the bins' volumes.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.histogramdd(jnp.ones((4, 2)), 3)[0].shape
        (3, 3)
    """
    if weights is None:
        (sample,) = promoted_inexact("histogramdd", sample)
    else:
        sample, weights = promoted_inexact("histogramdd", sample, weights)
    if ndim_of(sample) != 2:
        raise ValueError(
            f"histogramdd: sample must be a matrix with a point per row, got shape {shape_of(sample)}"
        )
    n, d = shape_of(sample)
    if weights is not None and shape_of(weights) != (n,):
        raise ValueError(
            f"histogramdd: weights must be one per point, {n} of them; got shape {shape_of(weights)}"
        )
    if not d:
        raise ValueError(
            f"histogramdd: points have at least one coordinate, got a sample of shape {(n, d)}"
        )
    if range is not None and len(range) != d:
        raise ValueError(
            f"histogramdd: range must have an entry per dimension, {d} for a sample of shape {(n, d)}; got {len(range)}"
        )
    try:
        bins = list(bins)
    except TypeError:
        bins = [bins] * d
    if len(bins) != d:
        raise ValueError(
            f"histogramdd: bins must be a number or have an entry per dimension, {d} for a sample of shape {(n, d)}; got {len(bins)}"
        )
    columns = [lax.index_in_dim(as_array(sample), i, 1, keepdims=False) for i in np.arange(d)]
    edges = [
        _bounds("histogramdd", c, b, r)
        for c, b, r in zip(columns, bins, [None] * d if range is None else range)
    ]
    return _histogramdd(columns, edges, weights, density=bool(density)), edges


@jit_when_eager(static="density")
def _histogramdd(columns, edges, weights, density):
    w = lax.full(columns[0].shape, 1, index_dtype()) if weights is None else as_array(weights)
    counts = _sums(
        w, [_places(c, e) for c, e in zip(columns, edges)], [e.shape[0] + 1 for e in edges]
    )
    counts = lax.slice(counts, (1,) * len(edges), [e.shape[0] for e in edges])
    if not density:
        return counts
    counts = cast_operand(counts, edges[0].dtype)
    counts = lax.div(counts, _sum(counts))
    for i, e in enumerate(edges):
        counts = lax.div(counts, lax.broadcast_in_dim(_widths(e), counts.shape, (i,)))
    return counts


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike] = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """Histogram of points given by two vectors of coordinates, and the bounds of the bins along both.

    Args:
        x, y: coordinates.
        bins: a number or a vector of bounds for both, or a pair of such.
        range, weights, density: see `histogramdd`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.histogram2d(jnp.ones(4), jnp.ones(4), 3)[0].shape
        (3, 3)
    """
    from xlab.numpy.creation import asarray
    from xlab.numpy.joining import stack

    check("histogram2d", x, y)
    if shape_of(x) != shape_of(y):
        raise TypeError(
            f"histogram2d: x and y must have one length, got shapes {shape_of(x)} and {shape_of(y)}"
        )
    try:
        several = len(bins)
    except TypeError:
        several = 1
    if several not in (1, 2):
        bins = [asarray(bins)] * 2
    counts, edges = histogramdd(stack([x, y], axis=-1), bins, range, weights, density)
    return counts, edges[0], edges[1]
