"""Samples of scalars beside arrays: `lax` promotes nothing, so a Python number is a scalar of its own weak type."""

from __future__ import annotations

import numpy as np

from tests.reference.data import BF16
from tests.reference.sample import VALUE, Sample

LAWS = False        # compared with the reference alone
FLOATING = ("add", "sub", "mul", "div", "rem", "pow", "max", "min", "atan2", "nextafter", "eq", "ne", "ge", "gt", "le", "lt",
            "igamma", "igammac", "polygamma", "zeta", "complex")
INTEGRAL = ("add", "sub", "mul", "div", "rem", "max", "min", "eq", "ne", "ge", "gt", "le", "lt", "bitwise_and", "bitwise_or",
            "bitwise_xor", "shift_left", "shift_right_logical", "shift_right_arithmetic")
F32, I32 = np.float32([1.5, 2.5]), np.int32([3, 5])


def beside(name, value):
    return lambda n, x: getattr(n.lax, name)(x, value)


def before(name, value):
    return lambda n, x: getattr(n.lax, name)(value, x)


SAMPLES = [
    *(Sample(f"{name}_float", beside(name, 2.0), [F32], (*VALUE, "primitives")) for name in FLOATING),
    *(Sample(f"{name}_float_first", before(name, 2.0), [F32], (*VALUE, "primitives")) for name in FLOATING),
    *(Sample(f"{name}_int", beside(name, 2), [I32], (*VALUE, "primitives")) for name in INTEGRAL),
    *(Sample(f"{name}_numpy_scalar", beside(name, np.float64(2)), [F32], VALUE) for name in ("add", "max", "lt", "atan2")),
    *(Sample(f"{name}_two_numbers", beside(name, 2.0), [1.5], VALUE) for name in ("add", "mul", "max", "pow", "complex")),
    *(Sample(f"{name}_two_ints", beside(name, 2), [3], VALUE) for name in ("add", "bitwise_and", "shift_left", "lt")),
    *(Sample(f"{name}_float_and_int", beside(name, 2), [F32], error="TypeError") for name in FLOATING if name != "pow"),
    *(Sample(f"{name}_float_and_bool", beside(name, True), [F32], error="TypeError") for name in FLOATING),
    *(Sample(f"{name}_bfloat16_and_float", beside(name, 2.0), [np.asarray([1, 2], BF16)], error="TypeError") for name in FLOATING),
    *(Sample(f"{name}_float16_and_float", beside(name, 2.0), [np.float16([1, 2])], error="TypeError") for name in FLOATING),
    *(Sample(f"{name}_int_and_float", beside(name, 2.0), [I32], error="TypeError") for name in INTEGRAL),
    *(Sample(f"{name}_int8_and_int", beside(name, 2), [np.int8([1, 2])], error="TypeError") for name in INTEGRAL),
    *(Sample(f"{name}_uint32_and_negative", beside(name, -1), [np.uint32([1, 2])], error="TypeError") for name in INTEGRAL),
    *(Sample(f"{name}_bool_and_int", beside(name, 1), [np.bool_([True, False])], error="TypeError") for name in INTEGRAL),
    *(Sample(f"{name}_too_large", beside(name, 2**70), [I32], error="OverflowError") for name in INTEGRAL),
    *(Sample(f"{name}_complex_and_float", beside(name, 2.0), [np.complex64([1, 2j])], error="TypeError")
      for name in ("add", "mul", "div", "eq", "max")),
    Sample("add_complex", beside("add", 2j), [np.complex64([1, 2j])], VALUE),
    Sample("add_float64", beside("add", 2.0), [np.float64([1, 2])], VALUE, x64=True),
    Sample("add_float32_x64", beside("add", 2.0), [F32], error="TypeError", x64=True),
    Sample("pow_int", beside("pow", 3), [F32], (*VALUE, "primitives", "grad", "jvp")),
    Sample("pow_int_of_ints", beside("pow", 3), [I32], error="TypeError"),
    Sample("pow_int_too_large", beside("pow", 2**40), [F32], error="OverflowError"),
    Sample("integer_pow_array", lambda n, x: n.lax.integer_pow(x, np.array(2)), [F32], error="TypeError"),
    Sample("rem_complex", lambda n, x: n.lax.rem(x, x), [np.complex64([1, 2j])], error="TypeError"),
    Sample("complex_scalar_grad", lambda n, x, y: n.lax.real(n.lax.mul(n.lax.complex(x, y), n.lax.complex(y, x))) * 0.5,
           [F32, np.float32(2)], ("jit", "grad", "jvp")),
    Sample("clamp_float", lambda n, x: n.lax.clamp(1.0, x, 2.0), [F32], VALUE),
    Sample("clamp_int_bound", lambda n, x: n.lax.clamp(1, x, 2), [F32], error="TypeError"),
    Sample("clamp_bfloat16", lambda n, x: n.lax.clamp(1.0, x, 2.0), [np.asarray([1, 3], BF16)], error="TypeError"),
    Sample("clamp_weak", lambda n, x: n.lax.clamp(1.0, x, np.float32(2)), [1.5], VALUE),
    Sample("clamp_complex", lambda n, x: n.lax.clamp(x, x, 2j), [np.complex64([1, 2j])], ("primitives",)),
    Sample("select_int", lambda n, x: n.lax.select(True, x, 2), [np.float32(1)], error="TypeError"),
    Sample("select_scalars", lambda n, x: n.lax.select(x > 1, x, 2.0), [1.5], VALUE),
    Sample("betainc_int", lambda n, x: n.lax.betainc(x, 1, x), [F32], error="TypeError"),
    Sample("pad_int", lambda n, x: n.lax.pad(x, 0, [(0, 1, 0)]), [F32], error="TypeError"),
    Sample("pad_short", lambda n, x: n.lax.pad(x, 0, []), [F32], error="ValueError"),
    Sample("concatenate_scalars", lambda n, x: n.lax.concatenate([x, x], 0), [np.float32(1)], error="TypeError"),
    Sample("full_like_weak", lambda n, x: n.lax.full_like(x, 3), [1.5], VALUE),
    Sample("full_like_complex", lambda n, x: n.lax.full_like(x, 2j), [I32], error="TypeError"),
    Sample("full_like_large", lambda n, x: n.lax.full_like(x, 2**40), [F32], VALUE),
    Sample("dot_scalar", lambda n, x: n.lax.dot(x, 2**70), [F32], error="ValueError"),
]
