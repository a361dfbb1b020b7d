"""Samples of `lax`: slicing, gather and scatter, reductions, cumulative operations, sorting, products."""

from __future__ import annotations

import numpy as np

from tests.reference.data import BF16, EDGES, bools, complexes, floats, ints
from tests.reference.sample import WHOLE, Sample

X = floats(4, 5)
SLICING = [
    Sample("slice", lambda n, x: n.lax.slice(x, (1, 0), (3, 4)), [X]),
    Sample("slice_strides", lambda n, x: n.lax.slice(x, (0, 1), (4, 5), (2, 3)), [X]),
    Sample("slice_in_dim", lambda n, x: n.lax.slice_in_dim(x, 1, -1, stride=2, axis=1), [X]),
    Sample("index_in_dim", lambda n, x: n.lax.index_in_dim(x, -2, axis=0, keepdims=False), [X]),
    Sample("dynamic_slice", lambda n, x, i: n.lax.dynamic_slice(x, (i, 1), (2, 3)), [X, np.int32(1)], smooth=False),
    Sample("dynamic_slice_clamped", lambda n, x, i: n.lax.dynamic_slice(x, (i, i), (2, 3)), [X, np.int32(9)]),
    Sample("dynamic_slice_in_dim", lambda n, x, i: n.lax.dynamic_slice_in_dim(x, i, 2, axis=1),
           [X, np.int32(2)]),
    Sample("dynamic_index", lambda n, x, i: n.lax.dynamic_index_in_dim(x, i, 0, keepdims=False),
           [X, np.int32(-1)]),
    Sample("dynamic_update_slice", lambda n, x, u, i: n.lax.dynamic_update_slice(x, u, (i, 2)),
           [X, floats(2, 2), np.int32(1)], smooth=False),
    Sample("dynamic_update_index", lambda n, x, u, i: n.lax.dynamic_update_index_in_dim(x, u, i, 0),
           [X, floats(5), np.int32(2)]),
    Sample("getitem_int", lambda n, x: n.jnp.asarray(x)[1], [X]),
    Sample("getitem_negative", lambda n, x: n.jnp.asarray(x)[-1, -2], [X]),
    Sample("getitem_slice", lambda n, x: n.jnp.asarray(x)[1:3, ::2], [X]),
    Sample("getitem_reverse", lambda n, x: n.jnp.asarray(x)[::-1, 3:0:-2], [X]),
    Sample("getitem_newaxis", lambda n, x: n.jnp.asarray(x)[None, ..., 1], [X]),
    Sample("getitem_array", lambda n, x, i: n.jnp.asarray(x)[i], [X, ints(3, low=-4, high=4)]),
    Sample("getitem_two_arrays", lambda n, x, i, j: n.jnp.asarray(x)[i, j],
           [X, ints(3, low=0, high=4), ints(2, 1, low=0, high=4)]),
    Sample("getitem_column", lambda n, x, j: n.jnp.asarray(x)[:, j], [X, ints(2, 2, low=0, high=5)]),
    Sample("getitem_traced", lambda n, x, i: n.jnp.asarray(x)[i, 1:3], [X, np.int32(3)]),
    Sample("getitem_mask", lambda n, x: n.jnp.asarray(x)[np.array([True, False, True, True])], [X]),
    Sample("getitem_out_of_bounds", lambda n, x: n.jnp.asarray(x)[np.array([0, 99, -99])], [X],
           lawful=False),   # reads clamp, their transpose drops
    Sample("at_set", lambda n, x, v: n.jnp.asarray(x).at[1:3].set(v), [X, floats(5)]),
    Sample("at_add_repeated", lambda n, x, i, v: n.jnp.asarray(x).at[i].add(v),
           [floats(5), np.int32([0, 2, 2, 1]), floats(4)]),
    Sample("at_multiply", lambda n, x, i, v: n.jnp.asarray(x).at[i].multiply(v),
           [floats(5), np.int32([0, 2, 1]), floats(3)], ("eager", "jit", "vmap")),
    Sample("at_max", lambda n, x, i, v: n.jnp.asarray(x).at[i].max(v),
           [floats(5), np.int32([0, 2, 2]), floats(3)], ("eager", "jit", "vmap")),
    Sample("at_get_fill", lambda n, x, i: n.jnp.asarray(x).at[i].get(mode="fill", fill_value=-1.0),
           [floats(5), np.int32([0, 9, 2])]),
    Sample("at_one_hot", lambda n, x, i: (n.jnp.asarray(x).at[i].set(7.0, mode="one_hot"), n.jnp.asarray(x).at[i].add(x[:2], mode="one_hot")),
           [floats(5), np.int32([1, 9])], WHOLE),
    Sample("scatter_one_hot", lambda n, x, v: [getattr(n.lax, name)(x, np.int32([[1], [9], [-1]]), v, n.lax.ScatterDimensionNumbers(
        (), (0,), (0,)), mode="one_hot") for name in ("scatter", "scatter_add", "scatter_mul", "scatter_max")],
           [floats(4), floats(3)], WHOLE),
    *(Sample(f"take_along_axis_one_hot {axis}", lambda n, x, i, axis=axis: n.jnp.take_along_axis(x, i, axis, mode="one_hot"), [x, i])
      for x, i, axis in [(floats(3, 4), np.int32([[0, 9, -1], [-9, 2, 3], [4, -4, 1]]), 1), (floats(4), np.int32([3, 7, 0]), 0)]),
    *(Sample(f"take_along_axis_one_hot {x.dtype}", lambda n, x, i: n.jnp.take_along_axis(x, i, 0, mode="one_hot"), [x, i], WHOLE)
      for x, i in [(ints(3, 4), np.int32([[0, 1, 5, -1]])), (np.arange(6) % 2 == 0, np.int32([1, 8, 0]))]),
    Sample("at_set_dropped", lambda n, x, i: n.jnp.asarray(x).at[i].set(0.0, mode="drop"),
           [floats(5), np.int32([1, 9])]),
]


def reduction(name, axes=(1,)):
    return lambda n, x: getattr(n.lax, name)(x, axes)


REDUCTIONS = [
    *(Sample(name, reduction(name), [floats(3, 4)])
      for name in ("reduce_sum", "reduce_max", "reduce_min")),
    Sample("reduce_prod", reduction("reduce_prod"), [floats(3, 4, low=0.5)]),
    *(Sample(f"{name}_all", reduction(name, (0, 1)), [floats(3, 4)]) for name in ("reduce_sum", "reduce_max")),
    *(Sample(f"{name}_int", reduction(name), [ints(3, 4)], WHOLE)
      for name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod")),
    *(Sample(f"{name}_edges", reduction(name, (0,)), [EDGES], WHOLE)
      for name in ("reduce_sum", "reduce_max", "reduce_min")),
    Sample("reduce_sum_bfloat16", reduction("reduce_sum"), [floats(3, 4, dtype=BF16)]),
    Sample("reduce_and", reduction("reduce_and"), [bools(3, 4)], WHOLE),
    Sample("reduce_or", reduction("reduce_or"), [bools(3, 4)], WHOLE),
    Sample("reduce_xor", reduction("reduce_xor"), [ints(3, 4)], WHOLE),
    Sample("reduce_max_ties", reduction("reduce_max", (0,)), [np.float32([1, 3, 3, 2])]),
    Sample("reduce_empty", reduction("reduce_sum", (0,)), [floats(0, 3)]),
    Sample("reduce_general", lambda n, x: n.lax.reduce(x, np.float32(0), n.lax.add, (0,)), [floats(3, 4)],
           smooth=False),    # the initial value is a 32-bit constant: no 64-bit difference quotient
    Sample("argmax", lambda n, x: n.lax.argmax(x, 1, np.int32), [floats(3, 4)], WHOLE),
    Sample("argmin", lambda n, x: n.lax.argmin(x, 0, np.int32), [floats(3, 4)], WHOLE),
    Sample("argmax_nan", lambda n, x: n.lax.argmax(x, 0, np.int32), [EDGES], WHOLE),
    *(Sample(name, lambda n, x, name=name: getattr(n.lax, name)(x, axis=1), [floats(3, 5, low=0.3)])
      for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")),
    Sample("cumsum_reverse", lambda n, x: n.lax.cumsum(x, axis=0, reverse=True), [floats(3, 4)]),
    Sample("reduce_window_max", lambda n, x: n.lax.reduce_window(
        x, -np.float32(np.inf), n.lax.max, (2, 2), (1, 1), "VALID"), [floats(4, 4)], smooth=False),
    Sample("reduce_window_sum", lambda n, x: n.lax.reduce_window(
        x, np.float32(0), n.lax.add, (3,), (2,), "SAME"), [floats(7)], smooth=False),
    Sample("associative_scan", lambda n, x: n.lax.associative_scan(n.lax.mul, x), [floats(6, low=0.5)]),
]

SORTING = [
    Sample("sort", lambda n, x: n.lax.sort(x, dimension=0), [floats(5, 2)]),
    Sample("sort_last", lambda n, x: n.lax.sort(x), [floats(2, 5)]),
    Sample("sort_edges", lambda n, x: n.lax.sort(x), [EDGES], WHOLE),
    Sample("sort_pairs", lambda n, x, y: n.lax.sort((x, y), num_keys=1), [floats(5), floats(5)]),
    Sample("sort_two_keys", lambda n, x, y: n.lax.sort((x, y), num_keys=2), [ints(8, low=0, high=3), floats(8)],
           WHOLE),
    Sample("sort_int", lambda n, x: n.lax.sort(x), [ints(7)], WHOLE),
    Sample("argsort", lambda n, x: n.jnp.argsort(x), [floats(2, 5)], WHOLE),
    Sample("argsort_descending", lambda n, x: n.jnp.argsort(x, descending=True), [ints(6, low=0, high=3)], WHOLE),
    Sample("sort_key_val", lambda n, k, v: n.lax.sort_key_val(k, v), [ints(6), floats(6)]),
    Sample("top_k", lambda n, x: n.lax.top_k(x, 2), [floats(3, 5)]),
    Sample("top_k_ties", lambda n, x: n.lax.top_k(x, 3), [np.float32([1, 3, 3, 2, 3])], WHOLE),
]


def general(contract, batch=((), ()), **options):
    return lambda n, x, y: n.lax.dot_general(x, y, (contract, batch), **options)


PRODUCTS = [
    Sample("dot_vectors", lambda n, x, y: n.lax.dot(x, y), [floats(4), floats(4)]),
    Sample("dot_matrices", lambda n, x, y: n.lax.dot(x, y), [floats(2, 4), floats(4, 3)]),
    Sample("dot_general", general(((1,), (0,))), [floats(2, 4), floats(4, 3)]),
    Sample("dot_general_batch", general(((2,), (1,)), ((0,), (0,))), [floats(3, 2, 4), floats(3, 4, 5)]),
    Sample("dot_general_inner_batch", general(((0,), (2,)), ((1,), (0,))), [floats(4, 3, 2), floats(3, 5, 4)]),
    Sample("dot_general_two", general(((1, 2), (0, 1))), [floats(2, 3, 4), floats(3, 4, 5)]),
    Sample("dot_general_outer", general(((), ())), [floats(2), floats(3)]),
    Sample("dot_general_preferred", general(((1,), (0,)), preferred_element_type=np.float32),
           [floats(2, 4, dtype=BF16), floats(4, 3, dtype=BF16)]),
    Sample("dot_general_int", general(((1,), (0,))), [ints(2, 4), ints(4, 3)], WHOLE),
    Sample("dot_general_complex", general(((1,), (0,))), [complexes(2, 4), complexes(4, 3)]),
    Sample("dot_general_bfloat16", general(((1,), (0,))), [floats(2, 4, dtype=BF16), floats(4, 3, dtype=BF16)]),
    Sample("dot_general_highest", lambda n, x, y: n.lax.dot_general(
        x, y, (((1,), (0,)), ((), ())), precision=n.lax.Precision.HIGHEST), [floats(2, 4), floats(4, 3)]),
    Sample("batch_matmul", lambda n, x, y: n.lax.batch_matmul(x, y), [floats(3, 2, 4), floats(3, 4, 2)]),
]

ERRORS = [
    Sample("slice_bounds", lambda n, x: n.lax.slice(x, (0,), (9,)), [floats(5)], error="TypeError"),
    Sample("batch_matmul_of_a_vector", lambda n, x, y: n.lax.batch_matmul(x, y), [floats(3), floats(2, 3)], error="ValueError"),
    Sample("concatenate_from_the_back", lambda n, x: n.lax.concatenate([x, x], -1), [floats(2, 3)], error="TypeError"),
    Sample("cumsum_from_the_back", lambda n, x: n.lax.cumsum(x, -1), [floats(3)], error="ValueError"),
    Sample("cumlogsumexp_from_the_back", lambda n, x: n.lax.cumlogsumexp(x, -1), [floats(3)], error="ValueError"),
    Sample("shape_of_floats", lambda n, x: n.lax.shape_as_value(x), [floats(3)], ("eager",), error="TypeError"),
    Sample("truth_of_a_key", lambda n: bool(n.random.key(0)), [], ("eager",), error="TypeError"),
    Sample("dynamic_slice_size", lambda n, x: n.lax.dynamic_slice(x, (0,), (9,)), [floats(5)], error="TypeError"),
    Sample("dot_general_sizes", general(((1,), (0,))), [floats(2, 4), floats(3, 2)], error="TypeError"),
    Sample("reduce_axis", reduction("reduce_sum", (3,)), [floats(2, 4)], error="ValueError"),
    Sample("getitem_too_many", lambda n, x: n.jnp.asarray(x)[0, 0, 0], [X], error="IndexError"),
    Sample("getitem_float", lambda n, x: n.jnp.asarray(x)[1.5], [X], error="TypeError"),
    Sample("getitem_list", lambda n, x: n.jnp.asarray(x)[[0, 1]], [X], error="TypeError"),
    Sample("setitem", lambda n, x: n.jnp.asarray(x).__setitem__(0, 1.0), [X], error="TypeError"),
    Sample("top_k_large", lambda n, x: n.lax.top_k(x, 9), [floats(5)], error="ValueError"),
]

SAMPLES = [*SLICING, *REDUCTIONS, *SORTING, *PRODUCTS, *ERRORS]
