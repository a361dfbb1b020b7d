"""Exponentials, logarithms, trigonometry, roots, error functions."""

from __future__ import annotations

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.interpreters import ad, mlir
from xlab.interpreters.ad import Zero
from xlab.lax import elementwise as _e
from xlab.lax.arithmetic import _spread_tangent, add, div, integer_pow, mul, neg, pow_p, square, sub
from xlab.lax.comparison import eq, select
from xlab.lax.convert import convert_element_type
from xlab.lax.elementwise import adapt, elementwise
from xlab.lax.shape import full_like

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "erf_inv", "erfc",
           "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh"]


def _one(x):
    return np.ones((), aval_of(x).dtype)[()]


def _number(value, x):
    return np.asarray(value).astype(aval_of(x).dtype)[()]


def _define(name: str, op: str, derivative, accepts=_e.inexact, *, ans: bool = False):
    """A unary function: its StableHLO operation and its derivative, `(t, x)` or `(t, ans, x)`."""
    prim = elementwise(name, accepts)
    (ad.defjvp2 if ans else ad.defjvp)(prim, derivative)
    mlir.register_lowering(prim, mlir.unary(op))
    return prim


def exp(x):
    """Elementwise exponential."""
    return exp_p.bind(x)


exp_p = _define("exp", "stablehlo.exponential", lambda t, ans, x: mul(t, ans), ans=True)


def exp2(x):
    """Elementwise power of two."""
    return exp2_p.bind(x)


exp2_p = elementwise("exp2", _e.inexact)
ad.defjvp2(exp2_p, lambda t, ans, x: mul(_number(np.log(2), x), mul(t, ans)))
mlir.register_lowering(exp2_p, lambda ctx, x: ctx.op(
    f"stablehlo.power {ctx.fill(2, ctx.avals_out[0])}, {x} : {ctx.type_out()}"))


def expm1(x):
    """Elementwise `exp(x) - 1`, accurate near zero."""
    return expm1_p.bind(x)


expm1_p = _define("expm1", "stablehlo.exponential_minus_one", lambda t, ans, x: mul(t, add(ans, _one(ans))), ans=True)


def log(x):
    """Elementwise natural logarithm."""
    return log_p.bind(x)


log_p = _define("log", "stablehlo.log", lambda t, x: div(t, x))


def log1p(x):
    """Elementwise `log(1 + x)`, accurate near zero."""
    return log1p_p.bind(x)


log1p_p = _define("log1p", "stablehlo.log_plus_one", lambda t, x: div(t, add(x, _one(x))))


def tanh(x):
    """Elementwise hyperbolic tangent."""
    return tanh_p.bind(x)


# (1 - y^2) t as (t + t y)(1 - y): no cancellation where y is close to 1.
tanh_p = _define("tanh", "stablehlo.tanh", lambda t, ans, x: mul(add(t, mul(t, ans)), sub(_one(x), ans)), ans=True)


def logistic(x):
    """Elementwise `1 / (1 + exp(-x))`."""
    return logistic_p.bind(x)


logistic_p = _define("logistic", "stablehlo.logistic", lambda t, ans, x: mul(t, mul(ans, sub(_one(ans), ans))), ans=True)


def sin(x):
    """Elementwise sine."""
    return sin_p.bind(x)


def cos(x):
    """Elementwise cosine."""
    return cos_p.bind(x)


def tan(x):
    """Elementwise tangent."""
    return tan_p.bind(x)


sin_p = _define("sin", "stablehlo.sine", lambda t, x: mul(t, cos(x)))
cos_p = _define("cos", "stablehlo.cosine", lambda t, x: neg(mul(t, sin(x))))
tan_p = _define("tan", "stablehlo.tan", lambda t, ans, x: mul(t, add(_one(x), square(ans))), ans=True)


def sinh(x):
    """Elementwise hyperbolic sine."""
    return sinh_p.bind(x)


def cosh(x):
    """Elementwise hyperbolic cosine."""
    return cosh_p.bind(x)


sinh_p = _define("sinh", "chlo.sinh", lambda t, x: mul(t, cosh(x)))
cosh_p = _define("cosh", "chlo.cosh", lambda t, x: mul(t, sinh(x)))


def asin(x):
    """Elementwise inverse sine."""
    return asin_p.bind(x)


def acos(x):
    """Elementwise inverse cosine."""
    return acos_p.bind(x)


def atan(x):
    """Elementwise inverse tangent."""
    return atan_p.bind(x)


asin_p = _define("asin", "chlo.asin", lambda t, x: mul(t, rsqrt(sub(_one(x), square(x)))))
acos_p = _define("acos", "chlo.acos", lambda t, x: mul(t, neg(rsqrt(sub(_one(x), square(x))))))
atan_p = _define("atan", "chlo.atan", lambda t, x: div(t, add(_one(x), square(x))))


def asinh(x):
    """Elementwise inverse hyperbolic sine."""
    return asinh_p.bind(x)


def acosh(x):
    """Elementwise inverse hyperbolic cosine."""
    return acosh_p.bind(x)


def atanh(x):
    """Elementwise inverse hyperbolic tangent."""
    return atanh_p.bind(x)


asinh_p = _define("asinh", "chlo.asinh", lambda t, x: mul(t, rsqrt(add(square(x), _one(x)))))
acosh_p = _define("acosh", "chlo.acosh", lambda t, x: mul(t, rsqrt(mul(sub(x, _one(x)), add(x, _one(x))))))
atanh_p = _define("atanh", "chlo.atanh", lambda t, x: mul(reciprocal_of(add(_one(x), x)), div(t, sub(_one(x), x))))


def reciprocal_of(x):
    return integer_pow(x, -1)


def atan2(x, y):
    """Elementwise angle of the point with ordinate `x` and abscissa `y`."""
    return atan2_p.bind(*adapt("atan2", x, y))


atan2_p = elementwise("atan2", _e.inexact, operands=2)
ad.defjvp(atan2_p, lambda t, x, y: mul(t, div(y, add(square(x), square(y)))),
          lambda t, x, y: mul(t, div(neg(x), add(square(x), square(y)))))
mlir.register_lowering(atan2_p, mlir.binary("stablehlo.atan2"))


def sqrt(x):
    """Elementwise square root."""
    return sqrt_p.bind(x)


def rsqrt(x):
    """Elementwise reciprocal of the square root."""
    return rsqrt_p.bind(x)


def cbrt(x):
    """Elementwise cube root."""
    return cbrt_p.bind(x)


# Written through `ans`: one division instead of a second root.
sqrt_p = _define("sqrt", "stablehlo.sqrt", lambda t, ans, x: mul(t, div(_number(0.5, x), ans)), ans=True)
rsqrt_p = _define("rsqrt", "stablehlo.rsqrt", lambda t, ans, x: mul(t, mul(_number(-0.5, x), div(ans, x))), ans=True)
cbrt_p = _define("cbrt", "stablehlo.cbrt", lambda t, ans, x: mul(t, mul(_number(1 / 3, x), div(ans, x))), _e.floating,
                 ans=True)


def erf(x):
    """Elementwise error function."""
    return erf_p.bind(x)


def erfc(x):
    """Elementwise `1 - erf(x)`, accurate for large `x`."""
    return erfc_p.bind(x)


def erf_inv(x):
    """Elementwise inverse of the error function."""
    return erf_inv_p.bind(x)


def _gauss(factor, t, x):
    return mul(_number(factor, x), mul(t, exp(neg(square(x)))))


erf_p = _define("erf", "chlo.erf", lambda t, x: _gauss(2 / np.sqrt(np.pi), t, x), _e.floating)
erfc_p = _define("erfc", "chlo.erfc", lambda t, x: _gauss(-2 / np.sqrt(np.pi), t, x), _e.floating)
erf_inv_p = _define("erf_inv", "chlo.erf_inv", lambda t, ans, x: mul(
    _number(np.sqrt(np.pi) / 2, x), mul(t, exp(square(ans)))), _e.floating, ans=True)


def is_complex(x) -> bool:
    return dtypes.issubdtype(aval_of(x).dtype, np.complexfloating)


def _pow_jvp(primals, tangents):
    x, y = primals
    tx, ty = tangents
    out = pow_p.bind(x, y)
    total = None
    if type(tx) is not Zero:
        # y x^(y-1), and 0 where y is 0 even at x = 0
        exponent = _as_like(y, x)
        safe = select(eq(exponent, _zero_of(exponent)), full_like(exponent, 1), sub(exponent, _one(x)))
        total = mul(tx, mul(exponent, pow_p.bind(x, safe)))
    if type(ty) is not Zero and _e.inexact(aval_of(y).dtype):
        # x^y log x, and 0 at x = 0
        safe = select(eq(x, _zero_of(x)), full_like(x, 1), x)
        total = ad.add_tangents(total, mul(ty, mul(log(safe), out)))
    return out, Zero.of(out) if total is None else _spread_tangent(total, out)


def _zero_of(x):
    return np.zeros((), aval_of(x).dtype)[()]


def _as_like(y, x):
    return convert_element_type(y, aval_of(x).dtype) if aval_of(y).dtype != aval_of(x).dtype else y


ad.primitive_jvps[pow_p] = _pow_jvp
