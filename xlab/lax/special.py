"""Special functions: the gamma family, and `nextafter`."""

from __future__ import annotations

import numpy as np

from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, costs, mlir
from xlab.lax import elementwise as _e
from xlab.lax.arithmetic import add, div, mul
from xlab.lax.comparison import eq, select
from xlab.lax.creation import full_like
from xlab.lax.elementwise import elementwise

__all__ = ["digamma", "lgamma", "nextafter", "polygamma", "zeta"]


def lgamma(x: ArrayLike) -> Array:
    """Elementwise logarithm of the absolute value of the gamma function."""
    return lgamma_p.bind(x)


def digamma(x: ArrayLike) -> Array:
    """Elementwise derivative of the logarithm of the gamma function."""
    return digamma_p.bind(x)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise derivative of order `m` of `digamma`; both arguments are floats."""
    return polygamma_p.bind(m, x)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Elementwise Hurwitz zeta function: the sum of `(q + k)^-x` over k = 0, 1, ..."""
    return zeta_p.bind(x, q)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The representable number next to each element of `x1` in the direction of `x2`."""
    return nextafter_p.bind(x1, x2)


def _binary(op: str):
    def rule(ctx, x, y):
        out = ctx.avals_out[0]
        x, y = (ctx.broadcast_operand(v, a, out) for v, a in zip((x, y), ctx.avals_in))
        t = mlir.tensor_type(out)
        return ctx.op(f"{op} {x}, {y} : {t}, {t} -> {t}")

    return rule


def _lgamma_slope(t, x):
    # At zero, where digamma is not defined: of minus log|x|, from the side that the sign of zero names.
    at_zero = eq(x, full_like(x, 0))
    return mul(t, select(at_zero, div(full_like(x, -1), x), digamma(x)))


def _digamma_slope(t, x):
    # 1 / x at infinity, where the compiler's polygamma is not a number.
    endless = eq(x, full_like(x, np.inf))
    return mul(t, select(endless, full_like(x, 0), polygamma(full_like(x, 1), x)))


lgamma_p = elementwise("lgamma", _e.floating)
ad.defjvp(lgamma_p, _lgamma_slope)
mlir.register_text_lowering(lgamma_p, mlir.unary("chlo.lgamma"))

digamma_p = elementwise("digamma", _e.floating)
ad.defjvp(digamma_p, _digamma_slope)
mlir.register_text_lowering(digamma_p, mlir.unary("chlo.digamma"))


def _no_slope_in_order(t, m, x):
    raise ValueError(
        "polygamma has a derivative in x only: the gradient with respect to the order m is not supported. Use "
        "stop_gradient on it, or differentiate in x alone."
    )


polygamma_p = elementwise("polygamma", _e.floating, operands=2)
ad.defjvp(
    polygamma_p, _no_slope_in_order, lambda t, m, x: mul(t, polygamma(add(m, full_like(m, 1)), x))
)
mlir.register_text_lowering(polygamma_p, _binary("chlo.polygamma"))

zeta_p = elementwise("zeta", _e.floating, operands=2)
ad.primitive_jvps.excuse(zeta_p, "JAX has no derivative of it either")
mlir.register_text_lowering(zeta_p, _binary("chlo.zeta"))

nextafter_p = elementwise("nextafter", _e.floating, operands=2)
ad.defzero(nextafter_p)
mlir.register_text_lowering(nextafter_p, _binary("chlo.next_after"))

costs.register(costs.each(0, 1), lgamma_p, digamma_p, polygamma_p, zeta_p, nextafter_p)
