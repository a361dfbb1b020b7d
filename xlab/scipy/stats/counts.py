"""The value that a sample has most often."""

from __future__ import annotations

from typing import NamedTuple

from xlab import lax
from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import check

__all__ = ["ModeResult", "mode"]


class ModeResult(NamedTuple):
    """What `mode` returns.

    Attributes:
        mode: the most common values.
        count: how often they are there.
    """

    mode: Array
    count: Array


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most common value, and how often it is there; the smallest of several, with nan after all numbers.

    Args:
        a: an array.
        axis: the axis to work along; None for the flattened array.
        nan_policy: "propagate": every nan is one value.
        keepdims: whether the reduced dimension stays, with size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> [int(x) for x in mode(jnp.array([3, 1, 2, 1]))]
        [1, 2]
    """
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(
            f"Illegal nan_policy value {nan_policy!r}; expected one of propagate, omit, raise"
        )
    if nan_policy != "propagate":
        raise NotImplementedError(
            f"mode: nan_policy={nan_policy!r} is not available, only 'propagate'"
        )
    (a,) = check("mode", a)
    a = as_array(a)
    rank = a.ndim
    if rank and axis is not None:
        axis = canonical_axis(axis, rank)
    else:
        a, axis = a.ravel(), 0
    if a.shape[axis] == 0:
        shape = a.sum(axis, keepdims=keepdims).shape
        if keepdims and a.ndim != rank:
            shape = (1,) * rank
        nan = jnp.full(shape, jnp.nan, float)
        return ModeResult(nan, jnp.zeros_like(nan))
    ranked = jnp.moveaxis(jnp.sort(a, axis=axis), axis, -1)
    before, after = ranked[..., :-1], ranked[..., 1:]
    differs = (before != after) & ~((before != before) & (after != after))
    places = lax.broadcasted_iota(int, ranked.shape, ranked.ndim - 1)
    # Where the run of equal values began that a place belongs to.
    starts = jnp.concatenate([jnp.ones((*ranked.shape[:-1], 1), bool), differs], -1)
    lengths = places - lax.cummax(jnp.where(starts, places, 0), axis=ranked.ndim - 1) + 1
    last = lengths.argmax(-1, keepdims=True)
    value, count = (jnp.take_along_axis(x, last, -1)[..., 0] for x in (ranked, lengths))
    if keepdims and rank:
        value, count = (
            jnp.expand_dims(x, axis) if x.ndim == rank - 1 else x.reshape((1,) * rank)
            for x in (value, count)
        )
    return ModeResult(value, count)
