"""The logarithm of the gamma function over the complex plane, and the series that it has far out."""

from __future__ import annotations

import math

import numpy as np

from xlab import numpy as jnp
from xlab.scipy.special.functions import number, polynomial

__all__: list[str] = []  # nothing that users call

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)  # fmt: skip
_BEYOND = 8  # from this real part on Stirling's series is exact to the last digit of a double


def complex_loggamma(z):
    """The branch of log Gamma(z) that is real for positive z and continuous but across the negative axis; NaN at the poles.

    Source:
        Stirling's series (DLMF 5.11.1) far from the poles, the recurrence (DLMF 5.5.1) up to there, and the reflection formula (DLMF 5.5.3)
        to the left of 1/2.
    """
    x, y = jnp.real(z), jnp.imag(z)
    below = jnp.signbit(
        y
    )  # log Gamma(conj z) is conj log Gamma(z): what follows is for the upper half plane
    pole = (y == 0) & (x <= 0) & (x == jnp.floor(x))
    usual = jnp.isfinite(x) & jnp.isfinite(y) & ~pole
    z = jnp.where(usual, jnp.where(below, jnp.conj(z), z), number(1, z))
    left = jnp.real(z) < 0.5
    value = _right(jnp.where(left, 1 - z, z))
    # sin(pi z) = (i/2) exp(-i pi z) (1 - exp(2 pi i z)), where the last factor stays away from the branch cut of the logarithm.
    at = jnp.where(left, z, number(1j, z))
    turn = jnp.exp(2j * math.pi * (at - jnp.round(jnp.real(at))))
    reflected = math.log(2 * math.pi) + 1j * math.pi * (at - 0.5) - jnp.log1p(-turn) - value
    value = jnp.where(left, reflected, value)
    return jnp.where(
        usual, jnp.where(below, jnp.conj(value), value), number(complex(np.nan, np.nan), z)
    )


def _right(z):
    """log Gamma(z) for Re z >= 1/2: log Gamma(z + n) without the logarithms of z, z + 1, ..., z + n - 1."""
    passed = jnp.zeros_like(z)
    for _ in range(_BEYOND):
        near = jnp.real(z) < _BEYOND
        passed = passed + jnp.where(near, jnp.log(z), number(0, z))
        z = jnp.where(near, z + 1, z)
    return (z - 0.5) * jnp.log(z) - z + 0.5 * math.log(2 * math.pi) + stirling_rest(z) - passed


def stirling_rest(z):
    """log Gamma(z) - ((z - 1/2) log z - z + log(2 pi)/2), for real parts from 8 on."""
    return polynomial(1 / (z * z), _STIRLING[::-1]) / z
