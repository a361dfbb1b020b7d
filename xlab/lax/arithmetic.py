"""Arithmetic: add, sub, mul, div, rem, neg, powers, sign, rounding, min and max."""

from __future__ import annotations

import enum

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.jaxpr import Literal
from xlab.core.primitive import Primitive
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero, is_undefined_primal
from xlab.interpreters.jet import jet_rules
from xlab.interpreters.mlir.lowering_rules import single_operations
from xlab.lax import elementwise as _e
from xlab.lax.comparison import eq, gt, lt, ne, select
from xlab.lax.convert import convert
from xlab.lax.creation import full_like, zeros_like_aval
from xlab.lax.elementwise import elementwise, operand_aval
from xlab.lax.reduce_sum import reduce_sum_p
from xlab.lax.shape import broadcast_in_dim, reshape

__all__ = ["RoundingMethod", "abs", "add", "ceil", "div", "floor", "integer_pow", "is_finite", "max", "min", "mul", "neg", "pow",
           "reciprocal", "rem", "round", "sign", "square", "sub"]  # fmt: skip


def _summed(ct, x):
    """The cotangent of an operand that may have been broadcast: summed over the broadcast dimensions."""
    aval = operand_aval(x)
    if type(ct) is Zero:
        return ct
    shape = aval_of(ct).shape
    if aval.shape == shape:
        return ct
    if not aval.shape:
        return _sum_all(ct)
    grown = tuple(i for i, (m, n) in enumerate(zip(aval.shape, shape)) if m != n)
    return reshape(reduce_sum_p.bind(ct, axes=grown, out_sharding=None), aval.shape)


def _sum_all(x):
    return reduce_sum_p.bind(x, axes=tuple(range(aval_of(x).ndim)), out_sharding=None)


def spread_tangent(t, out):
    """A tangent broadcast to the result's shape, as its operand was."""
    shape = aval_of(out).shape
    if aval_of(t).shape == shape:
        return t
    return broadcast_in_dim(t, shape, range(aval_of(t).ndim))


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise sum `x + y`."""
    return add_p.bind(x, y)


def _sum_jvp(prim, of_second):
    """The rule of a sum or a difference; `of_second(t)` is the tangent where only the second operand has one."""

    def rule(primals, tangents):
        tx, ty = tangents
        out = prim.bind(*primals)
        if type(tx) is Zero and type(ty) is Zero:
            return out, Zero.of(out)
        if type(tx) is Zero:
            return out, spread_tangent(of_second(ty), out)
        if type(ty) is Zero:
            return out, spread_tangent(tx, out)
        return out, prim.bind(tx, ty)

    return rule


add_p = elementwise("add", _e.numeric, operands=2)
add_p.linear_in_unreduced = True
ad.primitive_jvps[add_p] = _sum_jvp(add_p, lambda t: t)
ad.primitive_transposes[add_p] = lambda ct, x, y: [
    _summed(ct, v) if is_undefined_primal(v) else None for v in (x, y)
]
mlir.register_text_lowering(add_p, mlir.binary("stablehlo.add"))

# Sum of cotangents of any type: the same as `add`, with the name JAX gives it in backward programs.
add_any_p = elementwise("add_any", lambda d: True, operands=2)
add_any_p.linear_in_unreduced = True
ad.primitive_jvps[add_any_p] = lambda primals, tangents: (
    add_any_p.bind(*primals),
    ad.add_tangents(*tangents),
)
ad.primitive_transposes[add_any_p] = lambda ct, x, y: [
    ct if is_undefined_primal(v) else None for v in (x, y)
]
mlir.register_text_lowering(add_any_p, mlir.binary("stablehlo.add"))


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise difference `x - y`."""
    return sub_p.bind(x, y)


sub_p = elementwise("sub", _e.numeric, operands=2)
sub_p.linear_in_unreduced = True
ad.primitive_jvps[sub_p] = _sum_jvp(sub_p, lambda t: neg(t))
ad.primitive_transposes[sub_p] = lambda ct, x, y: [
    _summed(ct, x) if is_undefined_primal(x) else None,
    _summed(neg(ct), y) if is_undefined_primal(y) else None,
]
mlir.register_text_lowering(sub_p, mlir.binary("stablehlo.subtract"))


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """Elementwise product `x * y`, of `out_dtype` where that is given: the operands become it before they are multiplied.

    Args:
        x, y: arrays of one shape and dtype.
        out_dtype: dtype of the product, where it is wider than the operands'.

    Example:
        >>> import numpy as np
        >>> mul(np.int8(100), np.int8(3), out_dtype=np.int32)
        Array(300, dtype=int32)
    """
    if out_dtype is not None:
        x, y = (_of_dtype(v, out_dtype) for v in (x, y))
    return mul_p.bind(x, y)


def _of_dtype(x, dtype):
    aval = aval_of(x)
    if not _e.numeric(aval.dtype):
        raise TypeError(
            f"mul takes numbers, not {aval}: convert bools with lax.convert_element_type"
        )
    return convert(x, dtypes.canonicalize_dtype(dtype), aval.weak_type)


mul_p = elementwise("mul", _e.numeric, operands=2)
mul_p.linear_in_unreduced = ((0,), (1,))
ad.defbilinear(
    mul_p,
    lambda ct, x, y: _summed(mul_p.bind(ct, y), x),
    lambda ct, x, y: _summed(mul_p.bind(x, ct), y),
)
mlir.register_text_lowering(mul_p, mlir.binary("stablehlo.multiply"))


def _guarded(op: str, by_zero):
    """Lowering rule of a division: replaces integer divisors of 0, since XLA's constant folder would divide by them.

    `by_zero(ctx, x, aval)` names the result there: all bits set for a quotient, the dividend for a remainder.
    """
    plain = mlir.binary(op)

    def rule(ctx, x, y):
        out = ctx.avals_out[0]
        divisor = ctx.eqn.invars[1]
        if not dtypes.issubdtype(out.dtype, np.integer) or (
            type(divisor) is Literal and np.all(np.asarray(divisor.val) != 0)
        ):
            return plain(ctx, x, y)
        a, b = ctx.avals_in
        x, y = ctx.broadcast_operand(x, a, out), ctx.broadcast_operand(y, b, out)
        t, pred = (
            ctx.type_out(),
            mlir.tensor_type(out.update(dtype=np.dtype(bool), weak_type=False)),
        )
        kind = "UNSIGNED" if dtypes.issubdtype(out.dtype, np.unsignedinteger) else "SIGNED"
        zero = ctx.op(
            f"stablehlo.compare EQ, {y}, {ctx.fill(0, out)}, {kind} : ({t}, {t}) -> {pred}"
        )
        safe = ctx.op(f"stablehlo.select {zero}, {ctx.fill(1, out)}, {y} : {pred}, {t}")
        value = ctx.op(f"{op} {x}, {safe} : {t}")
        return ctx.op(f"stablehlo.select {zero}, {by_zero(ctx, x, out)}, {value} : {pred}, {t}")

    return rule


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise quotient; integers divide towards zero."""
    return div_p.bind(x, y)


def _div_transpose(ct, x, y):
    if is_undefined_primal(y):
        raise TypeError("div is not linear in its divisor")
    return [_summed(div_p.bind(ct, y), x), None]


div_p = elementwise("div", _e.numeric, operands=2)
div_p.linear_in_unreduced = ((0,),)
# d(x/y) = dx/y - (x/y) dy/y
ad.defjvp2(
    div_p,
    lambda t, ans, x, y: spread_tangent(div_p.bind(t, y), ans),
    lambda t, ans, x, y: mul(mul(neg(t), x), integer_pow(y, -2)),
)


def _div_jet(primals, series, order):
    # q y = x, so the term k of q is what is left of that of x, divided by y.
    (x, y), (dx, dy) = primals, series
    out = [div_p.bind(x, y)]
    for k in range(order):
        rest = None if dx is None else dx[k]
        if dy is not None:
            for i in range(k + 1):
                product = mul_p.bind(dy[i], out[k - i])
                rest = neg(product) if rest is None else sub_p.bind(rest, product)
        out.append(div_p.bind(rest, y))
    return out[0], out[1:]


ad.primitive_transposes[div_p] = _div_transpose
jet_rules[div_p] = _div_jet
mlir.register_text_lowering(
    div_p,
    _guarded(
        "stablehlo.divide",
        lambda ctx, x, aval: ctx.fill(
            np.asarray(-1).astype(aval.dtype)
            if not dtypes.issubdtype(aval.dtype, np.unsignedinteger)
            else int(dtypes.iinfo(aval.dtype).max),
            aval,
        ),
    ),
)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise remainder with the sign of the dividend."""
    return rem_p.bind(x, y)


rem_p = elementwise("rem", _e.real, operands=2)
ad.defjvp(
    rem_p,
    lambda t, x, y: spread_tangent(t, rem_p.bind(x, y)),
    lambda t, x, y: mul(neg(t), _truncate(div_p.bind(x, y))),
)
mlir.register_text_lowering(rem_p, _guarded("stablehlo.remainder", lambda ctx, x, aval: x))


def _truncate(x):
    return mul(sign(x), floor(abs(x)))


def neg(x: ArrayLike) -> Array:
    """Elementwise negation."""
    return neg_p.bind(x)


neg_p = elementwise("neg", _e.numeric)
neg_p.linear_in_unreduced = True
ad.deflinear2(neg_p, lambda ct, x: [neg(ct)])
mlir.register_text_lowering(neg_p, mlir.unary("stablehlo.negate"))


def abs(x: ArrayLike) -> Array:
    """Elementwise absolute value; the modulus of complex numbers."""
    return abs_p.bind(x)


abs_p = elementwise("abs", _e.signed, result=_e.real_part_dtype)
# Its derivative, which needs the parts of complex numbers, stands in complexes.py.
mlir.register_text_lowering(
    abs_p,
    lambda ctx, x: ctx.op(
        f"stablehlo.abs {x} : {ctx.type_out()}"
        if ctx.avals_in[0].dtype == ctx.avals_out[0].dtype
        else f"stablehlo.abs {x} : ({ctx.type_in()}) -> {ctx.type_out()}"
    ),
)


def sign(x: ArrayLike) -> Array:
    """Elementwise sign: -1, 0 or 1; x/|x| for complex numbers."""
    return sign_p.bind(x)


def _sign_lowering(ctx, x):
    aval = ctx.avals_in[0]
    if dtypes.issubdtype(aval.dtype, np.unsignedinteger):
        zero, one = ctx.fill(0, aval), ctx.fill(1, aval)
        pred = mlir.tensor_type(aval.update(dtype=np.dtype(bool)))
        t = ctx.type_in()
        is_zero = ctx.op(f"stablehlo.compare EQ, {x}, {zero}, UNSIGNED : ({t}, {t}) -> {pred}")
        return ctx.op(f"stablehlo.select {is_zero}, {zero}, {one} : {pred}, {t}")
    return ctx.op(f"stablehlo.sign {x} : {ctx.type_in()}")


sign_p = elementwise("sign", _e.numeric)
ad.defzero(sign_p)
mlir.register_text_lowering(sign_p, _sign_lowering)


def floor(x: ArrayLike) -> Array:
    """Elementwise largest integer not above `x`, as a float."""
    return floor_p.bind(x)


floor_p = elementwise("floor", _e.floating)
ad.defzero(floor_p)
mlir.register_text_lowering(floor_p, mlir.unary("stablehlo.floor"))


def ceil(x: ArrayLike) -> Array:
    """Elementwise smallest integer not below `x`, as a float."""
    return ceil_p.bind(x)


ceil_p = elementwise("ceil", _e.floating)
ad.defzero(ceil_p)
mlir.register_text_lowering(ceil_p, mlir.unary("stablehlo.ceil"))


class RoundingMethod(enum.IntEnum):
    """How halves are rounded."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Elementwise nearest integer, as a float; halves away from zero or to even."""
    return round_p.bind(x, rounding_method=int(RoundingMethod(rounding_method)))


round_p = elementwise("round", _e.floating)
ad.defzero(round_p)
mlir.register_text_lowering(
    round_p,
    lambda ctx, x, rounding_method: ctx.op(
        f"stablehlo.round_nearest_{'even' if rounding_method else 'afz'} {x} : {ctx.type_out()}"
    ),
)


def is_finite(x: ArrayLike) -> Array:
    """Elementwise test for neither infinity nor NaN."""
    return is_finite_p.bind(x)


is_finite_p = elementwise("is_finite", _e.floating, result=_e.to_bool)
ad.defzero(is_finite_p)
mlir.register_text_lowering(
    is_finite_p,
    lambda ctx, x: ctx.op(f"stablehlo.is_finite {x} : ({ctx.type_in()}) -> {ctx.type_out()}"),
)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise power; the exponent has the base's dtype, or is an integer."""
    return pow_p.bind(x, y)


def _pow_aval(x, y):
    integer_exponent = _e.integer(y.dtype)
    if not _e.inexact(x.dtype) or (y.dtype != x.dtype and not integer_exponent):
        raise TypeError(
            f"pow takes an inexact base and an exponent of the same dtype or an integer one, got {x} and {y}"
        )
    return ShapedArray(_e.joint_shape("pow", (x, y)), x.dtype, x.weak_type and y.weak_type)


def _pow_lowering(ctx, x, y):
    a, b = ctx.avals_in
    out = ctx.avals_out[0]
    x, y = ctx.broadcast_operand(x, a, out), ctx.broadcast_operand(y, b, out)
    if b.dtype != a.dtype:
        y = ctx.op(
            f"stablehlo.convert {y} : ({mlir.tensor_type(b.update(shape=out.shape))}) -> {ctx.type_out()}"
        )
    return ctx.op(f"stablehlo.power {x}, {y} : {ctx.type_out()}")


pow_p = Primitive("pow")
pow_p.def_abstract_eval(_pow_aval)
batching.defbroadcasting(pow_p)
# Its derivative, which needs the logarithm, stands in transcendental.py.
mlir.register_text_lowering(pow_p, _pow_lowering)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """Elementwise power with a fixed integer exponent, by repeated squaring."""
    if y < 0 and not _e.inexact(aval_of(x).dtype):
        raise TypeError(
            f"Integers cannot be raised to negative powers, got integer_pow({aval_of(x)}, {y})"
        )
    if hasattr(y, "shape") and not isinstance(y, np.generic):
        raise TypeError(
            f"integer_pow takes its exponent from the program's text, an integer, got {y!r}: use pow for an array"
        )
    if int(y) != y:
        raise TypeError(f"integer_pow takes a whole exponent, got {y!r}: use pow")
    return integer_pow_p.bind(x, y=int(y))


def _integer_pow_jvp(t, x, *, y):
    if y == 0:
        return Zero(aval_of(t))
    return mul(t, mul(_e.beside(y, x), _integer_power(x, y - 1)))


def _integer_power(x, n):
    return x if n == 1 else integer_pow_p.bind(x, y=n)


def _integer_pow_lowering(ctx, x, *, y):
    t = ctx.type_out()
    if y == 0:
        return ctx.fill(1, ctx.avals_out[0])
    n, power, acc = -y if y < 0 else y, x, None
    while n:
        if n & 1:
            acc = power if acc is None else ctx.op(f"stablehlo.multiply {acc}, {power} : {t}")
        n >>= 1
        if n:
            power = ctx.op(f"stablehlo.multiply {power}, {power} : {t}")
    if y < 0:
        acc = ctx.op(f"stablehlo.divide {ctx.fill(1, ctx.avals_out[0])}, {acc} : {t}")
    return acc


integer_pow_p = elementwise("integer_pow", _e.numeric)
ad.defjvp(integer_pow_p, _integer_pow_jvp)
mlir.register_text_lowering(integer_pow_p, _integer_pow_lowering)


def square(x: ArrayLike) -> Array:
    """Elementwise `x * x`."""
    return square_p.bind(x)


square_p = elementwise("square", _e.numeric)
ad.defjvp(square_p, lambda t, x: mul(t, mul(_e.beside(2, x), x)))
mlir.register_text_lowering(
    square_p, lambda ctx, x: ctx.op(f"stablehlo.multiply {x}, {x} : {ctx.type_out()}")
)


def reciprocal(x: ArrayLike) -> Array:
    """Elementwise `1 / x`."""
    return integer_pow(x, -1)


def _share_by(wins_over):
    """Share of the derivative that goes to the first operand of `max` or `min`: all, none, or half on a tie."""

    def share(x, y):
        ties, a, b = eq(x, y), aval_of(x), aval_of(y)
        like = aval_of(ties).update(dtype=a.dtype, weak_type=a.weak_type and b.weak_type)

        def filled(v):
            return full_like(like, v)

        return select(wins_over(x, y), filled(1), select(ties, filled(0.5), filled(0)))

    return share


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise maximum; NaN if either is NaN. Complex numbers compare by real part, then by imaginary part."""
    return max_p.bind(x, y)


def _winner(compare, extremum):
    """Where the first operand alone is the extremum; complex numbers have no comparison to ask."""

    def wins_over(x, y):
        return ne(extremum.bind(x, y), y) if _e.complexes(aval_of(x).dtype) else compare(x, y)

    return wins_over


_DIRECTIONS = {"stablehlo.maximum": "GT", "stablehlo.minimum": "LT"}


def complex_extremum(ctx, op, x, y, aval) -> str:
    """The larger or smaller of two complex arrays of one type, by real part, then by imaginary part; `op` is the operation on real ones."""
    direction = _DIRECTIONS[op]
    part = mlir.tensor_type(ShapedArray(aval.shape, _e.real_part_dtype(aval.dtype)))
    pred, whole = mlir.tensor_type(ShapedArray(aval.shape, bool)), mlir.tensor_type(aval)

    def parts(v):
        return [ctx.op(f"stablehlo.{side} {v} : ({whole}) -> {part}") for side in ("real", "imag")]

    def compare(how, v, w):
        return ctx.op(f"stablehlo.compare {how}, {v}, {w}, FLOAT : ({part}, {part}) -> {pred}")

    (a, b), (c, d) = parts(x), parts(y)
    tie = ctx.op(f"stablehlo.and {compare('EQ', a, c)}, {compare(direction, b, d)} : {pred}")
    wins = ctx.op(f"stablehlo.or {compare(direction, a, c)}, {tie} : {pred}")
    return ctx.op(f"stablehlo.select {wins}, {x}, {y} : {pred}, {whole}")


def _extremum_lowering(op):
    """The native operation; for complex numbers, which it does not know, a choice by parts."""
    native = mlir.binary(op)

    def lower(ctx, x, y):
        aval = ctx.avals_out[0]
        if not _e.complexes(aval.dtype):
            return native(ctx, x, y)
        return complex_extremum(
            ctx,
            op,
            ctx.broadcast_operand(x, ctx.avals_in[0], aval),
            ctx.broadcast_operand(y, ctx.avals_in[1], aval),
            aval,
        )

    single_operations[lower] = (single_operations[native][0], False)
    return lower


max_p = elementwise("max", _e.sortable, operands=2)
_max_share = _share_by(_winner(gt, max_p))
ad.defjvp(max_p, lambda t, x, y: mul(t, _max_share(x, y)), lambda t, x, y: mul(t, _max_share(y, x)))
mlir.register_text_lowering(max_p, _extremum_lowering("stablehlo.maximum"))


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise minimum; NaN if either is NaN. Complex numbers compare by real part, then by imaginary part."""
    return min_p.bind(x, y)


min_p = elementwise("min", _e.sortable, operands=2)
_min_share = _share_by(_winner(lt, min_p))
ad.defjvp(min_p, lambda t, x, y: mul(t, _min_share(x, y)), lambda t, x, y: mul(t, _min_share(y, x)))
mlir.register_text_lowering(min_p, _extremum_lowering("stablehlo.minimum"))


def _add_any(x, y):
    dtype = getattr(aval_of(x), "dtype", None)
    if dtypes.is_extended(dtype):  # of a library's own, which says what a sum of derivatives is
        return dtype.rule("add")(dtype, x, y)
    return add_any_p.bind(x, y)


ad.set_arithmetic(zeros_like_aval, _add_any, add_any_p)

costs.register(costs.each(0, 1), pow_p)


def _integer_pow_cost(avals_in, avals_out, *, y):
    n = y if y >= 0 else -y
    # By repeated squaring: one multiplication for each bit after the first, and one for each bit that is set.
    each = n.bit_length() - 1 + n.bit_count() if n > 1 else 0
    return costs.Cost((each + (y < 0)) * avals_out[0].size)


costs.register(_integer_pow_cost, integer_pow_p)
