"""Complex numbers: parts, conjugate, assembly."""

from __future__ import annotations

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import is_undefined_primal
from xlab.lax import elementwise as _e
from xlab.lax.arithmetic import _summed, abs_p, add, div, mul, neg
from xlab.lax.comparison import eq, ge, select
from xlab.lax.creation import full_like
from xlab.lax.elementwise import elementwise

__all__ = ["complex", "conj", "imag", "real"]


def _zeros(x):
    return full_like(x, 0)


def _no_part(ct):
    """The part of a complex cotangent that a real one leaves zero, as a strong type: so the reference's derivatives are."""
    return full_like(ct, 0, aval_of(ct).dtype)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise `x + iy` from two real arrays of one dtype."""
    return complex_p.bind(x, y)


complex_p = Primitive("complex")
complex_p.linear_in_unreduced = True


@complex_p.def_abstract_eval
def _complex_aval(x, y):
    _e.check_dtypes("complex", (x, y), lambda d: d in (np.float32, np.float64))
    dtype = np.dtype(np.complex64 if x.dtype == np.float32 else np.complex128)
    return ShapedArray(_e.joint_shape("complex", (x, y)), dtype, x.weak_type and y.weak_type)


batching.defbroadcasting(complex_p)
ad.deflinear2(
    complex_p,
    lambda ct, x, y: [
        _summed(real(ct), x) if is_undefined_primal(x) else None,
        _summed(imag(neg(ct)), y) if is_undefined_primal(y) else None,
    ],
)


def _complex_lowering(ctx, x, y):
    out = ctx.avals_out[0]
    part = ShapedArray(out.shape, ctx.avals_in[0].dtype)
    x, y = (ctx.broadcast_operand(v, a, part) for v, a in zip((x, y), ctx.avals_in))
    return ctx.op(
        f"stablehlo.complex {x}, {y} : ({mlir.tensor_type(part)}, {mlir.tensor_type(part)}) -> {ctx.type_out()}"
    )


mlir.register_text_lowering(complex_p, _complex_lowering)


def real(x: ArrayLike) -> Array:
    """Real part of complex numbers."""
    return real_p.bind(x)


def imag(x: ArrayLike) -> Array:
    """Imaginary part of complex numbers."""
    return imag_p.bind(x)


real_p = elementwise("real", _e.complexes, result=_e.real_part_dtype)
real_p.linear_in_unreduced = True
ad.deflinear2(real_p, lambda ct, x: [complex(ct, _no_part(ct))])
mlir.register_text_lowering(
    real_p, lambda ctx, x: ctx.op(f"stablehlo.real {x} : ({ctx.type_in()}) -> {ctx.type_out()}")
)
imag_p = elementwise("imag", _e.complexes, result=_e.real_part_dtype)
imag_p.linear_in_unreduced = True
ad.deflinear2(imag_p, lambda ct, x: [complex(_no_part(ct), neg(ct))])
mlir.register_text_lowering(
    imag_p, lambda ctx, x: ctx.op(f"stablehlo.imag {x} : ({ctx.type_in()}) -> {ctx.type_out()}")
)


def conj(x: ArrayLike) -> Array:
    """Complex conjugate; real numbers become complex."""
    if not _e.complexes(aval_of(x).dtype):
        return complex(x, _zeros(x))
    return conj_p.bind(x, input_dtype=aval_of(x).dtype)


conj_p = elementwise("conj", _e.complexes)
conj_p.linear_in_unreduced = True
ad.deflinear2(conj_p, lambda ct, x, input_dtype: [conj_p.bind(ct, input_dtype=input_dtype)])


def _conj_lowering(ctx, x, *, input_dtype):
    aval = ctx.avals_in[0]
    part = mlir.tensor_type(aval.update(dtype=_e.real_part_dtype(aval.dtype)))
    re = ctx.op(f"stablehlo.real {x} : ({ctx.type_in()}) -> {part}")
    im = ctx.op(f"stablehlo.imag {x} : ({ctx.type_in()}) -> {part}")
    minus = ctx.op(f"stablehlo.negate {im} : {part}")
    return ctx.op(f"stablehlo.complex {re}, {minus} : ({part}, {part}) -> {ctx.type_out()}")


mlir.register_text_lowering(conj_p, _conj_lowering)


def _abs_jvp(t, ans, x):
    if dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        safe = _replace_zero(ans)
        return div(add(mul(real(x), real(t)), mul(imag(x), imag(t))), safe)
    # One slope also at zero, not none: the second derivative of abs(x)**2 is 2 there as well.
    return mul(t, select(ge(x, full_like(x, 0)), full_like(x, 1), full_like(x, -1)))


def _replace_zero(x):
    return select(eq(x, full_like(x, 0)), full_like(x, 1), x)


ad.defjvp2(abs_p, _abs_jvp)

costs.register(costs.fused_moves, complex_p, real_p, imag_p)
