"""How types and constants are spelled in StableHLO text."""

from __future__ import annotations

import math

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import TOKEN, AbstractValue, ShapedArray
from xlab.core.dims import CLOSE, OPEN, SymbolicDim


def physical_aval(aval: AbstractValue) -> AbstractValue:
    """The type that is computed with: extended dtypes (random keys) are arrays of their base dtype, float0 is bool."""
    if type(aval) is ShapedArray and dtypes.is_extended(aval.dtype):
        dtype = aval.dtype
        return ShapedArray(
            aval.shape + tuple(dtype.base_shape),
            dtype.base_dtype,
            mat=aval.mat,
            memory_space=aval.memory_space,
        )
    if type(aval) is ShapedArray and aval.dtype == dtypes.float0:
        return aval.update(dtype=np.dtype(bool))
    return _NO_DATA if aval is TOKEN else aval


_NO_DATA = ShapedArray((0,), np.dtype(bool))  # how the runtime hands out tokens


# The compiler counts bytes in 64 bits with a sign, and ends the process where that overflows.
_MOST_BYTES = 2**63 - 1
# It walks over the other dimensions of an empty array: for ten minutes at this many steps.
_MOST_STEPS = 2**32


def _check_size(aval: AbstractValue, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    shape = [d for d in shape if type(d) is int]
    size = math.prod(filter(None, shape))  # the compiler leaves a size of zero out as well
    if size * dtype.itemsize > _MOST_BYTES:
        raise ValueError(
            f"the sizes of an array of type {aval} multiply to {size:.3g} elements of {dtype.itemsize} bytes, expected "
            f"2**63 - 1 bytes at most, which is all a program can count: look at what its shape was made from"
        )
    if 0 in shape and size > _MOST_STEPS:
        raise ValueError(
            f"the sizes of an empty array of type {aval} multiply to {size:.3g} without its zeros, expected 2**32 at most: "
            f"the compiler walks over all of them. Look at what its shape was made from"
        )


def tensor_type(aval: AbstractValue) -> str:
    """`tensor<8x4xf32>` for `f32[8,4]`; remembered on the type."""
    if type(aval) is ShapedArray:
        text = aval.mlir
        if text is None:
            physical = physical_aval(aval)
            dtype = physical.dtype
            _check_size(aval, dtype, physical.shape)
            dims = "".join(
                f"{d}x" if type(d) is int else f"{OPEN}{d.text()}{CLOSE}x" for d in physical.shape
            )
            text = aval.mlir = f"tensor<{dims}{dtypes.mlir_type(dtype)}>"
        return text
    if aval is TOKEN:
        return "!stablehlo.token"
    raise TypeError(
        f"values of type {aval} (a {type(aval).__name__}) cannot be lowered: a program has arrays, keys and tokens as arguments and results. "
        f"Compute with others while tracing, as a pytree of arrays"
    )


_HEX_FLOATS = {2: np.uint16, 4: np.uint32, 8: np.uint64, 1: np.uint8}


def scalar_text(value, dtype) -> str:
    """One element as it stands in `dense<...>`."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return "true" if value else "false"
    if dtypes.issubdtype(dtype, np.integer):
        return str(int(value))
    if dtypes.issubdtype(dtype, np.complexfloating):
        part = np.float32 if dtype == np.complex64 else np.float64
        value = complex(value)
        return f"({scalar_text(value.real, part)}, {scalar_text(value.imag, part)})"
    rounded = np.asarray(value).astype(dtype)
    number = float(rounded)
    if math.isfinite(number) and dtype.itemsize in (4, 8) and np.dtype(dtype).kind == "f":
        text = (
            repr(number)
            if dtype.itemsize == 8
            else np.format_float_scientific(np.float32(number), unique=True, trim="k")
        )
        if "e" in text:
            mantissa, exponent = text.split("e")
            return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"
        return text if "." in text else text + ".0"
    bits = rounded.reshape(1).view(_HEX_FLOATS[dtype.itemsize])[0]
    return f"0x{int(bits):0{2 * dtype.itemsize}X}"


def dense_text(value: np.ndarray, dtype) -> str:
    """The whole `dense<...>` attribute for an array, without its type; splats are written once."""
    value = np.asarray(value)
    if value.ndim == 0:
        return f"dense<{scalar_text(value[()], dtype)}>"
    if value.size == 0:
        return "dense<>"
    value = np.ascontiguousarray(value.astype(dtype, copy=False))
    raw = value.tobytes()
    item = value.dtype.itemsize
    if raw == raw[:item] * value.size:
        return f"dense<{scalar_text(value.reshape(-1)[0], dtype)}>"
    if np.dtype(dtype) == np.bool_ or value.size <= 64 or _sub_byte(dtype):
        return f"dense<{_nested(value, dtype)}>"
    return f'dense<"0x{raw.hex().upper()}">'


def _sub_byte(dtype) -> bool:
    return str(np.dtype(dtype)) in (
        "int1",
        "uint1",
        "int4",
        "uint4",
        "int2",
        "uint2",
        "float4_e2m1fn",
        "float6_e2m3fn",
        "float6_e3m2fn",
    )


def _nested(value, dtype) -> str:
    if value.ndim == 0:
        return scalar_text(value[()], dtype)
    return "[" + ", ".join(_nested(v, dtype) for v in value) + "]"


def constant_text(value, aval: ShapedArray) -> str:
    """The operation that makes a constant: `stablehlo.constant dense<1.0> : tensor<f32>`."""
    if type(value) is SymbolicDim:
        return f"stablehlo.constant dense<{OPEN}{value.text()}{CLOSE}> : {tensor_type(aval)}"
    aval = physical_aval(aval)
    dtype = np.dtype(bool) if aval.dtype == dtypes.float0 else aval.dtype
    if aval.dtype == dtypes.float0:
        value = np.zeros(aval.shape, bool)
    return f"stablehlo.constant {dense_text(value, dtype)} : {tensor_type(aval)}"


def i64_array(values) -> str:
    """`array<i64: 1, 2>`; the empty one is spelled without the colon."""
    values = list(values)
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def dims_text(values) -> str:
    """`[1, 2]`."""
    return "[" + ", ".join(map(str, values)) + "]"


def escape(text: str) -> str:
    """A string as MLIR spells it between quotes."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    out = []
    for ch in text:
        if ch in '"\\' or ord(ch) < 32 or ord(ch) == 127:
            out.append(f"\\{ord(ch):02X}")
        else:
            out.append(ch)
    return "".join(out)
