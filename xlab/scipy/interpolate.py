"""Functions that are given on a grid, between its points.

Example:
    >>> import xlab.numpy as jnp
    >>> f = RegularGridInterpolator((jnp.array([0., 1., 3.]),), jnp.array([0., 10., 30.]))
    >>> f(jnp.array([[0.5], [2.0]])).tolist()
    [5.0, 20.0]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from xlab import numpy as jnp
from xlab.core.trace import Tracer
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import check, promoted_inexact

__all__ = ["RegularGridInterpolator"]

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """A function of `d` variables, from its values on a grid whose lines need not be equally far from one another.

    Args:
        points: for each variable the coordinates of the grid, increasing.
        values: of shape `(m1, ..., md, ...)`; further dimensions are results.
        method: "linear", or "nearest" (the lower one halfway).
        bounds_error: False: compiled programs cannot raise.
        fill_value: the result outside of the grid; None to extrapolate.

    Raises:
        ValueError: when points and values do not fit, or points do not increase.
        NotImplementedError: for `bounds_error=True`.
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: ArrayLike | None = jnp.nan,
    ):
        if method not in _METHODS:
            raise ValueError(f"method {method!r} is not defined, there are {', '.join(_METHODS)}")
        if bounds_error:
            raise NotImplementedError(
                "`bounds_error` takes no effect under JIT: leave it False, and look for fill_value among the results"
            )
        values = as_array(*promoted_inexact("RegularGridInterpolator", values))
        if len(points) > values.ndim:
            raise ValueError(
                f"there are {len(points)} point arrays, but values has {values.ndim} dimensions"
            )
        if fill_value is not None:
            check("RegularGridInterpolator", fill_value)
            fill_value = as_array(fill_value)
            if not np.can_cast(np.dtype(fill_value.dtype), np.dtype(values.dtype), "same_kind"):
                raise ValueError(
                    f"fill_value must be either 'None' or of a type compatible with values, got "
                    f"{fill_value.dtype} for {values.dtype}"
                )
        grid = tuple(as_array(*check("RegularGridInterpolator", p)) for p in points)
        for i, p in enumerate(grid):
            if p.ndim != 1:
                raise ValueError(
                    f"The points in dimension {i} must be 1-dimensional, got shape {p.shape}"
                )
            if p.shape[0] != values.shape[i]:
                raise ValueError(
                    f"There are {p.shape[0]} points and {values.shape[i]} values in dimension {i}"
                )
            if not isinstance(p, Tracer) and not np.all(np.diff(np.asarray(p)) > 0):
                raise ValueError(f"The points in dimension {i} must be strictly ascending")
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.grid, self.values = grid, values

    def __call__(self, xi: ArrayLike | Sequence[ArrayLike], method: str | None = None) -> Array:
        """The function at points.

        Args:
            xi: points, of shape `(..., d)`; or a tuple of `d` arrays, a coordinate each, that broadcast.
            method: another method than that of the object.

        Returns:
            An array of shape `(..., *values.shape[d:])`; for `xi` of shape `(d,)`, of shape `(1, *values.shape[d:])`.
        """
        method = self.method if method is None else method
        if method not in _METHODS:
            raise ValueError(f"method {method!r} is not defined, there are {', '.join(_METHODS)}")
        d = len(self.grid)
        separate = isinstance(xi, tuple)
        if separate:
            xi = jnp.stack(jnp.broadcast_arrays(*(as_array(*check("xi", x)) for x in xi)), -1)
        xi = as_array(*promoted_inexact("RegularGridInterpolator", xi))
        if xi.ndim == 1 and d == 1:
            xi = xi[:, None]
        if xi.ndim == 0 or xi.shape[-1] != d:
            raise ValueError(
                f"the requested sample points xi have dimension {xi.shape[-1] if xi.ndim else 0}, "
                f"but this RegularGridInterpolator has dimension {d}"
            )
        shape, xi = xi.shape[:-1], xi.reshape(-1, d)
        out = self._at(xi, method)
        if self.fill_value is not None:
            outside = jnp.zeros(len(xi), bool)
            for x, p in zip(xi.T, self.grid):
                outside |= (x < p[0]) | (x > p[-1])
            out = jnp.where(_over(outside, out), self.fill_value.astype(out.dtype), out)
        # A point that is no number has no value.
        out = jnp.where(_over(jnp.isnan(xi).any(-1), out), jnp.nan, out)
        # One point given as a row is a list of one; one given as separate numbers is a number.
        shape = shape if shape or separate else (1,)
        return out.reshape(*shape, *self.values.shape[d:])

    def _at(self, xi, method):
        lower, fractions = [], []
        for x, p in zip(xi.T, self.grid):
            i = jnp.clip(jnp.searchsorted(p, x, side="left") - 1, 0, max(p.size - 2, 0))
            j = jnp.minimum(i + 1, p.size - 1)
            width = p[j] - p[i]
            lower.append((i, j))
            fractions.append((x - p[i]) / jnp.where(width == 0, 1, width))
        if method == "nearest":
            return self.values[
                tuple(jnp.where(t <= 0.5, i, j) for (i, j), t in zip(lower, fractions))
            ]
        total = 0
        for corner in itertools.product((0, 1), repeat=len(self.grid)):
            weight = 1
            for side, t in zip(corner, fractions):
                weight = weight * (t if side else 1 - t)
            value = self.values[tuple(ends[side] for side, ends in zip(corner, lower))]
            total = total + value * _over(weight, value)
        return total


def _over(flags, out):
    """A number per point, along the dimensions of results."""
    return jnp.reshape(flags, (-1,) + (1,) * (out.ndim - 1))
