"""Algorithms as kernel authors write them; `test_algorithms.py` compares each with what `xlab.lax` and `xlab.nn` compute.

Blocks need not divide arrays. Elements past the end of an array are uninitialized (NaN for floats), so each kernel masks them
where it reduces. All run as compiled loops, unless `interpret_mode` says otherwise.
"""

from __future__ import annotations

import functools

import xlab
from xlab import lax
from xlab import numpy as jnp
from xlab.kernels import (
    BlockSpec,
    MemorySpace,
    PrefetchGridSpec,
    cdiv,
    num_programs,
    program_id,
    when,
)
from xlab.ref import addupdate

kernel_call = functools.partial(xlab.kernels.kernel_call, interpret=True)

LOCAL = MemorySpace.LOCAL
SDS = xlab.ShapeDtypeStruct


def inside(shape: tuple, axis: int, block, size: int):
    """Where a block, the `block`-th along an axis of `size` elements, lies inside the array."""
    return block * shape[axis] + lax.broadcasted_iota("int32", shape, axis) < size


# -- products -----------------------------------------------------------------------------------------------


def matmul(x, y, blocks=(8, 8, 8)):
    """`x @ y` in tiles, accumulated in float32 over the last axis of the grid."""
    (m, size), n = x.shape, y.shape[1]
    bm, bn, bk = blocks

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        k = program_id(2)

        @when(k == 0)
        def start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        a = jnp.where(inside(x_ref.shape, 1, k, size), x_ref[...], 0)
        b = jnp.where(inside(y_ref.shape, 0, k, size), y_ref[...], 0)
        acc_ref[...] += jnp.dot(a, b, preferred_element_type="float32")

        @when(k == num_programs(2) - 1)
        def end():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return kernel_call(
        kernel,
        SDS((m, n), x.dtype),
        grid=(cdiv(m, bm), cdiv(n, bn), cdiv(size, bk)),
        in_specs=[
            BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[LOCAL((bm, bn), "float32")],
    )(x, y)


def grouped_matmul(x, w, group_of_tile, block=4):
    """Rows times the matrix of their group: `group_of_tile[i]` is the group of the `i`-th `block` rows."""
    (m, k), n = x.shape, w.shape[2]

    def kernel(group_ref, x_ref, w_ref, o_ref):
        o_ref[...] = x_ref[...] @ w_ref[...]

    spec = PrefetchGridSpec(
        num_scalar_prefetch=1,
        grid=m // block,
        in_specs=[
            BlockSpec((block, k), lambda i, group: (i, 0)),
            BlockSpec((None, k, n), lambda i, group: (group[i], 0, 0)),
        ],
        out_specs=BlockSpec((block, n), lambda i, group: (i, 0)),
    )
    return kernel_call(kernel, SDS((m, n), x.dtype), grid_spec=spec)(group_of_tile, x, w)


# -- attention ----------------------------------------------------------------------------------------------

MASKED = -1e30


def _scores(q, k, i, j, keys, scale, causal):
    """Scaled scores of a block of queries and a block of keys; those that do not count are `MASKED`."""
    s = scale * jnp.dot(q, k.T, preferred_element_type="float32")
    seen = inside(s.shape, 1, j, keys)
    if causal:
        rows = i * s.shape[0] + lax.broadcasted_iota("int32", s.shape, 0)
        columns = j * s.shape[1] + lax.broadcasted_iota("int32", s.shape, 1)
        seen = seen & (rows >= columns)
    return jnp.where(seen, s, MASKED)


def _rows_inside(x, block, size):
    """A block of rows, with zeros past the end of the array."""
    return jnp.where(inside(x.shape, 0, block, size), x, 0)


def _attention_forward(q, k, v, causal, block):
    heads, queries, d = q.shape
    keys = k.shape[1]
    scale = d**-0.5

    def kernel(q_ref, k_ref, v_ref, o_ref, lse_ref, *, top, total, acc):
        i, j = program_id(1), program_id(2)

        @when(j == 0)
        def start():
            top[...] = jnp.full_like(top, MASKED)
            total[...] = jnp.zeros_like(total)
            acc[...] = jnp.zeros_like(acc)

        def visit():
            s = _scores(q_ref[...], k_ref[...], i, j, keys, scale, causal)
            new = jnp.maximum(top[...], s.max(axis=1, keepdims=True))
            p, old = jnp.exp(s - new), jnp.exp(top[...] - new)
            values = _rows_inside(v_ref[...], j, keys).astype("float32")
            total[...] = old * total[...] + p.sum(axis=1, keepdims=True)
            acc[...] = old * acc[...] + jnp.dot(p, values)
            top[...] = new

        # Blocks above the diagonal have nothing to say.
        when((i + 1) * block > j * block if causal else True)(visit)

        @when(j == num_programs(2) - 1)
        def end():
            o_ref[...] = (acc[...] / total[...]).astype(o_ref.dtype)
            lse_ref[...] = top[...] + jnp.log(total[...])

    rows = BlockSpec((None, block, d), lambda h, i, j: (h, i, 0))
    columns = BlockSpec((None, block, d), lambda h, i, j: (h, j, 0))
    return kernel_call(
        kernel,
        (SDS(q.shape, q.dtype), SDS((heads, queries, 1), "float32")),
        grid=(heads, cdiv(queries, block), cdiv(keys, block)),
        in_specs=[rows, columns, columns],
        out_specs=(rows, BlockSpec((None, block, 1), lambda h, i, j: (h, i, 0))),
        scratch_shapes={
            "top": LOCAL((block, 1), "float32"),
            "total": LOCAL((block, 1), "float32"),
            "acc": LOCAL((block, d), "float32"),
        },
    )(q, k, v)


def _attention_backward(q, k, v, out, lse, ct, causal, block):
    """Slopes by recomputing the scores: one kernel runs over the keys of each block of queries, one over its queries for keys."""
    heads, queries, d = q.shape
    keys = k.shape[1]
    scale = d**-0.5
    # What the normalization takes away from the slope of each row.
    delta = jnp.sum(out.astype("float32") * ct.astype("float32"), axis=-1, keepdims=True)

    def probabilities(q_ref, k_ref, v_ref, lse_ref, delta_ref, ct_ref, i, j):
        qs, cts = (_rows_inside(r[...], i, queries) for r in (q_ref, ct_ref))
        ks, vs = (_rows_inside(r[...], j, keys) for r in (k_ref, v_ref))
        s = _scores(qs, ks, i, j, keys, scale, causal)
        known = inside(s.shape, 0, i, queries)
        p = jnp.where(known, jnp.exp(s - lse_ref[...]), 0)
        dp = jnp.dot(cts, vs.T, preferred_element_type="float32")
        ds = jnp.where(known, p * (dp - delta_ref[...]) * scale, 0)
        return qs, ks, cts.astype("float32"), p, ds

    def for_queries(q_ref, k_ref, v_ref, lse_ref, delta_ref, ct_ref, dq_ref, acc):
        i, j = program_id(1), program_id(2)

        @when(j == 0)
        def start():
            acc[...] = jnp.zeros_like(acc)

        _, ks, _, _, ds = probabilities(q_ref, k_ref, v_ref, lse_ref, delta_ref, ct_ref, i, j)
        acc[...] += jnp.dot(ds, ks.astype("float32"))

        @when(j == num_programs(2) - 1)
        def end():
            dq_ref[...] = acc[...].astype(dq_ref.dtype)

    def for_keys(q_ref, k_ref, v_ref, lse_ref, delta_ref, ct_ref, dk_ref, dv_ref, dk, dv):
        j, i = program_id(1), program_id(2)

        @when(i == 0)
        def start():
            dk[...] = jnp.zeros_like(dk)
            dv[...] = jnp.zeros_like(dv)

        qs, _, cts, p, ds = probabilities(q_ref, k_ref, v_ref, lse_ref, delta_ref, ct_ref, i, j)
        dk[...] += jnp.dot(ds.T, qs.astype("float32"))
        dv[...] += jnp.dot(p.T, cts)

        @when(i == num_programs(2) - 1)
        def end():
            dk_ref[...] = dk[...].astype(dk_ref.dtype)
            dv_ref[...] = dv[...].astype(dv_ref.dtype)

    def specs(of_queries, of_keys):
        wide, narrow = (BlockSpec((None, block, n), of_queries) for n in (d, 1))
        return [wide, *[BlockSpec((None, block, d), of_keys)] * 2, narrow, narrow, wide]

    first, second = (lambda h, a, b: (h, a, 0)), (lambda h, a, b: (h, b, 0))
    n_q, n_k = cdiv(queries, block), cdiv(keys, block)
    operands = (q, k, v, lse, delta, ct)
    acc = LOCAL((block, d), "float32")
    dq = kernel_call(
        for_queries,
        SDS(q.shape, q.dtype),
        grid=(heads, n_q, n_k),
        in_specs=specs(first, second),
        out_specs=BlockSpec((None, block, d), first),
        scratch_shapes=[acc],
    )(*operands)
    dk, dv = kernel_call(
        for_keys,
        (SDS(k.shape, k.dtype), SDS(v.shape, v.dtype)),
        grid=(heads, n_k, n_q),
        in_specs=specs(second, first),
        out_specs=(BlockSpec((None, block, d), first),) * 2,
        scratch_shapes=[acc, acc],
    )(*operands)
    return dq, dk, dv


@functools.partial(xlab.custom_vjp, nondiff_argnums=(3, 4))
def attention(q, k, v, causal=False, block=8):
    """Attention of `(heads, length, features)` that never holds all scores: an online softmax over blocks of keys."""
    return _attention_forward(q, k, v, causal, block)[0]


def _attention_fwd(q, k, v, causal, block):
    out, lse = _attention_forward(q, k, v, causal, block)
    return out, (q, k, v, out, lse)


def _attention_bwd(causal, block, residuals, ct):
    return _attention_backward(*residuals, ct, causal, block)


attention.defvjp(_attention_fwd, _attention_bwd)


# -- normalizations -----------------------------------------------------------------------------------------


def _layer_norm_forward(x, scale, bias, eps, block):
    rows, n = x.shape

    def kernel(x_ref, scale_ref, bias_ref, y_ref, mean_ref, rstd_ref):
        xs = x_ref[...].astype("float32")
        mean = xs.mean(axis=1, keepdims=True)
        rstd = lax.rsqrt(jnp.mean((xs - mean) ** 2, axis=1, keepdims=True) + eps)
        y_ref[...] = ((xs - mean) * rstd * scale_ref[...] + bias_ref[...]).astype(y_ref.dtype)
        mean_ref[...], rstd_ref[...] = mean, rstd

    wide, narrow = (BlockSpec((block, k), lambda i: (i, 0)) for k in (n, 1))
    whole = BlockSpec((n,), lambda i: (0,))
    return kernel_call(
        kernel,
        (SDS(x.shape, x.dtype), *[SDS((rows, 1), "float32")] * 2),
        grid=cdiv(rows, block),
        in_specs=[wide, whole, whole],
        out_specs=(wide, narrow, narrow),
    )(x, scale, bias)


@functools.partial(xlab.custom_vjp, nondiff_argnums=(3, 4))
def layer_norm(x, scale, bias, eps=1e-5, block=4):
    """Rows of mean 0 and variance 1, scaled and shifted."""
    return _layer_norm_forward(x, scale, bias, eps, block)[0]


def _layer_norm_fwd(x, scale, bias, eps, block):
    y, mean, rstd = _layer_norm_forward(x, scale, bias, eps, block)
    return y, (x, scale, mean, rstd)


def _layer_norm_bwd(eps, block, residuals, ct):
    x, scale, mean, rstd = residuals
    rows, n = x.shape

    def kernel(x_ref, scale_ref, mean_ref, rstd_ref, ct_ref, dx_ref, dscale_ref, dbias_ref):
        i = program_id(0)

        @when(i == 0)
        def start():  # the sums over rows stay in one block for the whole grid
            dscale_ref[...] = jnp.zeros_like(dscale_ref)
            dbias_ref[...] = jnp.zeros_like(dbias_ref)

        cts = _rows_inside(ct_ref[...], i, rows).astype("float32")
        normal = _rows_inside((x_ref[...] - mean_ref[...]) * rstd_ref[...], i, rows)
        g = cts * scale_ref[...]
        along = g.mean(axis=1, keepdims=True), (g * normal).mean(axis=1, keepdims=True)
        dx_ref[...] = ((g - along[0] - normal * along[1]) * rstd_ref[...]).astype(dx_ref.dtype)
        dscale_ref[...] += (cts * normal).sum(axis=0)
        dbias_ref[...] += cts.sum(axis=0)

    wide, narrow = (BlockSpec((block, k), lambda i: (i, 0)) for k in (n, 1))
    whole = BlockSpec((n,), lambda i: (0,))
    dx, dscale, dbias = kernel_call(
        kernel,
        (SDS(x.shape, x.dtype), SDS((n,), "float32"), SDS((n,), "float32")),
        grid=cdiv(rows, block),
        in_specs=[wide, whole, narrow, narrow, wide],
        out_specs=(wide, whole, whole),
    )(x, scale, mean, rstd, ct)
    return dx, dscale.astype(scale.dtype), dbias.astype(scale.dtype)


layer_norm.defvjp(_layer_norm_fwd, _layer_norm_bwd)


def softmax(x, blocks=(2, 8)):
    """Softmax of rows that do not fit in one block: each block is visited three times, for the top, the sum, the result."""
    rows, n = x.shape
    bm, bn = blocks

    def kernel(x_ref, o_ref, top_ref, sum_ref):
        phase, j = program_id(1), program_id(2)
        xs = jnp.where(inside(x_ref.shape, 1, j, n), x_ref[...].astype("float32"), -jnp.inf)

        @when((phase == 0) & (j == 0))
        def start():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            sum_ref[...] = jnp.zeros_like(sum_ref)

        @when(phase == 0)
        def find_top():
            top_ref[...] = jnp.maximum(top_ref[...], xs.max(axis=1, keepdims=True))

        @when(phase == 1)
        def add_up():
            sum_ref[...] += jnp.exp(xs - top_ref[...]).sum(axis=1, keepdims=True)

        @when(phase == 2)
        def divide():
            o_ref[...] = (jnp.exp(xs - top_ref[...]) / sum_ref[...]).astype(o_ref.dtype)

    return kernel_call(
        kernel,
        SDS(x.shape, x.dtype),
        grid=(cdiv(rows, bm), 3, cdiv(n, bn)),
        in_specs=[BlockSpec((bm, bn), lambda i, p, j: (i, j))],
        # The output stays at its first block until there is something to write.
        out_specs=BlockSpec((bm, bn), lambda i, p, j: (i, jnp.where(p == 2, j, 0))),
        scratch_shapes=[LOCAL((bm, 1), "float32"), LOCAL((bm, 1), "float32")],
    )(x)


# -- scans, sorts, counts -----------------------------------------------------------------------------------


def scan(op, x, initial, block=4):
    """All the prefixes of a vector under an associative `op` whose neutral element is `initial`."""

    def kernel(x_ref, o_ref, carry_ref):
        @when(program_id(0) == 0)
        def start():
            carry_ref[...] = jnp.full_like(carry_ref, initial)

        o_ref[...] = op(carry_ref[...], lax.associative_scan(op, x_ref[...]))
        carry_ref[...] = o_ref[block - 1 :]

    spec = BlockSpec((block,), lambda i: (i,))
    return kernel_call(
        kernel,
        SDS(x.shape, x.dtype),
        grid=cdiv(x.shape[0], block),
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[LOCAL((1,), x.dtype)],
    )(x)


def sort(x):
    """Rows in ascending order by a bitonic network: a step of the grid is one layer of comparators."""
    rows, n = x.shape
    if n == 1:
        return x
    size = 1 << (n - 1).bit_length()
    exponent = size.bit_length() - 1
    layers = [(a, b) for a in range(1, exponent + 1) for b in reversed(range(a))]
    runs = jnp.array([1 << a for a, _ in layers], "int32")
    strides = jnp.array([1 << b for _, b in layers], "int32")
    last = jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).max

    def kernel(runs_ref, strides_ref, x_ref, o_ref):
        layer = program_id(1)

        @when(layer == 0)
        def start():
            o_ref[...] = jnp.where(jnp.arange(size) < n, x_ref[...], jnp.asarray(last, x.dtype))

        place = lax.iota("int32", size)
        partner = place ^ strides_ref[layer]
        ascending = (place & runs_ref[layer]) == 0
        mine, other = o_ref[...], o_ref[partner]
        smaller = (place < partner) == ascending
        o_ref[...] = jnp.where(smaller, jnp.minimum(mine, other), jnp.maximum(mine, other))

    spec = PrefetchGridSpec(
        num_scalar_prefetch=2,
        grid=(rows, len(layers)),
        in_specs=[BlockSpec((None, size), lambda i, _, *prefetched: (i, 0))],
        out_specs=BlockSpec((None, size), lambda i, _, *prefetched: (i, 0)),
    )
    out = kernel_call(kernel, SDS((rows, size), x.dtype), grid_spec=spec)(runs, strides, x)
    return out[:, :n]


def histogram(x, bins, block=4):
    """How often each of `0 .. bins - 1` occurs: every step adds to the one block of the output."""

    def kernel(x_ref, o_ref):
        i = program_id(0)

        @when(i == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        valid = inside(x_ref.shape, 0, i, x.shape[0])
        addupdate(o_ref, jnp.where(valid, x_ref[...], 0), valid.astype("int32"))

    return kernel_call(
        kernel,
        SDS((bins,), "int32"),
        grid=cdiv(x.shape[0], block),
        in_specs=[BlockSpec((block,), lambda i: (i,))],
    )(x)


# -- gathers and reductions ---------------------------------------------------------------------------------


def gather_rows(table, rows):
    """`table[rows]`: the index map reads which row a step wants."""

    def kernel(rows_ref, table_ref, o_ref):
        o_ref[...] = table_ref[...]

    spec = PrefetchGridSpec(
        num_scalar_prefetch=1,
        grid=rows.shape[0],
        in_specs=[BlockSpec((None, table.shape[1]), lambda i, rows: (rows[i], 0))],
        out_specs=BlockSpec((None, table.shape[1]), lambda i, rows: (i, 0)),
    )
    out = SDS((rows.shape[0], table.shape[1]), table.dtype)
    return kernel_call(kernel, out, grid_spec=spec)(rows, table)


def segment_sum(x, segments, count):
    """Sums of rows of the same segment. `segments` ascends; a segment without rows keeps the zeros it starts as."""

    def kernel(segments_ref, x_ref, zeros_ref, o_ref):
        o_ref[...] += x_ref[...]

    n = x.shape[1]
    spec = PrefetchGridSpec(
        num_scalar_prefetch=1,
        grid=x.shape[0],
        in_specs=[
            BlockSpec((None, n), lambda i, segments: (i, 0)),
            BlockSpec((None, n), lambda i, segments: (segments[i], 0)),
        ],
        out_specs=BlockSpec((None, n), lambda i, segments: (segments[i], 0)),
    )
    return kernel_call(
        kernel,
        SDS((count, n), x.dtype),
        grid_spec=spec,
        input_output_aliases={2: 0},
    )(segments, x, jnp.zeros((count, n), x.dtype))


def argmax(x, blocks=(2, 8)):
    """The position of the largest element of each row, the first of equal ones."""
    rows, n = x.shape
    bm, bn = blocks
    low = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min

    def kernel(x_ref, o_ref, best_ref):
        j = program_id(1)

        @when(j == 0)
        def start():
            best_ref[...] = jnp.full_like(best_ref, low)
            o_ref[...] = jnp.zeros_like(o_ref)

        xs = jnp.where(inside(x_ref.shape, 1, j, n), x_ref[...], jnp.asarray(low, x.dtype))
        here = xs.max(axis=1)
        better = here > best_ref[...]
        o_ref[...] = jnp.where(better, j * bn + lax.argmax(xs, 1, "int32"), o_ref[...])
        best_ref[...] = jnp.maximum(best_ref[...], here)

    return kernel_call(
        kernel,
        SDS((rows,), "int32"),
        grid=(cdiv(rows, bm), cdiv(n, bn)),
        in_specs=[BlockSpec((bm, bn), lambda i, j: (i, j))],
        out_specs=BlockSpec((bm,), lambda i, j: (i,)),
        scratch_shapes=[LOCAL((bm,), x.dtype)],
    )(x)


def top_k(x, k, blocks=(2, 8)):
    """The `k` largest elements of each row and where they are: each block competes with the best so far."""
    rows, n = x.shape
    bm, bn = blocks

    def kernel(x_ref, values_ref, places_ref):
        j = program_id(1)

        @when(j == 0)
        def start():
            values_ref[...] = jnp.full_like(values_ref, -jnp.inf)
            places_ref[...] = jnp.zeros_like(places_ref)

        places = j * bn + lax.broadcasted_iota("int32", (bm, bn), 1)
        values = jnp.where(places < n, x_ref[...], jnp.asarray(-jnp.inf, x.dtype))
        values, places = (
            jnp.concatenate([r[...], new], axis=1)
            for r, new in ((values_ref, values), (places_ref, places))
        )
        values_ref[...], chosen = lax.top_k(values, k)
        places_ref[...] = jnp.take_along_axis(places, chosen, axis=1)

    out = BlockSpec((bm, k), lambda i, j: (i, 0))
    return kernel_call(
        kernel,
        (SDS((rows, k), x.dtype), SDS((rows, k), "int32")),
        grid=(cdiv(rows, bm), cdiv(n, bn)),
        in_specs=[BlockSpec((bm, bn), lambda i, j: (i, j))],
        out_specs=(out, out),
    )(x)
