"""Vector quantization: the nearest of several vectors.

Example:
    >>> import xlab.numpy as jnp
    >>> codes, distances = vq(jnp.array([0.1, 0.9]), jnp.array([0.0, 1.0]))
    >>> codes.tolist()
    [0, 1]
"""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import promoted_inexact

__all__ = ["vq"]


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """For each observation the nearest code, and how far away it is.

    Args:
        obs: observations, of shape `(m, n)` or `(m,)`.
        code_book: codes, of shape `(k, n)` or `(k,)`.
        check_finite: is accepted and changes nothing: values are not looked at.

    Returns:
        Indices of codes and Euclidean distances to them, of shape `(m,)`.
    """
    obs, codes = (as_array(x) for x in promoted_inexact("scipy.cluster.vq.vq", obs, code_book))
    if obs.ndim != codes.ndim:
        raise ValueError(
            f"vq: Observation and code_book should have the same rank, got shapes {obs.shape} and {codes.shape}"
        )
    if obs.ndim not in (1, 2):
        raise ValueError(f"vq: ndim different than 1 or 2 are not supported, got shape {obs.shape}")
    if obs.ndim == 1:
        obs, codes = obs[:, None], codes[:, None]
    if obs.shape[1] != codes.shape[1]:
        raise TypeError(
            f"vq: observations have {obs.shape[1]} features and codes have {codes.shape[1]}"
        )
    return _nearest(obs, codes)


@jit_when_eager
def _nearest(obs, codes):
    distances = jnp.linalg.norm(obs[:, None] - codes, axis=-1)
    return distances.argmin(-1), distances.min(-1)
