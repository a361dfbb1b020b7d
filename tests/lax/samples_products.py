"""Samples of `lax`: ragged and scaled products, approximate top-k, high halves of products."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.reference.data import BF16, EDGE_INTS, EDGES, bools, floats, ints
from tests.reference.sample import ALL, VALUE, WHOLE, Sample

F8, E8 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
SOME = ("eager", "jit", "grad", "jvp")      # the reference maps ragged products over first dimensions only


def ragged(*numbers, **kwargs):
    return lambda n, x, y, sizes: n.lax.ragged_dot_general(x, y, sizes, n.lax.RaggedDotDimensionNumbers(*numbers), **kwargs)


A, B, SIZES = floats(8, 4), floats(3, 4, 5), np.int32([2, 0, 5])
ROWS = ((((1,), (1,)), ((), ())), (0,), (0,))
SUMMANDS = ((((0,), (0,)), ((), ())), [0], [])
# The product of two types is in the wider one.
ROUGH = ("eager", "jit", "grad", "vmap")    # quotients of differences are noise where an operand is rounded and the result is not
PRODUCT = lambda n, x, y: n.lax.dot_general(x, y, (((1,), (0,)), ((), ())))
W8 = floats(4, 3).astype(F8)
MIXED = [
    *(Sample(f"dot_mixed_{name}", PRODUCT, [x, y], transforms, tol=tol) for name, x, y, transforms, tol in (
        ("float_bfloat16", A, floats(4, 3).astype(BF16), ROUGH, 2e-2), ("bfloat16_float", A.astype(BF16), floats(4, 3), ROUGH, 2e-2),
        ("halves", A.astype(BF16), floats(4, 3).astype(np.float16), ALL, 5e-2), ("float_int", A, ints(4, 3), ("eager", "jit"), None),
        ("complex_float", (A + 1j * A).astype(np.complex64), floats(4, 3), ("eager", "jit", "jvp"), None), ("int8_uint8", ints(8, 4).astype(np.int8),
        ints(4, 3).astype(np.uint8), ("eager", "jit"), None), ("float8", A.astype(BF16), W8, ("eager", "jit"), 5e-2),
        ("float8s", W8.T, W8.astype(ml_dtypes.float8_e5m2), ("eager", "jit"), 0.3), ("bool_int", bools(8, 4), ints(4, 3), ("eager", "jit"), None),
    )),
    Sample("dot_mixed_preferred", lambda n, x, y: n.lax.dot(x, y, preferred_element_type=np.float32), [A.astype(BF16), ints(4, 3)],
           ("eager", "jit"), tol=2e-2),
    *(Sample(f"dot_narrower_{name}", lambda n, x, y, t=t: n.lax.dot(x, y, preferred_element_type=t), [x, y], error="TypeError")
      for name, x, y, t in (("int", bools(8, 4), ints(4, 3), BF16), ("complex", A, (floats(4, 3) * 1j).astype(np.complex64), np.float16))),
    Sample("dot_neither", PRODUCT, [W8.T.astype(ml_dtypes.float8_e5m2), W8.astype(ml_dtypes.float8_e5m2fnuz)], error="TypeError"),
]
RAGGED = [
    Sample("ragged_dot", lambda n, x, y, s: n.lax.ragged_dot(x, y, s), [A, B, SIZES], (*SOME, "text")),
    Sample("ragged_dot_group_offset", lambda n, x, y, s: n.lax.ragged_dot(x, y, s, group_offset=n.jnp.zeros(1, int)), [A, B, SIZES],
           error="TypeError"),
    Sample("ragged_dot_mapped", lambda n, x, y: n.jax.vmap(n.lax.ragged_dot)(x, y, np.int32([[2, 0, 5], [8, 0, 0]])),
           [floats(2, 8, 4), floats(2, 3, 4, 5)], SOME),
    Sample("ragged_all_rows", ragged(*ROWS), [A, B, np.int32([2, 3, 3])], SOME),
    Sample("ragged_too_many", ragged(*ROWS), [A, B, np.int32([5, 5, 5])], SOME),
    Sample("ragged_bfloat16", ragged(*ROWS, preferred_element_type=np.float32), [A.astype(BF16), B.astype(BF16), SIZES],
           SOME, tol=2e-2),
    Sample("ragged_mixed", ragged(*ROWS), [A, B.astype(BF16), SIZES], VALUE, tol=2e-2),
    Sample("ragged_precision", ragged(*ROWS, precision="highest"), [A, B, SIZES], ("eager", "grad", "text")),
    Sample("ragged_batch", ragged((((2,), (2,)), ((0,), (0,))), [1], [1]), [floats(2, 8, 4), floats(2, 3, 4, 5),
                                                                            np.int32([[2, 0, 5], [1, 1, 1]])], SOME),
    Sample("ragged_outer_rows", ragged((((2,), (1,)), ((), ())), [1], [0]), [floats(2, 8, 4), B, SIZES], SOME),
    Sample("ragged_outer_sizes", ragged((((2,), (1,)), ((), ())), [1], [0]), [floats(2, 8, 4), B,
                                                                              np.int32([[2, 0, 5], [1, 1, 1]])], SOME),
    Sample("ragged_inner_rows", ragged((((2,), (1,)), ((), ())), [0], [0]), [floats(8, 2, 4), B, SIZES], SOME),
    Sample("ragged_group_last", ragged((((1,), (0,)), ((), ())), [0], [2]), [A, floats(4, 5, 3), SIZES], SOME),
    Sample("ragged_summands", ragged(*SUMMANDS), [A, floats(8, 5), SIZES], (*VALUE, "jvp", "text")),
    Sample("ragged_summands_batch", ragged((((1,), (1,)), ((0,), (0,))), [1], []),
           [floats(2, 8, 4), floats(2, 8, 5), np.int32([[2, 0, 5], [1, 1, 1]])], (*VALUE, "jvp")),
    Sample("ragged_two_summands", ragged((((0, 1), (0, 1)), ((), ())), [1], []), [floats(2, 8, 4), floats(2, 8, 5), SIZES],
           (*VALUE, "jvp")),
    Sample("ragged_of_batch", ragged((((2,), (1,)), ((0,), (0,))), [0], []), [floats(8, 2, 4), floats(8, 4, 5),
                                                                              np.int32([2, 3, 3])], (*VALUE, "jvp")),
    Sample("ragged_numbers", lambda n: repr(n.lax.RaggedDotDimensionNumbers(*SUMMANDS)), [], ("eager",)),
    *(Sample(f"ragged_bad_{name}", ragged(*numbers), args, error="TypeError") for name, numbers, args in (
        ("sizes", ROWS, [A, B, np.int32([1, 2])]), ("float_sizes", ROWS, [A, B, np.float32([1, 2, 3])]),
        ("contracted", ROWS, [A, floats(3, 5, 5), SIZES]), ("rank", ROWS, [A, floats(4, 5), SIZES]),
        ("group", SUMMANDS[:2] + ((0,),), [A, floats(8, 5), SIZES]), ("no_group", ROWS[:2] + ((),), [A, B, SIZES]),
        ("two", (ROWS[0], (0, 1), (0,)), [A, B, SIZES]), ("none", (ROWS[0], (), (0,)), [A, B, SIZES]),
        ("range", (ROWS[0], (5,), (0,)), [A, B, SIZES]), ("prefix", ROWS, [A, B, np.int32([[2, 3, 3]] * 8)]))),
]
# Where the reference stops.
BEYOND = [
    Sample("ragged_dot", lambda n, x, y, s: n.lax.ragged_dot(x, y, s), [A, B, SIZES]),
    *(Sample(f"mapped_{i}", lambda n, x, y, s, axes=axes: n.jax.vmap(n.lax.ragged_dot, axes)(x, y, s), args)
      for i, (axes, args) in enumerate((
          ((0, None, None), [floats(2, 8, 4), B, SIZES]), ((2, 1, None), [floats(8, 4, 2), floats(3, 2, 4, 5), SIZES]),
          ((None, 3, 0), [A, floats(3, 4, 5, 2), np.int32([[2, 0, 5], [1, 1, 1]])]),
          ((None, None, 1), [A, B, np.int32([[2, 1], [1, 1], [0, 1]])])))),
    Sample("outer_sizes", ragged((((2,), (1,)), ((), ())), [1], [0]), [floats(2, 8, 4), B, np.int32([[2, 0, 5], [1, 1, 1]])]),
    Sample("outer_rows", ragged((((2,), (1,)), ((), ())), [1], [0]), [floats(2, 8, 4), B, SIZES]),
    Sample("summands", ragged(*SUMMANDS), [A, floats(8, 5), SIZES]),
    Sample("two_summands", ragged((((0, 1), (0, 1)), ((), ())), [1], []), [floats(2, 8, 4), floats(2, 8, 5), SIZES]),
    Sample("of_batch", ragged((((2,), (1,)), ((0,), (0,))), [0], []), [floats(8, 2, 4), floats(8, 4, 5), np.int32([2, 3, 3])]),
]


def scaled(**kwargs):
    return lambda n, x, y, *scales: n.lax.scaled_dot(
        x, y, **dict(zip(("lhs_scale", "rhs_scale"), scales)), **kwargs)


X, Y = floats(4, 64).astype(F8), floats(64, 5).astype(F8)
S, T = (2.0 ** ints(4, 2, low=-2, high=3)).astype(E8), (2.0 ** ints(2, 5, low=-2, high=3)).astype(E8)
SCALED = [
    Sample("scaled_dot", scaled(preferred_element_type=np.float32), [X, Y, S, T], ("eager", "jit", "vmap", "text")),
    Sample("scaled_dot_bfloat16", scaled(), [X, Y, S, T], VALUE),
    Sample("scaled_dot_without", scaled(), [X.astype(BF16), Y.astype(BF16)], ("eager", "jit", "vmap", "text")),
    Sample("scaled_dot_left", scaled(), [X.astype(BF16), Y.astype(BF16), S], VALUE),
    Sample("scaled_dot_float32", scaled(), [floats(4, 6), floats(6, 5)], VALUE, tol=2e-2),
    Sample("scaled_dot_batch", scaled(dimension_numbers=(((2,), (1,)), ((0,), (0,)))),
           [floats(2, 4, 8).astype(F8), floats(2, 8, 3).astype(F8)], WHOLE),
    Sample("scaled_dot_default_batch", scaled(), [floats(2, 4, 8).astype(F8), floats(2, 8, 3).astype(F8)], VALUE),
    *(Sample(f"scaled_bad_{name}", scaled(), args, error="TypeError") for name, args in (
        ("sizes", [X, Y[:32]]), ("vectors", [X[0], X[0]]), ("blocks", [X, Y, np.ones((4, 3), E8)]),
        ("rank", [X, Y, np.ones(4, E8)]))),
]

N = np.float32(np.random.RandomState(1).permutation(600).reshape(300, 2))
APPROXIMATE = [
    *(Sample(f"{name}_{tag}", lambda n, x, name=name, kwargs=kwargs: tuple(getattr(n.lax, name)(x, 3, **kwargs)), [N],
             ("eager", "jit", "grad", "jvp", "vmap") if tag in ("axis", "candidates") else ("eager", "primitives"), smooth=False)
      for name in ("approx_max_k", "approx_min_k") for tag, kwargs in {
          "axis": {"reduction_dimension": 0}, "negative": {"reduction_dimension": -2},
          "candidates": {"reduction_dimension": 0, "aggregate_to_topk": False},
          "recall": {"reduction_dimension": 0, "aggregate_to_topk": False, "recall_target": 0.5},
          "override": {"reduction_dimension": 0, "aggregate_to_topk": False, "reduction_input_size_override": 4000}}.items()),
    Sample("approx_text", lambda n, x: n.lax.approx_max_k(x, 2), [floats(8, 4)], ("text",)),
    Sample("approx_edges", lambda n, x: tuple(n.lax.approx_max_k(x, 3)), [EDGES[:6]], VALUE),
    *(Sample(f"approx_{np.dtype(d).name}", lambda n, x: tuple(n.lax.approx_max_k(x, 2)), [floats(3, 8).astype(d)], VALUE)
      for d in (BF16, np.float16)),
    *(Sample(f"approx_bad_{name}", lambda n, x, args=args, kwargs=kwargs: n.lax.approx_max_k(x, *args, **kwargs), [x],
             error=error) for name, x, args, kwargs, error in (
        ("k", floats(3), (4,), {}, "ValueError"), ("zero", floats(3), (0,), {}, "ValueError"),
        ("negative", floats(3), (-1,), {}, "ValueError"), ("int", ints(3), (1,), {}, "ValueError"),
        ("axis", floats(3), (1,), {"reduction_dimension": 3}, "IndexError"), ("scalar", floats(), (1,), {}, "TypeError"))),
]

HIGH = [
    *(Sample(f"mulhi_{np.dtype(d).name}", lambda n, x, y: n.lax.mulhi(x, y),
             [ints(40, low=-2**31, high=2**31 - 1, dtype=np.int64).astype(d),
              ints(40, low=-2**31, high=2**31 - 1, dtype=np.int64).astype(d)], (*WHOLE, "text"))
      for d in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)),
    Sample("mulhi_edges", lambda n, x, y: n.lax.mulhi(x, y), [EDGE_INTS, EDGE_INTS[::-1].copy()], WHOLE),
    Sample("mulhi_number", lambda n, x: n.lax.mulhi(x, 2**30), [EDGE_INTS], WHOLE),
    Sample("mulhi_int64", lambda n, x, y: n.lax.mulhi(x, y), [np.int64([2**62, -2**63, 5]), np.int64([2**40, -1, -2**60])],
           VALUE, x64=True),
    Sample("mulhi_bad_float", lambda n, x: n.lax.mulhi(x, x), [floats(3)], error="TypeError"),
    Sample("mulhi_bad_bool", lambda n, x: n.lax.mulhi(x, x), [bools(3)], error="TypeError"),
    Sample("mulhi_bad_shapes", lambda n, x, y: n.lax.mulhi(x, y), [ints(3), ints(2)], error="TypeError"),
]


def slide(name, mode, **kwargs):
    return lambda n, a, v: getattr(n.jnp, name)(a, v, mode, **kwargs)


SLIDING = [
    Sample(f"{name}_{mode}_{i}", slide(name, mode), [a, v], ALL if i < 2 else ("eager", "jit", "grad"), tol=1e-4)
    for name in ("convolve", "correlate") for mode in ("full", "same", "valid") for i, (a, v) in enumerate((
        (floats(8), floats(4)), (floats(4), floats(9)), (floats(5), floats(5)),
        (floats(6), (floats(3) + 1j * floats(3)).astype(np.complex64)), ((floats(3) + 1j * floats(3)).astype(np.complex64),
                                                                         floats(6))))
] + [
    Sample("convolve_int", slide("convolve", "full"), [ints(5), ints(3)], WHOLE),
    Sample("convolve_preferred", slide("convolve", "full", preferred_element_type=np.float32), [floats(5, dtype=BF16),
                                                                                                 floats(3, dtype=BF16)], VALUE),
    Sample("convolve_precision", slide("convolve", "full", precision="highest"), [floats(5), floats(3)], VALUE),
]

SAMPLES = [*MIXED, *RAGGED, *SCALED, *APPROXIMATE, *HIGH, *SLIDING]
