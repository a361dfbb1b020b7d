"""Spherical harmonics."""

from __future__ import annotations

import math

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.trace import is_tracer
from xlab.core.typing import Array, ArrayLike
from xlab.errors import ConcretizationTypeError
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import check

__all__ = ["sph_harm_y"]


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """Spherical harmonics of degree `n` and order `m` at polar angle `theta` and azimuth `phi`.

    Args:
        n_max: the largest degree; needed where `n` is traced.

    Source:
        Recurrences of the normalized associated Legendre functions.

    Example:
        >>> from xlab.scipy import special
        >>> round(float(special.sph_harm_y(0, 0, 0.3, 0.5).real), 4)
        0.2821
    """
    if diff_n is not None:
        raise NotImplementedError(
            "sph_harm_y gives values only: the 'diff_n' argument is not supported. Use xlab.jvp"
        )
    n, m, theta, phi = check("sph_harm_y", n, m, theta, phi)
    if n_max is None:
        if is_tracer(n):
            raise ConcretizationTypeError(
                "sph_harm_y runs a recurrence up to the largest degree: give n_max= where n is traced"
            )
        n_max = int(np.max(np.asarray(n)))
    n, m, theta, phi = (jnp.asarray(v) for v in (n, m, theta, phi))
    for name, value in (("n", n), ("m", m)):
        if not dtypes.issubdtype(value.dtype, np.integer):
            raise TypeError(
                f"sph_harm_y takes integers as {name}, got dtype {dtypes.name(value.dtype)}"
            )
    return _harmonics(n, m, theta, phi, n_max=int(n_max))


@jit_when_eager(static=("n_max",))
def _harmonics(n, m, theta, phi, n_max):
    dtype = dtypes.result_type(theta, phi, float)
    n, m, theta, phi = jnp.broadcast_arrays(n, m, theta.astype(dtype), phi.astype(dtype))
    order = jnp.abs(m)
    cos, sin = jnp.cos(theta), jnp.sin(theta)
    # Normalized Legendre functions: degree = order first, then up in degree.
    sectoral = jnp.full_like(theta, math.sqrt(1 / (4 * math.pi)))
    for k in range(1, n_max + 1):
        sectoral = jnp.where(
            k <= order, -sectoral * sin * math.sqrt((2 * k + 1) / (2 * k)), sectoral
        )
    before, current = jnp.zeros_like(theta), sectoral
    result = jnp.where(n == order, current, jnp.zeros_like(theta))
    square = order * order
    for k in range(1, n_max + 1):
        gap = jnp.maximum(k * k - square, 1).astype(dtype)
        lead = jnp.sqrt((4 * k * k - 1) / gap)
        last = jnp.sqrt(
            jnp.maximum((k - 1) ** 2 - square, 0).astype(dtype) / max(4 * (k - 1) ** 2 - 1, 1)
        )
        up = k > order
        new = jnp.where(up, lead * (cos * current - last * before), current)
        before = jnp.where(up, current, before)
        current = new
        result = jnp.where((n == k) & up, current, result)
    sign = jnp.where((m < 0) & (order % 2 == 1), -1, 1).astype(dtype)
    angle = m.astype(dtype) * phi
    return lax.complex(sign * result * jnp.cos(angle), sign * result * jnp.sin(angle))
