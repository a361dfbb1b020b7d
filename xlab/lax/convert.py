"""Changes of dtype: value-preserving, bit-preserving, and of precision only."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import HOST_VALUES, ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.source_info import warn
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.lax import sharding_in_types

__all__ = ["bitcast_convert_type", "convert_element_type", "reduce_precision", "stop_gradient"]


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The operand with another dtype; floats are truncated towards zero on the way to integers.

    Complex numbers that lose their imaginary part are warned of, by NumPy's `ComplexWarning`.
    """
    return convert(operand, new_dtype, weak_type=False)


def warn_of_lost_part(given, dtype) -> None:
    """Warns where values of dtype `given` lose their imaginary part in another one."""
    if given.kind == "c" and not dtypes.issubdtype(dtype, np.complexfloating):
        warn(
            f"Casting complex values to real discards the imaginary part: {dtypes.name(given)} to {dtypes.name(dtype)}. "
            f"Take the part that is meant with .real or .imag first.",
            np.exceptions.ComplexWarning,
        )


def convert(operand, new_dtype=None, weak_type: bool = False, *, warns: bool = True):
    """`convert_element_type` that can also change weakness; no equation where nothing changes.

    Where it `warns`, it does so of an imaginary part that is lost.
    """
    if (
        type(operand) is int
        and new_dtype is not None
        and not -(1 << 31) <= operand < 1 << 31
        and not dtypes.is_extended(new_dtype)
    ):
        # Wider than the ints of programs.
        operand = np.asarray(operand).astype(dtypes.canonicalize_dtype(new_dtype))
    aval = aval_of(operand)
    dtype = aval.dtype if new_dtype is None else new_dtype
    if not dtypes.is_extended(dtype):
        dtype = dtypes.canonicalize_dtype(dtype)
    if aval.dtype == dtype and aval.weak_type == weak_type and not isinstance(operand, HOST_VALUES):
        return operand
    both = dtype, aval.dtype
    own = next((d for d in both if dtypes.is_extended(d) and type(d) is not dtypes.KeyDType), None)
    if own is not None:
        known = own.is_made_of(aval.dtype) if own is dtype else own.opens_as(dtype)
        if not known and dtype != aval.dtype:
            raise ValueError(
                f"cannot convert {aval} to {dtypes.name(dtype)}: values of {own} are {own.base_dtype}, and are converted to and "
                f"from that alone. Convert to {own.base_dtype} first, and then to others"
            )
        return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=False, sharding=None)
    if dtypes.is_extended(dtype) != dtypes.is_extended(aval.dtype):
        raise TypeError(
            f"cannot convert {aval} to {dtypes.name(dtype)}: keys are made with xlab.random.wrap_key_data and "
            f"opened with xlab.random.key_data"
        )
    if warns:
        warn_of_lost_part(aval.dtype, dtype)
    return convert_element_type_p.bind(
        operand, new_dtype=dtype, weak_type=bool(weak_type), sharding=None
    )


def _convert_aval(x, *, new_dtype, weak_type, sharding):
    return ShapedArray(x.shape, new_dtype, weak_type)


def _convert_jvp(primals, tangents, *, new_dtype, weak_type, sharding):
    (x,), (t,) = primals, tangents
    out = convert_element_type_p.bind(
        x, new_dtype=new_dtype, weak_type=weak_type, sharding=sharding
    )
    new_dtype = ShapedArray((), new_dtype).to_tangent_aval().dtype
    if type(t) is Zero or new_dtype == dtypes.float0:
        return out, Zero.of(out)
    return out, convert_element_type_p.bind(
        t, new_dtype=new_dtype, weak_type=weak_type, sharding=sharding
    )


def _convert_transpose(ct, x, *, new_dtype, weak_type, sharding):
    # Back to the type it came from, also where that is one of 64 bits and those are off by now.
    back, given = x.aval, aval_of(ct)
    if given.dtype == back.dtype and given.weak_type == back.weak_type:
        return [ct]
    return [
        convert_element_type_p.bind(
            ct, new_dtype=back.dtype, weak_type=back.weak_type, sharding=None
        )
    ]


def _convert_lowering(ctx, x, *, new_dtype, weak_type, sharding):
    src, out = ctx.avals_in[0], ctx.avals_out[0]
    if src.dtype == out.dtype or dtypes.is_extended(src.dtype) or dtypes.is_extended(out.dtype):
        return x  # the same numbers
    t_in, t_out = mlir.tensor_type(src), mlir.tensor_type(out)
    complex_in = dtypes.issubdtype(src.dtype, np.complexfloating)
    if complex_in and not dtypes.issubdtype(out.dtype, np.complexfloating):
        part = src.update(dtype=np.zeros((), src.dtype).real.dtype)
        x = ctx.op(f"stablehlo.real {x} : ({t_in}) -> {mlir.tensor_type(part)}")
        src, t_in = part, mlir.tensor_type(part)
    if out.dtype == np.bool_:
        zero = ctx.fill(0, src)
        kind = (
            "FLOAT"
            if dtypes.issubdtype(src.dtype, np.inexact)
            else "UNSIGNED"
            if dtypes.issubdtype(src.dtype, np.unsignedinteger)
            else "SIGNED"
        )
        return ctx.op(f"stablehlo.compare NE, {x}, {zero}, {kind} : ({t_in}, {t_in}) -> {t_out}")
    return ctx.op(f"stablehlo.convert {x} : ({t_in}) -> {t_out}")


convert_element_type_p = Primitive("convert_element_type")
# Rounded to an integer, or asked whether they are zero, summands are no longer those of the sum.
convert_element_type_p.linear_in_unreduced = lambda x, *, new_dtype, **_: (
    True
    if (dtypes.issubdtype(new_dtype, np.inexact) and x.dtype != np.bool_)
    or (not dtypes.issubdtype(x.dtype, np.inexact) and np.bool_ not in (x.dtype, new_dtype))
    else ()
)
convert_element_type_p.def_abstract_eval(_convert_aval)
ad.primitive_jvps[convert_element_type_p] = _convert_jvp
ad.primitive_transposes[convert_element_type_p] = _convert_transpose
batching.defvectorized(convert_element_type_p)
mlir.register_text_lowering(convert_element_type_p, _convert_lowering)


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The same bits read as another dtype; a change of width adds or removes a last dimension."""
    if new_dtype is None:
        raise ValueError("bitcast_convert_type needs the dtype that the bits are read as, got None")
    return bitcast_convert_type_p.bind(operand, new_dtype=dtypes.canonicalize_dtype(new_dtype))


def _bitcast_aval(x, *, new_dtype):
    if dtypes.issubdtype(x.dtype, np.complexfloating) != dtypes.issubdtype(
        new_dtype, np.complexfloating
    ):
        raise TypeError(
            f"bitcast_convert_type does not read complex numbers as others, nor the other way round: got {x} and "
            f"{dtypes.name(new_dtype)}. Take parts with lax.real and lax.imag, join them with lax.complex"
        )
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    if old == new:
        return ShapedArray(x.shape, new_dtype)
    if old > new:
        return ShapedArray((*x.shape, old // new), new_dtype)
    if not x.shape or x.shape[-1] != new // old:
        raise TypeError(
            f"bitcast_convert_type from {x} to {dtypes.name(new_dtype)} needs a last dimension of size "
            f"{new // old}"
        )
    return ShapedArray(x.shape[:-1], new_dtype)


def _bitcast_batch(xs, dims, **params):
    x = batching.moveaxis(xs[0], dims[0], 0)
    return bitcast_convert_type_p.bind(x, **params), 0


bitcast_convert_type_p = Primitive("bitcast_convert_type")
bitcast_convert_type_p.def_abstract_eval(_bitcast_aval)
ad.defzero(bitcast_convert_type_p)
sharding_rules[bitcast_convert_type_p] = sharding_in_types.bitcast
batching.primitive_batchers[bitcast_convert_type_p] = _bitcast_batch
mlir.register_text_lowering(
    bitcast_convert_type_p,
    lambda ctx, x, new_dtype: ctx.op(
        f"stablehlo.bitcast_convert {x} : ({ctx.type_in()}) -> {ctx.type_out()}"
    ),
)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Rounds to the given number of exponent and mantissa bits, keeping the dtype.

    Args:
        operand: an array.
        exponent_bits: how many bits the exponent keeps.
        mantissa_bits: how many bits the mantissa keeps.
    """
    dtype, exponent_bits, mantissa_bits = (
        aval_of(operand).dtype,
        int(exponent_bits),
        int(mantissa_bits),
    )
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(f"reduce_precision rounds floats, got {dtypes.name(dtype)}")
    for name, bits, least in (
        ("exponent_bits", exponent_bits, 1),
        ("mantissa_bits", mantissa_bits, 0),
    ):
        if not least <= bits < 2**31:
            raise ValueError(
                f"reduce_precision needs {name} of at least {least} that fit in 32 bits, got {bits}"
            )
    return reduce_precision_p.bind(
        operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits
    )


reduce_precision_p = Primitive("reduce_precision")
reduce_precision_p.linear_in_unreduced = True
reduce_precision_p.def_abstract_eval(lambda x, **_: x)
ad.deflinear2(reduce_precision_p, lambda ct, x, **params: [reduce_precision_p.bind(ct, **params)])
batching.defvectorized(reduce_precision_p)
mlir.register_text_lowering(
    reduce_precision_p,
    lambda ctx, x, exponent_bits, mantissa_bits: ctx.op(
        f"stablehlo.reduce_precision {x}, format = e{exponent_bits}m{mantissa_bits} : {ctx.type_out()}"
    ),
)


def stop_gradient(x: Any) -> Any:
    """The value itself, with derivative zero; works on pytrees."""
    from xlab import tree

    def leaf(v):
        return stop_gradient_p.bind(v) if dtypes.issubdtype(aval_of(v).dtype, np.inexact) else v

    return tree.map(leaf, x)


stop_gradient_p = Primitive("stop_gradient")
stop_gradient_p.linear_in_unreduced = True
stop_gradient_p.def_abstract_eval(lambda x: x)
ad.defzero(stop_gradient_p)
batching.defvectorized(stop_gradient_p)
mlir.register_text_lowering(stop_gradient_p, lambda ctx, x: x)

costs.register(costs.fused_moves, convert_element_type_p, reduce_precision_p)
costs.register(costs.free, bitcast_convert_type_p, stop_gradient_p)
