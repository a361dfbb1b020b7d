"""Whole algorithms as kernels: each computes what `xlab.lax`, `xlab.nn` and NumPy do, however it is run (K49, K50, K86)."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import xlab
from tests.kernels import algorithms as kernels
from xlab import lax, nn
from xlab import numpy as jnp
from xlab.kernels import InterpretParams, interpret_mode
from xlab.sharding import AxisType
from xlab.sharding import PartitionSpec as P

TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype("float32")


def drawn(*shape, dtype="float32", seed=0):
    return jnp.asarray(numbers(*shape, seed=seed), dtype)


def close(got, expected, dtype="float32", scale=1.0):
    for g, e in zip(xlab.tree.leaves(got), xlab.tree.leaves(expected), strict=True):
        assert g.shape == e.shape
        np.testing.assert_allclose(
            np.asarray(g, "float64"),
            np.asarray(e, "float64"),
            rtol=TOLERANCE[dtype],
            atol=scale * TOLERANCE[dtype],
        )


def same(got, expected):
    for g, e in zip(xlab.tree.leaves(got), xlab.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(g), np.asarray(e))


def pullback(f, ct, *args):
    return xlab.jit(lambda *args: xlab.vjp(f, *args)[1](ct))(*args)


# -- products -----------------------------------------------------------------------------------------------

# Divided by the blocks; ragged in each dimension; smaller than a block.
PRODUCTS = [
    ((16, 16, 16), "float32"),
    ((20, 13, 17), "float32"),
    ((20, 13, 17), "bfloat16"),
    ((3, 30, 8), "float32"),
    ((8, 1, 9), "float32"),
]


@pytest.mark.parametrize(("shape", "dtype"), PRODUCTS)
def test_k42_a_tiled_product_accumulates_in_scratch(shape, dtype):
    m, k, n = shape
    x, y = drawn(m, k, dtype=dtype), drawn(k, n, dtype=dtype)
    expected = x.astype("float32") @ y.astype("float32")
    close(kernels.matmul(x, y), expected, dtype, scale=4)


@pytest.mark.parametrize("blocks", [(4, 4, 4), (2, 8, 16), (32, 32, 32), (5, 7, 3)])
def test_k35_any_block_gives_the_same_product(blocks):
    x, y = drawn(9, 14), drawn(14, 11)
    close(kernels.matmul(x, y, blocks), x @ y)


def test_k31_tiles_of_rows_meet_the_matrix_of_their_group():
    x, w = drawn(12, 5), drawn(3, 5, 6)
    group = jnp.array([2, 0, 2])
    expected = jnp.concatenate([x[4 * i : 4 * i + 4] @ w[g] for i, g in enumerate([2, 0, 2])])
    close(kernels.grouped_matmul(x, w, group), expected)


# -- attention ----------------------------------------------------------------------------------------------


@functools.partial(xlab.jit, static_argnums=3)
def plain_attention(q, k, v, causal):
    """`xlab.nn`'s, whose heads stand behind the length."""
    q, k, v = (jnp.swapaxes(a, 0, 1) for a in (q, k, v))
    return jnp.swapaxes(nn.dot_product_attention(q, k, v, is_causal=causal), 0, 1)


def heads(queries, keys, dtype="float32"):
    return (
        drawn(2, queries, 4, dtype=dtype, seed=1),
        drawn(2, keys, 4, dtype=dtype, seed=2),
        drawn(2, keys, 4, dtype=dtype, seed=3),
    )


causes = pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])


@causes
@pytest.mark.parametrize(("queries", "keys"), [(13, 13), (5, 19)])
def test_flash_attention(queries, keys, causal):
    q, k, v = heads(queries, keys)
    close(kernels.attention(q, k, v, causal, 8), plain_attention(q, k, v, causal))


def test_flash_attention_in_bfloat16():
    q, k, v = heads(11, 11, "bfloat16")
    expected = plain_attention(*(a.astype("float32") for a in (q, k, v)), True)
    close(kernels.attention(q, k, v, True, 4), expected, "bfloat16")


@causes
@pytest.mark.parametrize(("queries", "keys"), [(13, 13), (5, 11)])
def test_flash_attention_backward(queries, keys, causal):
    q, k, v = heads(queries, keys)
    ct = drawn(*q.shape, seed=4)
    got = pullback(lambda *a: kernels.attention(*a, causal, 8), ct, q, k, v)
    close(got, pullback(lambda *a: plain_attention(*a, causal), ct, q, k, v))


def test_flash_attention_under_jit_grad_and_vmap():
    q, k, v = (jnp.stack([a, 2 * a, -a]) for a in heads(7, 7))

    def total(attend, q, k, v):
        return jnp.sum(attend(q, k, v) ** 2)

    kernel = functools.partial(total, lambda *a: kernels.attention(*a, True, 4))
    plain = functools.partial(total, lambda *a: plain_attention(*a, True))
    each = (xlab.jit(xlab.vmap(xlab.grad(f, argnums=(0, 1, 2)))) for f in (kernel, plain))
    got, expected = (f(q, k, v) for f in each)
    close(got, expected)


# -- normalizations -----------------------------------------------------------------------------------------


def plain_layer_norm(x, scale, bias, eps=1e-5):
    mean = x.mean(axis=1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, axis=1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + eps) * scale + bias


@pytest.mark.parametrize("rows", [8, 7, 1])
def test_layer_norm_and_its_slopes(rows):
    x, scale, bias = drawn(rows, 6), drawn(6), drawn(6, seed=1)
    ct = drawn(rows, 6, seed=2)
    operands = x, scale, bias
    close(kernels.layer_norm(*operands, 1e-5, 4), plain_layer_norm(*operands))
    got = pullback(lambda *a: kernels.layer_norm(*a, 1e-5, 4), ct, *operands)
    close(got, pullback(plain_layer_norm, ct, *operands))


def test_layer_norm_in_bfloat16():
    x, scale, bias = drawn(5, 8, dtype="bfloat16"), drawn(8), drawn(8, seed=1)
    got = kernels.layer_norm(x, scale, bias)
    assert got.dtype == x.dtype
    close(got, plain_layer_norm(x.astype("float32"), scale, bias), "bfloat16", scale=2)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((4, 16), "float32"), ((3, 19), "float32"), ((3, 19), "bfloat16"), ((1, 3), "float32")],
)
def test_k37_softmax_visits_each_block_three_times(shape, dtype):
    x = 3 * drawn(*shape, dtype=dtype)
    expected = nn.softmax(x.astype("float32"), axis=1)
    close(kernels.softmax(x), expected, dtype)


# -- scans, sorts, counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [12, 11, 3, 1])
def test_k42_a_scan_carries_its_prefix_in_scratch(n):
    x = drawn(n)
    close(kernels.scan(jnp.add, x, 0), jnp.cumsum(x))
    same(
        kernels.scan(jnp.maximum, x, -jnp.inf),
        np.maximum.accumulate(np.asarray(x)),
    )


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((2, 16), "float32"),
        ((3, 11), "float32"),
        ((3, 11), "bfloat16"),
        ((2, 13), "int32"),
        ((2, 16), "uint8"),
        ((1, 2), "float32"),
        ((1, 1), "float32"),
    ],
)
def test_bitonic_sort(shape, dtype):
    x = (20 * jnp.abs(drawn(*shape))).astype(dtype)
    same(kernels.sort(x), jnp.sort(x, axis=1))


@pytest.mark.parametrize("n", [16, 13, 2])
def test_k13_a_histogram_adds_up_equal_places(n):
    x = jnp.asarray(np.random.default_rng(n).integers(0, 5, n), "int32")
    same(kernels.histogram(x, 6), jnp.bincount(x, length=6))


# -- gathers and reductions ---------------------------------------------------------------------------------


def test_k31_index_maps_read_prefetched_rows():
    table, rows = drawn(6, 5), jnp.array([3, 3, 0, 5], "int32")
    same(kernels.gather_rows(table, rows), table[rows])


def test_k44_segments_add_up_in_an_output_that_starts_as_zeros():
    x, segments = drawn(7, 3), jnp.array([0, 0, 2, 2, 2, 4, 4], "int32")
    expected = jnp.zeros((5, 3)).at[segments].add(x)
    close(kernels.segment_sum(x, segments, 5), expected)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((4, 16), "float32"), ((5, 21), "int32"), ((5, 21), "bfloat16"), ((1, 3), "float32")],
)
def test_argmax_takes_the_first_of_equals(shape, dtype):
    x = (3 * drawn(*shape)).astype("int32").astype(dtype)
    same(kernels.argmax(x), lax.argmax(x, 1, "int32"))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("shape", [(4, 16), (5, 21)])
def test_top_k_keeps_the_best_of_the_blocks_so_far(shape, k):
    x = drawn(*shape)
    same(kernels.top_k(x, k), tuple(lax.top_k(x, k)))


# -- under transformations ----------------------------------------------------------------------------------

CALLS = {
    "matmul": (kernels.matmul, [numbers(3, 9, 10), numbers(3, 10, 5, seed=1)]),
    "attention": (kernels.attention, [numbers(3, 2, 7, 4, seed=i) for i in range(3)]),
    "layer_norm": (kernels.layer_norm, [numbers(3, 7, 6), numbers(3, 6), numbers(3, 6, seed=1)]),
    "softmax": (kernels.softmax, [numbers(3, 3, 11)]),
    "scan": (lambda x: kernels.scan(jnp.add, x, 0), [numbers(3, 11)]),
    "sort": (kernels.sort, [numbers(3, 2, 11)]),
    "histogram": (lambda x: kernels.histogram(x, 3), [np.arange(21).reshape(3, 7) % 3]),
    "argmax": (kernels.argmax, [numbers(3, 4, 10)]),
    "top_k": (lambda x: kernels.top_k(x, 2), [numbers(3, 4, 10)]),
    "gather_rows": (kernels.gather_rows, [numbers(3, 5, 4), np.array([[0, 4], [1, 1], [3, 2]])]),
    "segment_sum": (
        lambda x, s: kernels.segment_sum(x, s, 3),
        [numbers(3, 4, 2), np.array([[0, 0, 1, 2], [0, 1, 1, 1], [2, 2, 2, 2]])],
    ),
    "grouped_matmul": (
        kernels.grouped_matmul,
        [numbers(3, 8, 5), numbers(3, 2, 5, 3), np.array([[0, 1], [1, 1], [1, 0]])],
    ),
}
calls = pytest.mark.parametrize("name", CALLS)


@functools.cache
def one_by_one(name):
    """What the call gives for each of its three examples, stacked."""
    f, args = CALLS[name]
    outs = [f(*(a[i] for a in args)) for i in range(3)]
    return xlab.tree.map(lambda *leaves: jnp.stack(leaves), *outs)


def first_of(name):
    """The call, its first example, and what it gives for that."""
    f, args = CALLS[name]
    return f, [a[0] for a in args], xlab.tree.map(lambda x: x[0], one_by_one(name))


@calls
def test_k86_interpreted_and_compiled_kernels_agree(name):
    f, args, expected = first_of(name)
    steps: list = []
    params = InterpretParams(grid_point_recorder=lambda grid, core: steps.append(grid))
    with interpret_mode(params):
        close(f(*args), expected)
    assert steps


def test_k86_interpreted_and_compiled_slopes_agree():
    q, k, v = heads(5, 7)
    slopes = xlab.grad(lambda *a: jnp.sum(kernels.attention(*a, True, 4) ** 2), argnums=(0, 1, 2))
    expected = slopes(q, k, v)
    with interpret_mode("value"):
        close(slopes(q, k, v), expected)


# Each is compiled inside another program once: here or for several devices.
@pytest.mark.parametrize("name", list(CALLS)[1::2])
def test_jit_changes_nothing(name):
    f, args, expected = first_of(name)
    close(xlab.jit(f)(*args), expected)


@calls
def test_k48_vmap_is_a_loop(name):
    f, args = CALLS[name]
    close(xlab.vmap(f)(*args), one_by_one(name))


def test_k47_a_forward_jacobian_of_a_product_with_scratch():
    a, b = drawn(4, 10), drawn(10, 3)
    got = xlab.jacfwd(lambda a, b: kernels.matmul(a, b, (4, 4, 4)), argnums=(0, 1))(a, b)
    close(got, xlab.jacfwd(jnp.matmul, argnums=(0, 1))(a, b))


@pytest.mark.parametrize("examples", [1, 3])
def test_k48_an_output_that_no_mapped_operand_reaches_is_not_mapped(examples):
    def kernel(x_ref, y_ref, of_x, of_y, of_both):
        of_x[...] = x_ref[...]
        of_y[...] = 2 * y_ref[...]
        of_both[...] = of_x[...] + of_y[...]

    f = kernels.kernel_call(kernel, (xlab.ShapeDtypeStruct((2,), "float32"),) * 3)
    x, y = drawn(examples, 2), drawn(2, seed=1)
    of_x, of_y, of_both = xlab.vmap(f, (0, None), (0, None, 0))(x, y)
    same((of_x, of_y, of_both), (x, 2 * y, x + 2 * y))
    with pytest.raises(ValueError, match="out_axes=None"):
        xlab.vmap(f, (0, None), (0, None, None))(x, y)


@pytest.mark.parametrize("alias_mode", ["copy", "shared"])
def test_k44_what_a_shared_buffer_carries_is_mapped(alias_mode):
    def kernel(x_ref, y_ref, written, seen):
        seen[...] = x_ref[...]
        written[...] = y_ref[...]

    f = kernels.kernel_call(
        kernel,
        (xlab.ShapeDtypeStruct((2,), "float32"),) * 2,
        grid=2,
        input_output_aliases={0: 0},
        alias_mode=alias_mode,
    )
    x, ys = drawn(2), drawn(3, 2, seed=1)
    written, seen = xlab.vmap(f, (None, 0))(x, ys)
    same(written, ys)
    same(seen, ys if alias_mode == "shared" else jnp.stack([x] * 3))


@pytest.mark.parametrize("name", list(CALLS)[::2])
def test_shard_map_runs_a_kernel_per_device(name):
    f, args = CALLS[name]
    mesh = xlab.make_mesh((3,), ("d",), (AxisType.Auto,), devices=xlab.devices()[:3])
    per_device = xlab.shard_map(
        lambda *a: xlab.tree.map(lambda y: y[None], f(*(x[0] for x in a))),
        mesh=mesh,
        in_specs=P("d"),
        out_specs=P("d"),
        check_vma=False,
    )
    close(xlab.jit(per_device)(*args), one_by_one(name))
