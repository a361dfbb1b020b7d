"""Modified Bessel functions of the first kind, scaled by `exp(-|x|)` so that they never overflow."""

from __future__ import annotations

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, costs, mlir
from xlab.lax import elementwise as _e
from xlab.lax.arithmetic import abs, add, div, integer_pow, mul, sign, sub
from xlab.lax.comparison import gt, le, select
from xlab.lax.creation import full_like
from xlab.lax.elementwise import elementwise
from xlab.lax.special_forms import number, widened
from xlab.lax.transcendental import sqrt

__all__ = ["bessel_i0e", "bessel_i1e"]


def bessel_i0e(x: ArrayLike) -> Array:
    """Elementwise modified Bessel function of order 0, times `exp(-|x|)`.

    Source:
        Chebyshev polynomials in x/4 - 1 up to 8, and in 16/x - 1 above, summed by Clenshaw's
            recurrence.
    """
    return bessel_i0e_p.bind(x)


def bessel_i1e(x: ArrayLike) -> Array:
    """Elementwise modified Bessel function of order 1, times `exp(-|x|)`.

    Source:
        Chebyshev polynomials in x/4 - 1 up to 8, and in 16/x - 1 above, summed by Clenshaw's
            recurrence.
    """
    return bessel_i1e_p.bind(x)


# Chebyshev coefficients in x/4 - 1 for |x| <= 8, and in 16/x - 1, of sqrt(x) times the function, above.
_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.7268262914415555e-11,
    2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18,
    9.921475412173699e-19, 1.193650890845982e-18,
)  # fmt: skip


def _chebyshev(x, coefficients):
    """The sum of Chebyshev polynomials by Clenshaw's recurrence, with as many terms as the dtype can tell apart."""
    small = float(dtypes.finfo(aval_of(x).dtype).eps) / 64
    kept = [c for c in coefficients if np.abs(c) > small]
    twice = mul(number(2, x), x)
    b1 = b2 = full_like(x, 0)
    for c in kept[:0:-1]:
        b1, b2 = add(sub(mul(twice, b1), b2), number(c, x)), b1
    return add(sub(mul(x, b1), b2), number(kept[0], x))


def _i0e(x):
    x = abs(x)
    near = le(x, number(8, x))
    at_near = _chebyshev(sub(div(x, number(4, x)), number(1, x)), _NEAR)
    # Where it does not apply the far form gets an argument that it likes.
    far = select(near, full_like(x, 8), x)
    at_far = div(_chebyshev(sub(div(number(16, x), far), number(1, x)), _FAR), sqrt(far))
    return select(near, at_near, at_far)


def _i1e_derivative(t, y, x):
    eps = number(dtypes.finfo(aval_of(x).dtype).eps, x)
    away = gt(abs(x), eps)
    safe = select(away, x, full_like(x, eps))
    slope = sub(bessel_i0e(safe), mul(y, add(sign(safe), integer_pow(safe, -1))))
    return mul(t, select(away, slope, full_like(x, 0.5)))


bessel_i0e_p = elementwise("bessel_i0e", _e.floating)
ad.defjvp2(bessel_i0e_p, lambda t, y, x: mul(t, sub(bessel_i1e(x), mul(sign(x), y))))
mlir.register_text_lowering(bessel_i0e_p, widened(_i0e))

bessel_i1e_p = elementwise("bessel_i1e", _e.floating)
ad.defjvp2(bessel_i1e_p, _i1e_derivative)
mlir.register_text_lowering(bessel_i1e_p, mlir.unary("chlo.bessel_i1e"))

costs.register(costs.each(0, 1), bessel_i0e_p, bessel_i1e_p)
