"""Samples of `lax`: elementwise operations, comparisons, conversions and shapes."""

from __future__ import annotations

import numpy as np

from tests.reference.data import BF16, EDGE_INTS, EDGES, bools, complexes, floats, ints
from tests.reference.sample import VALUE, WHOLE, Sample

# Name: interval on which the function is smooth.
UNARY = {
    "neg": (-2, 2), "abs": (0.1, 2), "sign": (0.1, 2), "floor": (0.1, 0.9), "ceil": (0.1, 0.9),
    "exp": (-2, 2), "exp2": (-2, 2), "expm1": (-2, 2), "log": (0.1, 3), "log1p": (-0.5, 3),
    "sin": (-3, 3), "cos": (-3, 3), "tan": (-1, 1), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atan": (-2, 2),
    "sinh": (-2, 2), "cosh": (-2, 2), "tanh": (-2, 2), "asinh": (-2, 2), "acosh": (1.1, 3), "atanh": (-0.9, 0.9),
    "sqrt": (0.1, 3), "rsqrt": (0.1, 3), "cbrt": (0.1, 3), "square": (-2, 2), "reciprocal": (0.3, 3),
    "logistic": (-3, 3), "erf": (-2, 2), "erfc": (-2, 2), "erf_inv": (-0.9, 0.9), "lgamma": (0.3, 4),
    "digamma": (0.3, 4),
}
BINARY = ("add", "sub", "mul", "div", "max", "min", "atan2", "pow")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
COMPLEX_UNARY = ("neg", "exp", "log", "sin", "cos", "tanh", "sqrt", "rsqrt", "log1p", "expm1", "square")


def unary(name):
    return lambda n, x: getattr(n.lax, name)(x)


def binary(name):
    return lambda n, x, y: getattr(n.lax, name)(x, y)


ELEMENTWISE = [
    *(Sample(name, unary(name), [floats(2, 3, low=low, high=high)]) for name, (low, high) in UNARY.items()),
    *(Sample(f"{name}_edges", unary(name), [EDGES], WHOLE) for name in UNARY
      if name not in ("lgamma", "digamma", "erf_inv", "tan", "cbrt")),
    *(Sample(f"{name}_bfloat16", unary(name), [floats(5, dtype=BF16, low=0.2, high=0.9)], WHOLE)
      for name in ("neg", "exp", "sin", "tanh", "sqrt", "logistic")),
    *(Sample(f"{name}_complex", unary(name), [complexes(4)]) for name in COMPLEX_UNARY),
    *(Sample(name, binary(name), [floats(2, 3, low=0.2), floats(2, 3, low=0.5)]) for name in BINARY),
    *(Sample(f"{name}_int", binary(name), [EDGE_INTS, EDGE_INTS[::-1].copy()], WHOLE)
      for name in ("add", "sub", "mul", "div", "max", "min", "rem")),
    *(Sample(f"{name}_complex", binary(name), [np.complex64([1 + 1j, 1 - 1j, 2, 3j, complex(np.nan, 0), 1]),
                                               np.complex64([1, 1, 2 + 1j, 1, 1, complex(np.nan, 0)])], WHOLE)
      for name in ("max", "min")),
    Sample("add_int_too_large", lambda n, x: n.lax.add(x, 10**12), [ints(3)], error="OverflowError"),
    *(Sample(f"{name}_bits", binary(name), [EDGE_INTS, EDGE_INTS[::-1].copy()], WHOLE)
      for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *(Sample(name, binary(name), [EDGE_INTS, ints(9, low=0, high=31)], WHOLE)
      for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical")),
    Sample("bitwise_not", unary("bitwise_not"), [EDGE_INTS], WHOLE),
    Sample("logical_not", unary("bitwise_not"), [bools(5)], WHOLE),
    Sample("population_count", unary("population_count"), [EDGE_INTS], WHOLE),
    Sample("clz", unary("clz"), [EDGE_INTS], WHOLE),
    Sample("rem", binary("rem"), [floats(5, low=1.0), floats(5, low=0.4, high=0.9)]),
    Sample("nextafter", binary("nextafter"), [floats(5), floats(5)], WHOLE),
    Sample("integer_pow", lambda n, x: n.lax.integer_pow(x, 3), [floats(4)]),
    Sample("integer_pow_negative", lambda n, x: n.lax.integer_pow(x, -2), [floats(4, low=0.5)]),
    Sample("is_finite", unary("is_finite"), [EDGES], WHOLE),
    Sample("round_even", lambda n, x: n.lax.round(x, n.lax.RoundingMethod.TO_NEAREST_EVEN), [EDGES], WHOLE),
    Sample("round_away", lambda n, x: n.lax.round(x), [np.float32([0.5, 1.5, -0.5, -1.5, 2.4])], WHOLE),
    Sample("real", unary("real"), [complexes(3)]),
    Sample("imag", unary("imag"), [complexes(3)]),
    Sample("conj", unary("conj"), [complexes(3)]),
    Sample("complex", binary("complex"), [floats(3), floats(3)]),
    Sample("abs_complex", unary("abs"), [complexes(3)]),
    Sample("clamp", lambda n, x: n.lax.clamp(-1.0, x, 1.0), [floats(6)]),
    Sample("clamp_arrays", lambda n, lo, x, hi: n.lax.clamp(lo, x, hi),
           [np.float32([-1, 0, 1]), np.float32([-2, 0.5, 3]), np.float32([0, 1, 2])]),
    Sample("add_weak", lambda n, x: n.lax.add(x, 1.0), [floats(3)]),
    Sample("weak_result", lambda n, x: n.lax.sin(x), [0.5], ("eager", "jit", "grad", "jvp")),
    Sample("mul_scalars", lambda n, x, y: n.lax.mul(x, y), [2.0, 3.0], ("eager", "jit", "grad")),
    Sample("sin_x64", unary("sin"), [floats(3, dtype=np.float64)], x64=True),
    Sample("int64", binary("mul"), [np.int64([2**40, -3]), np.int64([5, 2**33])], VALUE, x64=True),
    Sample("double_grad", lambda n, x: n.lax.mul(n.lax.sin(x), x), [floats(3)],
           ("grad.grad", "jvp.grad", "grad.jvp", "vmap.grad", "jit.grad", "jit.vmap.grad", "grad.jit")),
]

COMPARISON = [
    *(Sample(name, binary(name), [EDGES, np.roll(EDGES, 1)], WHOLE) for name in COMPARISONS),
    *(Sample(f"{name}_int", binary(name), [EDGE_INTS, EDGE_INTS[::-1].copy()], WHOLE) for name in COMPARISONS),
    *(Sample(f"{name}_floats", lambda n, x, y, name=name: getattr(n.lax, name + "_p").bind(x, y),
             [*np.meshgrid(*(np.float32([1, -0.0, 0.0, np.nan, -np.inf]),) * 2)], WHOLE) for name in ("eq_to", "le_to", "lt_to")),
    Sample("lt_to_ints", lambda n, x, y: n.lax.lt_to_p.bind(x, y), [np.int32([1, 2, 3]), np.int32([3, 2, 1])], WHOLE),
    Sample("eq_bool", binary("eq"), [bools(4), bools(4)], WHOLE),
    Sample("eq_complex", binary("eq"), [complexes(4), complexes(4)], WHOLE),
    Sample("select_n", lambda n, p, x, y: n.lax.select_n(p, x, y), [bools(4), floats(4), floats(4)]),
    Sample("select_n_scalar", lambda n, p, x, y: n.lax.select_n(p, x, y),
           [np.bool_(True), floats(4), floats(4)]),
    Sample("select_n_three", lambda n, p, *xs: n.lax.select_n(p, *xs),
           [ints(5, low=0, high=3), floats(5), floats(5), floats(5)]),
    Sample("select", lambda n, p, x, y: n.lax.select(p, x, y), [bools(4), floats(4), floats(4)]),
]


def convert(dtype):
    return lambda n, x: n.lax.convert_element_type(x, dtype)


CONVERT = [
    *(Sample(f"convert_{np.dtype(source).name}_{np.dtype(target).name}", convert(target),
             [(floats(4, high=3) if source is not np.bool_ else bools(4)).astype(source)], WHOLE)
      for source in (np.float32, np.float16, BF16, np.int32, np.uint8, np.int8, np.bool_)
      for target in (np.float32, np.float16, BF16, np.int32, np.uint8, np.bool_)),
    Sample("convert_gradient", convert(BF16), [floats(4)]),
    Sample("convert_complex", convert(np.complex64), [floats(4)]),
    Sample("convert_python", lambda n, x: n.lax.convert_element_type(x, float), [ints(3)], WHOLE),
    Sample("bitcast", lambda n, x: n.lax.bitcast_convert_type(x, np.int32), [EDGES], WHOLE),
    Sample("bitcast_narrow", lambda n, x: n.lax.bitcast_convert_type(x, np.uint8), [floats(3)], WHOLE),
    Sample("reduce_precision", lambda n, x: n.lax.reduce_precision(x, 5, 10), [floats(4)], smooth=False),
    Sample("float_to_int_edges", convert(np.int32), [np.float32([1.9, -1.9, 0.5, 100.0])], WHOLE),
]

X = floats(2, 3, 4)
SHAPE = [
    Sample("reshape", lambda n, x: n.lax.reshape(x, (6, 4)), [X]),
    Sample("reshape_scalar", lambda n, x: n.lax.reshape(x, (1, 1)), [np.float32(3)]),
    Sample("reshape_dimensions", lambda n, x: n.lax.reshape(x, (4, 6), dimensions=(2, 0, 1)), [X]),
    Sample("transpose", lambda n, x: n.lax.transpose(x, (2, 0, 1)), [X]),
    Sample("broadcast", lambda n, x: n.lax.broadcast(x, (2, 3)), [floats(4)]),
    Sample("broadcast_in_dim", lambda n, x: n.lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)), [floats(2, 4)]),
    Sample("broadcast_in_dim_ones", lambda n, x: n.lax.broadcast_in_dim(x, (2, 3), (0, 1)), [floats(1, 3)]),
    # The reference has no derivative where the dimensions come in another order; the laws are asked about ours below.
    Sample("broadcast_in_dim_permuted", lambda n, x: n.lax.broadcast_in_dim(x, (3, 5, 2), (2, 0)), [floats(2, 3)],
           (*WHOLE, "jvp", "text")),
    Sample("broadcast_in_dim_permuted_ones", lambda n, x: n.lax.broadcast_in_dim(x, (4, 2, 3), (1, 0, 2)), [floats(2, 1, 3)],
           (*WHOLE, "jvp")),
    Sample("broadcast_in_dim_same_shape", lambda n, x: n.lax.broadcast_in_dim(x, (2, 2), (1, 0)), [floats(2, 2)]),
    Sample("squeeze", lambda n, x: n.lax.squeeze(x, (0, 2)), [floats(1, 3, 1)]),
    Sample("expand_dims", lambda n, x: n.lax.expand_dims(x, (0, 2)), [floats(3, 2)]),
    Sample("collapse", lambda n, x: n.lax.collapse(x, 1, 3), [X]),
    Sample("concatenate", lambda n, x, y, z: n.lax.concatenate([x, y, z], 1),
           [floats(2, 1), floats(2, 3), floats(2, 2)]),
    Sample("pad", lambda n, x: n.lax.pad(x, np.float32(1.5), [(1, 2, 0), (0, 1, 1)]), [floats(2, 3)], smooth=False),
    Sample("pad_negative", lambda n, x: n.lax.pad(x, np.float32(0), [(-1, 2, 0), (0, -1, 1)]), [floats(3, 3)], smooth=False),
    Sample("pad_value", lambda n, x, v: n.lax.pad(x, v, [(1, 1, 0)]), [floats(3), np.float32(2)]),
    Sample("rev", lambda n, x: n.lax.rev(x, (0, 2)), [X]),
    Sample("iota", lambda n: n.lax.iota(np.int32, 5), [], VALUE),
    Sample("iota_float", lambda n: n.lax.iota(np.float32, 5), [], VALUE),
    Sample("broadcasted_iota", lambda n: n.lax.broadcasted_iota(np.int32, (2, 3), 1), [], VALUE),
    Sample("full", lambda n: n.lax.full((2, 3), 1.5), [], VALUE),
    Sample("full_like", lambda n, x: n.lax.full_like(x, 2), [floats(2, 2)], WHOLE),
    Sample("split", lambda n, x: n.lax.split(x, (1, 2), axis=1), [floats(2, 3)]),
    Sample("tile", lambda n, x: n.lax.tile(x, (2, 1)), [floats(2, 3)]),
    Sample("tile_both", lambda n, x: n.lax.tile(x, (2, 3)) * n.lax.tile(x, (2, 3)), [floats(2, 1)]),
    Sample("tile_text", lambda n, x: n.lax.tile(x, (3,)), [floats(2)], ("text",)),
    Sample("tile_none", lambda n, x: n.lax.tile(x, (0, 2)), [floats(2, 3)], WHOLE),
    Sample("stop_gradient", lambda n, x: n.lax.stop_gradient(x) * x, [floats(3)], smooth=False),
    Sample("optimization_barrier", lambda n, x, y: n.lax.optimization_barrier((x, y)), [floats(3), floats(2)]),
]

ERRORS = [
    Sample("add_shapes", binary("add"), [floats(3), floats(4)], error="TypeError"),
    Sample("tile_reps", lambda n, x: n.lax.tile(x, (2, 3)), [floats(3)], error="TypeError"),
    Sample("add_types", binary("add"), [floats(3), ints(3)], error="TypeError"),
    Sample("sin_int", unary("sin"), [ints(3)], error="TypeError"),
    Sample("bitwise_float", binary("bitwise_and"), [floats(3), floats(3)], error="TypeError"),
    Sample("reshape_size", lambda n, x: n.jnp.reshape(x, (5,)), [floats(6)], error="TypeError"),
    Sample("transpose_permutation", lambda n, x: n.lax.transpose(x, (0, 0)), [floats(2, 3)], error="TypeError"),
    Sample("concatenate_rank", lambda n, x, y: n.lax.concatenate([x, y], 0), [floats(2, 3), floats(3)],
           error="TypeError"),
    Sample("concatenate_size", lambda n, x, y: n.lax.concatenate([x, y], 0), [floats(2, 3), floats(2, 2)],
           error="TypeError"),
    Sample("squeeze_size", lambda n, x: n.lax.squeeze(x, (0,)), [floats(2, 3)], error="ValueError"),
    Sample("broadcast_in_dim_size", lambda n, x: n.lax.broadcast_in_dim(x, (2, 3), (0,)), [floats(4)],
           error="TypeError"),
    *(Sample(f"broadcast_in_dim_{name}", lambda n, x, d=d: n.lax.broadcast_in_dim(x, (2, 2), d), [floats(2, 2)], error="TypeError")
      for name, d in (("repeated", (0, 0)), ("negative", (0, -1)), ("outside", (1, 2)), ("few", (1,)))),
    Sample("pad_types", lambda n, x: n.lax.pad(x, np.int32(0), [(0, 0, 0)]), [floats(3)], error="TypeError"),
    Sample("select_predicate", lambda n, p, x, y: n.lax.select_n(p, x, y), [floats(3), floats(3), floats(3)],
           error="TypeError"),
    Sample("not_an_array", lambda n: n.lax.sin("three"), [], error="TypeError"),
]

SAMPLES = [*ELEMENTWISE, *COMPARISON, *CONVERT, *SHAPE, *ERRORS]

