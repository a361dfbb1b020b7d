"""Exponentials, logarithms, trigonometry, roots, error functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.trace import is_tracer
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.interpreters.jet import integral, jet_rules, velocity
from xlab.interpreters.mlir.lowering_rules import single_operations
from xlab.lax import elementwise as _e
from xlab.lax.accuracy import attribute, checked, unary
from xlab.lax.arithmetic import add, div, integer_pow, mul, neg, pow_p, spread_tangent, square, sub
from xlab.lax.comparison import eq, select
from xlab.lax.complexes import complex as complex_of
from xlab.lax.complexes import imag, real
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import full_like
from xlab.lax.elementwise import elementwise

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "erf_inv", "erfc",
           "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh"]  # fmt: skip


def _one(x):
    """A one for a derivative rule, weak beside a weak value of any shape, as those of the reference are in these rules."""
    return _e.beside(1, x, weak=aval_of(x).weak_type)


def _define(name: str, op: str, derivative, accepts=_e.inexact, *, ans: bool = False):
    """A unary function: its StableHLO operation and its derivative, `(t, x)` or `(t, ans, x)`."""
    prim = elementwise(name, accepts)
    (ad.defjvp2 if ans else ad.defjvp)(prim, derivative)
    mlir.register_text_lowering(prim, mlir.unary(op))
    return prim


def _accurate(name: str, op: str, derivative, accepts=_e.inexact, *, ans: bool = False):
    """As `_define`, for a function that takes an accuracy."""

    def without(*args, accuracy=None):
        return derivative(*args)

    prim = _define(name, op, derivative if name in ("sin", "cos") else without, accepts, ans=ans)
    mlir.register_text_lowering(prim, unary(op))
    return prim


def exp(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise exponential."""
    return exp_p.bind(x) if accuracy is None else exp_p.bind(x, accuracy=checked("exp", accuracy))


exp_p = _accurate("exp", "stablehlo.exponential", lambda t, ans, x: mul(t, ans), ans=True)


def _exp_jet(primals, series, order, **params):
    # y' = y x'
    out, speed = [exp_p.bind(*primals, **params)], velocity(series[0])
    for _ in range(order):
        out.append(integral(speed, out))
    return out[0], out[1:]


jet_rules[exp_p] = _exp_jet


def exp2(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise power of two."""
    return (
        exp2_p.bind(x) if accuracy is None else exp2_p.bind(x, accuracy=checked("exp2", accuracy))
    )


exp2_p = elementwise("exp2", _e.inexact)
ad.defjvp2(exp2_p, lambda t, ans, x, accuracy=None: mul(_e.beside(np.log(2), x), mul(t, ans)))


def _exp2_lowering(ctx, x, accuracy=None):
    aval = ctx.avals_out[0]
    if accuracy is None:
        return ctx.op(f"stablehlo.power {ctx.fill(2, aval)}, {x} : {ctx.type_out()}")
    scaled = ctx.op(f"stablehlo.multiply {x}, {ctx.fill(np.log(2), aval)} : {ctx.type_out()}")
    return ctx.op(f"stablehlo.exponential {scaled}{attribute(accuracy)} : {ctx.type_out()}")


mlir.register_text_lowering(exp2_p, _exp2_lowering)


def expm1(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise `exp(x) - 1`, accurate near zero."""
    return (
        expm1_p.bind(x)
        if accuracy is None
        else expm1_p.bind(x, accuracy=checked("expm1", accuracy))
    )


expm1_p = _accurate(
    "expm1",
    "stablehlo.exponential_minus_one",
    lambda t, ans, x: mul(t, add(ans, _one(ans))),
    ans=True,
)


def log(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise natural logarithm."""
    return log_p.bind(x) if accuracy is None else log_p.bind(x, accuracy=checked("log", accuracy))


log_p = _accurate("log", "stablehlo.log", lambda t, x: div(t, x))


def log1p(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise `log(1 + x)`, accurate near zero."""
    return (
        log1p_p.bind(x)
        if accuracy is None
        else log1p_p.bind(x, accuracy=checked("log1p", accuracy))
    )


log1p_p = _accurate("log1p", "stablehlo.log_plus_one", lambda t, x: div(t, add(x, _one(x))))


def tanh(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise hyperbolic tangent."""
    return (
        tanh_p.bind(x) if accuracy is None else tanh_p.bind(x, accuracy=checked("tanh", accuracy))
    )


# (1 - y^2) t as (t + t y)(1 - y): no cancellation where y is close to 1.
tanh_p = _accurate(
    "tanh",
    "stablehlo.tanh",
    lambda t, ans, x: mul(add(t, mul(t, ans)), sub(_one(x), ans)),
    ans=True,
)


def logistic(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise `1 / (1 + exp(-x))`."""
    return (
        logistic_p.bind(x)
        if accuracy is None
        else logistic_p.bind(x, accuracy=checked("logistic", accuracy))
    )


logistic_p = _accurate(
    "logistic",
    "stablehlo.logistic",
    lambda t, ans, x: mul(t, mul(ans, sub(_one(ans), ans))),
    ans=True,
)


def sin(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise sine."""
    return sin_p.bind(x) if accuracy is None else sin_p.bind(x, accuracy=checked("sin", accuracy))


def cos(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise cosine."""
    return cos_p.bind(x) if accuracy is None else cos_p.bind(x, accuracy=checked("cos", accuracy))


def tan(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise tangent."""
    return tan_p.bind(x) if accuracy is None else tan_p.bind(x, accuracy=checked("tan", accuracy))


sin_p = _accurate(
    "sin", "stablehlo.sine", lambda t, x, accuracy=None: mul(t, cos(x, accuracy=accuracy))
)
cos_p = _accurate(
    "cos", "stablehlo.cosine", lambda t, x, accuracy=None: neg(mul(t, sin(x, accuracy=accuracy)))
)


def _complex_sin(x, accuracy=None):
    # sin(a + ib) = sin a cosh b + i cos a sinh b. On the imaginary axis it has no real part, though cosh may be infinite.
    a, b = real(x), imag(x)
    rise, swing = _hyperbolic(b)
    return complex_of(select(eq(a, full_like(a, 0)), a, mul(sin(a), rise)), mul(cos(a), swing))


def _complex_cos(x, accuracy=None):
    # cos(a + ib) = cos a cosh b - i sin a sinh b, real on the imaginary axis.
    a, b = real(x), imag(x)
    rise, swing = _hyperbolic(b)
    side = select(eq(a, full_like(a, 0)), full_like(a, 0), neg(mul(sin(a), swing)))
    return complex_of(mul(cos(a), rise), side)


def _hyperbolic(b):
    """cosh and sinh, from exp b - 1, which loses nothing near zero."""
    half = full_like(b, 0.5)
    up, down = mul(half, expm1(b)), mul(half, expm1(neg(b)))
    return add(add(up, down), full_like(b, 1)), sub(up, down)


def _lowered_by_parts(op, of_complex):
    of_reals, by_parts = unary(op), mlir.lower_fun(of_complex, multiple_results=False)

    def lowering(ctx, x, **params):
        rule = by_parts if _e.complexes(ctx.avals_in[0].dtype) else of_reals
        return rule(ctx, x, **params)

    single_operations[lowering] = (f"{op} ", False)
    return lowering


mlir.register_text_lowering(sin_p, _lowered_by_parts("stablehlo.sine", _complex_sin))
mlir.register_text_lowering(cos_p, _lowered_by_parts("stablehlo.cosine", _complex_cos))


def _circle_jet(primals, series, order, **params):
    """The terms of the sine and of the cosine: each is the other's derivative."""
    speed = velocity(series[0])
    sines, cosines = [sin_p.bind(*primals, **params)], [cos_p.bind(*primals, **params)]
    for _ in range(order):
        rise, fall = integral(speed, cosines), integral(speed, sines)
        sines.append(rise)
        cosines.append(neg(fall))
    return sines, cosines


def _sin_jet(*args, **params):
    sines, _ = _circle_jet(*args, **params)
    return sines[0], sines[1:]


def _cos_jet(*args, **params):
    _, cosines = _circle_jet(*args, **params)
    return cosines[0], cosines[1:]


jet_rules[sin_p], jet_rules[cos_p] = _sin_jet, _cos_jet
tan_p = _accurate(
    "tan", "stablehlo.tan", lambda t, ans, x: mul(t, add(_e.beside(1, x), square(ans))), ans=True
)


def sinh(x: ArrayLike) -> Array:
    """Elementwise hyperbolic sine."""
    return sinh_p.bind(x)


def cosh(x: ArrayLike) -> Array:
    """Elementwise hyperbolic cosine."""
    return cosh_p.bind(x)


sinh_p = _define("sinh", "chlo.sinh", lambda t, x: mul(t, cosh(x)))
cosh_p = _define("cosh", "chlo.cosh", lambda t, x: mul(t, sinh(x)))


def asin(x: ArrayLike) -> Array:
    """Elementwise inverse sine."""
    return asin_p.bind(x)


def acos(x: ArrayLike) -> Array:
    """Elementwise inverse cosine."""
    return acos_p.bind(x)


def atan(x: ArrayLike) -> Array:
    """Elementwise inverse tangent."""
    return atan_p.bind(x)


asin_p = _define("asin", "chlo.asin", lambda t, x: mul(t, rsqrt(sub(_e.beside(1, x), square(x)))))
acos_p = _define(
    "acos", "chlo.acos", lambda t, x: mul(t, neg(rsqrt(sub(_e.beside(1, x), square(x)))))
)
atan_p = _define("atan", "chlo.atan", lambda t, x: div(t, add(_e.beside(1, x), square(x))))


def asinh(x: ArrayLike) -> Array:
    """Elementwise inverse hyperbolic sine."""
    return asinh_p.bind(x)


def acosh(x: ArrayLike) -> Array:
    """Elementwise inverse hyperbolic cosine."""
    return acosh_p.bind(x)


def atanh(x: ArrayLike) -> Array:
    """Elementwise inverse hyperbolic tangent."""
    return atanh_p.bind(x)


asinh_p = _define("asinh", "chlo.asinh", lambda t, x: mul(t, rsqrt(add(square(x), _one(x)))))
acosh_p = _define(
    "acosh", "chlo.acosh", lambda t, x: mul(t, mul(rsqrt(sub(x, _one(x))), rsqrt(add(x, _one(x)))))
)
# One root of the product would be right for x > 1 alone: squares overflow, and left of the sharding between them the root changes its sign.
atanh_p = _define(
    "atanh", "chlo.atanh", lambda t, x: mul(reciprocal_of(add(_one(x), x)), div(t, sub(_one(x), x)))
)


def reciprocal_of(x):
    return integer_pow(x, -1)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise angle of the point with ordinate `x` and abscissa `y`."""
    return atan2_p.bind(x, y)


atan2_p = elementwise("atan2", _e.inexact, operands=2)
ad.defjvp(
    atan2_p,
    lambda t, x, y: mul(t, div(y, add(square(x), square(y)))),
    lambda t, x, y: mul(t, div(neg(x), add(square(x), square(y)))),
)
mlir.register_text_lowering(atan2_p, mlir.binary("stablehlo.atan2"))


def sqrt(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise square root."""
    return (
        sqrt_p.bind(x) if accuracy is None else sqrt_p.bind(x, accuracy=checked("sqrt", accuracy))
    )


def rsqrt(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise reciprocal of the square root."""
    return (
        rsqrt_p.bind(x)
        if accuracy is None
        else rsqrt_p.bind(x, accuracy=checked("rsqrt", accuracy))
    )


def cbrt(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Elementwise cube root."""
    return (
        cbrt_p.bind(x) if accuracy is None else cbrt_p.bind(x, accuracy=checked("cbrt", accuracy))
    )


# Written through `ans`: one division instead of a second root.
sqrt_p = _accurate(
    "sqrt", "stablehlo.sqrt", lambda t, ans, x: mul(t, div(_e.beside(0.5, x), ans)), ans=True
)
rsqrt_p = _accurate(
    "rsqrt",
    "stablehlo.rsqrt",
    lambda t, ans, x: mul(t, mul(_e.beside(-0.5, x), div(ans, x))),
    ans=True,
)
# Not through ans / x: the slope at zero is infinite.
cbrt_p = _accurate(
    "cbrt",
    "stablehlo.cbrt",
    lambda t, ans, x: mul(t, mul(_e.beside(1 / 3, x), integer_pow(ans, -2))),
    _e.floating,
    ans=True,
)


def erf(x: ArrayLike) -> Array:
    """Elementwise error function."""
    return erf_p.bind(x)


def erfc(x: ArrayLike) -> Array:
    """Elementwise `1 - erf(x)`, accurate for large `x`."""
    return erfc_p.bind(x)


def erf_inv(x: ArrayLike) -> Array:
    """Elementwise inverse of the error function."""
    return erf_inv_p.bind(x)


def _gauss(factor, t, x):
    return mul(_e.beside(factor, x), mul(t, exp(neg(square(x)))))


erf_p = _define("erf", "chlo.erf", lambda t, x: _gauss(2 / np.sqrt(np.pi), t, x), _e.floating)
erfc_p = _define("erfc", "chlo.erfc", lambda t, x: _gauss(-2 / np.sqrt(np.pi), t, x), _e.floating)
erf_inv_p = _define(
    "erf_inv",
    "chlo.erf_inv",
    lambda t, ans, x: mul(_e.beside(np.sqrt(np.pi) / 2, x), mul(t, exp(square(ans)))),
    _e.floating,
    ans=True,
)


def is_complex(x) -> bool:
    return dtypes.issubdtype(aval_of(x).dtype, np.complexfloating)


def _pow_jvp(primals, tangents):
    x, y = primals
    tx, ty = tangents
    out = pow_p.bind(x, y)
    total = None
    nonzero = select(eq(x, _zero_of(x)), full_like(x, 1), x)
    if type(tx) is not Zero:
        # y x^(y-1), and 0 where y is 0 even at x = 0; beside a number that is known it is strong, as in the reference
        known = not is_tracer(y)
        exponent = _as_like(y, x)
        parts = exponent, nonzero, x
        if aval_of(exponent).shape not in ((), aval_of(x).shape):
            parts = [spread_tangent(v, out) for v in parts]  # sizes of 1 meet others
        base = select(eq(parts[0], _zero_of(parts[0])), *parts[1:])
        power = pow_p.bind(_strong(base) if known else base, sub(exponent, _one(x)))
        total = mul(tx, mul(exponent, power))
    if type(ty) is not Zero and _e.inexact(aval_of(y).dtype):
        # x^y log x, and 0 at x = 0
        total = ad.add_tangents(total, _strong(mul(ty, mul(log(nonzero), out))))
    return out, Zero.of(out) if total is None else spread_tangent(total, out)


def _strong(x):
    aval = aval_of(x)
    return convert_element_type(x, aval.dtype) if aval.weak_type else x


def _zero_of(x):
    return _e.beside(0, x)


def _as_like(y, x):
    return convert_element_type(y, aval_of(x).dtype) if aval_of(y).dtype != aval_of(x).dtype else y


ad.primitive_jvps[pow_p] = _pow_jvp

costs.register(
    costs.each(0, 1),
    exp_p,
    exp2_p,
    expm1_p,
    log_p,
    log1p_p,
    tanh_p,
    logistic_p,
    sin_p,
    cos_p,
    tan_p,
    sinh_p,
    cosh_p,
    asin_p,
    acos_p,
    atan_p,
    asinh_p,
    acosh_p,
    atanh_p,
    atan2_p,
    sqrt_p,
    rsqrt_p,
    cbrt_p,
    erf_p,
    erfc_p,
    erf_inv_p,
)
