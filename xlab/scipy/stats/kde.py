"""Densities estimated from samples, by Gaussian kernels.

Example:
    >>> import xlab.numpy as jnp
    >>> kde = gaussian_kde(jnp.array([-1.0, 0.0, 1.0]))
    >>> bool(kde(0.0)[0] > kde(2.0)[0])
    True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xlab import lax, random, tree
from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import promoted_inexact
from xlab.scipy import linalg, special

__all__ = ["gaussian_kde"]


@dataclass(frozen=True, init=False)
class gaussian_kde:
    """The density of a distribution, estimated from samples of it: a Gaussian around each.

    Args:
        dataset: samples, of shape `(d, n)` or `(n,)`.
        bw_method: the bandwidth: "scott" (the default), "silverman", a number that the standard deviation of the data is multiplied
            with, or a function of this object that returns one.
        weights: of the samples, of shape `(n,)`; equal by default.

    Attributes:
        neff: the effective number of samples, `sum(weights)**2 / sum(weights**2)`.
        dataset: the samples, of shape `(d, n)`.
        weights: of the samples; they sum to one.
        covariance: of each kernel, of shape `(d, d)`.
        inv_cov: its inverse.

    Source:
        Scott (1992), Multivariate Density Estimation; Silverman (1986), Density Estimation for Statistics and Data Analysis.
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(
        self,
        dataset: ArrayLike,
        bw_method: str | ArrayLike | Callable | None = None,
        weights: ArrayLike | None = None,
    ):
        (data,) = promoted_inexact("gaussian_kde", dataset)
        data = jnp.atleast_2d(as_array(data))
        if jnp.iscomplexobj(data):
            raise NotImplementedError(f"gaussian_kde: samples are real numbers, got {data.dtype}")
        if data.ndim != 2:
            raise ValueError(f"gaussian_kde: dataset has shape (d, n) or (n,), got {data.shape}")
        if data.size <= 1:
            raise ValueError("gaussian_kde: `dataset` input should have multiple elements, got one")
        n = data.shape[1]
        if weights is None:
            weights = jnp.full(n, 1.0 / n, data.dtype)
        else:
            data, weights = (as_array(x) for x in promoted_inexact("gaussian_kde", data, weights))
            if weights.ndim != 1:
                raise ValueError(
                    f"gaussian_kde: `weights` input should be one-dimensional, got shape {weights.shape}"
                )
            if len(weights) != n:
                raise ValueError(
                    f"gaussian_kde: `weights` input should be of length n, {n}, got {len(weights)}"
                )
            weights = weights / weights.sum()
        put = lambda **values: [object.__setattr__(self, k, v) for k, v in values.items()]
        put(dataset=data, weights=weights, neff=1 / (weights**2).sum())
        factor = self._factor(bw_method)
        covariance = jnp.atleast_2d(jnp.cov(data, rowvar=True, bias=False, aweights=weights))
        put(covariance=covariance * factor**2, inv_cov=jnp.linalg.inv(covariance) / factor**2)

    def _factor(self, method):
        if method is None or (isinstance(method, str) and method == "scott"):
            return self.neff ** (-1.0 / (self.d + 4))
        if isinstance(method, str) and method == "silverman":
            return (self.neff * (self.d + 2) / 4.0) ** (-1.0 / (self.d + 4))
        if callable(method):
            return method(self)
        if not isinstance(method, (str, list, tuple)) and jnp.ndim(method) == 0:
            return method
        raise ValueError(
            f"gaussian_kde: `bw_method` should be 'scott', 'silverman', a scalar, or a callable, got {method!r}"
        )

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.dataset.shape[1]

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points of shape `(d, m)`, as an array of shape `(m,)`."""
        return jnp.exp(self.logpdf(points))

    def __call__(self, points: ArrayLike) -> Array:
        """The density at points of shape `(d, m)`, as an array of shape `(m,)`."""
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """The density at points of shape `(d, m)`, as an array of shape `(m,)`."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at points of shape `(d, m)`, as an array of shape `(m,)`."""
        points = jnp.atleast_2d(as_array(*promoted_inexact("gaussian_kde", x)))
        if points.shape[0] == 1 and points.shape[1] == self.d:
            points = points.T
        if points.shape[0] != self.d:
            raise ValueError(
                f"points have dimension {points.shape[0]}, dataset has dimension {self.d}"
            )
        return _log_mixture(points, self.dataset, self.weights, self.covariance)

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times a normal density, a number.

        Args:
            mean: of the normal distribution, of shape `(d,)`.
            cov: its covariance, of shape `(d, d)`.
        """
        mean, cov = (as_array(x) for x in promoted_inexact("integrate_gaussian", mean, cov))
        mean, cov = jnp.atleast_1d(jnp.squeeze(mean)), jnp.atleast_2d(cov)
        if mean.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}, its shape is {mean.shape}")
        if cov.shape != (self.d, self.d):
            raise ValueError(
                f"covariance does not have dimension {self.d}, its shape is {cov.shape}"
            )
        return jnp.exp(
            _log_mixture(mean[:, None], self.dataset, self.weights, self.covariance + cov)[0]
        )

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability of an interval, for samples of one dimension."""
        if self.d != 1:
            raise ValueError(
                f"integrate_box_1d() only handles 1D pdfs, the samples have dimension {self.d}"
            )
        low, high = (as_array(x) for x in promoted_inexact("integrate_box_1d", low, high))
        if low.ndim or high.ndim:
            raise ValueError(
                "integrate_box_1d() takes scalars: use xlab.vmap for several intervals"
            )
        deviation = jnp.sqrt(self.covariance[0, 0])
        ends = [special.ndtr((end - self.dataset[0]) / deviation) for end in (low, high)]
        return (self.weights * (ends[1] - ends[0])).sum()

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two estimated densities, a number."""
        if other.d != self.d:
            raise ValueError(
                f"KDEs are not the same dimensionality: {self.d} and {other.d} dimensions"
            )
        logs = _log_mixture(
            other.dataset, self.dataset, self.weights, self.covariance + other.covariance
        )
        return (jnp.exp(logs) * other.weights).sum()

    def resample(self, key: ArrayLike, shape: tuple[int, ...] = ()) -> Array:
        """Draws from the estimated distribution.

        Args:
            key: a random key.
            shape: how many draws.

        Returns:
            An array of shape `(d, *shape)`.
        """
        which, around = random.split(key)
        chosen = random.choice(which, self.n, shape=shape, p=self.weights)
        noise = random.multivariate_normal(
            around, jnp.zeros(self.d, self.covariance.dtype), self.covariance, shape=shape
        )
        return self.dataset[:, chosen] + jnp.moveaxis(noise, -1, 0)

    def integrate_box(self, low_bounds, high_bounds, maxpts=None):
        """Not available: the integral over a box of several dimensions has no form that compiles; see `integrate_box_1d`."""
        raise NotImplementedError("only 1D box integrations are supported; use `integrate_box_1d`")

    def set_bandwidth(self, bw_method=None):
        """Not available: the object does not change. Make another with this `bw_method`."""
        raise NotImplementedError(
            "dynamically changing the bandwidth method is not supported: make another gaussian_kde with that bw_method"
        )


tree.register_dataclass(gaussian_kde, ["neff", "dataset", "weights", "covariance", "inv_cov"], [])


def _log_mixture(points, centers, weights, covariance):
    """The logarithm of a weighted sum of normal densities of one covariance, at each point."""
    factor = jnp.linalg.cholesky(covariance)
    white = [linalg.solve_triangular(factor, x, lower=True) for x in (points, centers)]
    squares = ((white[0][:, :, None] - white[1][:, None, :]) ** 2).sum(0)
    volume = jnp.log(jnp.diagonal(factor)).sum() + 0.5 * len(factor) * jnp.log(2 * jnp.pi)
    return special.logsumexp(-0.5 * squares, axis=1, b=weights) - lax.convert_element_type(
        volume, squares.dtype
    )
