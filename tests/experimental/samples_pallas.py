"""Kernels as tutorials have them, by the field's names, run in interpretation by both sides (K103)."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats, ints
from tests.reference.sample import VALUE, Sample

LAWS = False  # a law is a second program per sample; tests/kernels has those of kernels
F32, I32 = np.dtype("float32"), np.dtype("int32")
X, M, N = floats(8), floats(8, 16), ints(8)
EACH = ("eager", "jit", "vmap")
SMOOTH = ("eager", "jit", "vmap", "jvp")


def pl(n):
    return import_module(f"{n.name}.experimental.pallas")


def pltpu(n):
    return import_module(f"{n.name}.experimental.pallas.tpu")


def like(n, x):
    return n.jax.ShapeDtypeStruct(x.shape, x.dtype)


def shaped(n, shape, dtype=F32):
    return n.jax.ShapeDtypeStruct(shape, dtype)


def call(n, kernel, out, *args, **options):
    return pl(n).pallas_call(kernel, out_shape=out, interpret=True, **options)(*args)


def spec(n, *args, **options):
    return pl(n).BlockSpec(*args, **options)


# -- whole arrays ---------------------------------------------------------------------------------------------


def vector_add(n, x, y):
    def add(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    return call(n, add, like(n, x), x, y)


def sine(n, x):
    def sin(x_ref, o_ref):
        o_ref[...] = n.jnp.sin(x_ref[...])

    return call(n, sin, like(n, x), x)


def two_outputs(n, x):
    def both(x_ref, s_ref, c_ref):
        s_ref[...], c_ref[...] = n.jnp.sin(x_ref[...]), n.jnp.cos(x_ref[...])

    return call(n, both, [like(n, x), like(n, x)], x)


def tree_of_outputs(n, x):
    def kernel(x_ref, out):
        out["a"][...] = x_ref[...] * 2
        out["b"][0] = x_ref[0]

    return call(n, kernel, {"a": like(n, x), "b": shaped(n, (1,))}, x)


def tree_of_inputs(n, x, y):
    def kernel(ins, o_ref):
        o_ref[...] = ins["x"][...] - ins["y"][...]

    return call(n, kernel, like(n, x), {"x": x, "y": y})


def nothing_written(n, dtype):
    return call(n, lambda o_ref: None, shaped(n, (3,), np.dtype(dtype)))


def half(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    x = x.astype(n.jnp.bfloat16)
    return call(n, kernel, like(n, x), x)


# -- grids and blocks -----------------------------------------------------------------------------------------


def program_ids(n):
    def iota(o_ref):
        o_ref[0] = pl(n).program_id(0)

    return call(n, iota, shaped(n, (8,), I32), grid=(8,), out_specs=spec(n, (1,), lambda i: (i,)))


def order_of_steps(n):
    def digits(o_ref):
        i, j = pl(n).program_id(0), pl(n).program_id(1)
        o_ref[...] = n.jnp.full((1, 1), i * pl(n).num_programs(1) + j, I32)

    return call(n, digits, shaped(n, (2, 3), I32), grid=(2, 3), out_specs=spec(n, (1, 1), lambda i, j: (i, j)))


def blocks(n, x, block=4):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2 + 1

    s = spec(n, (block,), lambda i: (i,))
    return call(n, kernel, like(n, x), x, grid=pl(n).cdiv(x.shape[0], block), in_specs=[s], out_specs=s)


def uninitialized_per_block(n, x):
    def kernel(x_ref, o_ref):
        o_ref[0] = n.jnp.sum(n.jnp.isnan(x_ref[...]).astype(I32))

    return call(n, kernel, shaped(n, (3,), I32), x, grid=(3,), in_specs=[spec(n, (4,), lambda i: (i,))],
                out_specs=spec(n, (1,), lambda i: (i,)))  # fmt: skip


def least_of_blocks(n, x):
    def kernel(x_ref, o_ref):
        o_ref[0] = n.jnp.min(x_ref[...])

    return call(n, kernel, shaped(n, (3,), I32), x, grid=(3,), in_specs=[spec(n, (4,), lambda i: (i,))],
                out_specs=spec(n, (1,), lambda i: (i,)))  # fmt: skip


def squeezed_rows(n, x, how=None):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * pl(n).program_id(0)

    s = spec(n, (pl(n).squeezed if how else None, 16), lambda i: (i, 0))
    return call(n, kernel, like(n, x), x, grid=8, in_specs=[s], out_specs=s)


def element_windows(n, x, padding=(0, 0)):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return call(n, kernel, shaped(n, (8,)), x, grid=(2,), in_specs=[spec(n, (pl(n).Element(4, padding),), lambda i: (3 * i,))],
                out_specs=spec(n, (4,), lambda i: (i,)))  # fmt: skip


def transposed_blocks(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    return call(n, kernel, shaped(n, (16, 8)), x, grid=(2, 2), in_specs=[spec(n, (4, 8), lambda i, j: (i, j))],
                out_specs=spec(n, (8, 4), lambda i, j: (j, i)))  # fmt: skip


def outside(n, x):
    """Block 2 of two: the start is moved into range."""
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return call(n, kernel, shaped(n, (12,)), x, grid=(3,), in_specs=[spec(n, (4,), lambda i: (i,))],
                out_specs=spec(n, (4,), lambda i: (i,)))  # fmt: skip


def dynamic_grid(n, x, steps):
    def kernel(x_ref, o_ref):
        o_ref[0] = pl(n).program_id(0)

    return n.jax.jit(lambda x, k: call(n, kernel, shaped(n, (4,), I32), x, grid=(k,), in_specs=[spec(n, (8,), lambda i: (0,))],
                                       out_specs=spec(n, (1,), lambda i: (i,))))(x, steps)  # fmt: skip


def empty_grid(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return call(n, kernel, like(n, x), x, grid=(0,))


def grid_spec(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    s = spec(n, (4,), lambda i: (i,))
    return call(n, kernel, like(n, x), x, grid_spec=pl(n).GridSpec(grid=(2,), in_specs=[s], out_specs=s))


def buffered(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    s = spec(n, (4,), lambda i: (i,), pl(n).Buffered(2))
    return call(n, kernel, like(n, x), x, grid=(2,), in_specs=[s], out_specs=spec(n, (4,), lambda i: (i,)))


# -- revisits, scratch, aliases ---------------------------------------------------------------------------------


def column_sums(n, x):
    def kernel(x_ref, o_ref):
        @pl(n).when(pl(n).program_id(0) == 0)
        def _():
            o_ref[...] = n.jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...].sum(axis=0, keepdims=True)

    return call(n, kernel, shaped(n, (1, 16)), x, grid=(4,), in_specs=[spec(n, (2, 16), lambda i: (i, 0))],
                out_specs=spec(n, (1, 16), lambda i: (0, 0)))  # fmt: skip


def matmul(n, x, y):
    """Tiles, accumulated in scratch along the last axis of the grid."""
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl(n).when(pl(n).program_id(2) == 0)
        def _():
            acc_ref[...] = n.jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...] @ y_ref[...]

        @pl(n).when(pl(n).program_id(2) == pl(n).num_programs(2) - 1)
        def _():
            o_ref[...] = acc_ref[...]

    return call(n, kernel, shaped(n, (x.shape[0], y.shape[1])), x, y, grid=(2, 3, 4),
                in_specs=[spec(n, (4, 4), lambda i, j, k: (i, k)), spec(n, (4, 4), lambda i, j, k: (k, j))],
                out_specs=spec(n, (4, 4), lambda i, j, k: (i, j)), scratch_shapes=[pltpu(n).VMEM((4, 4), F32)])  # fmt: skip


def matmul_of_whole_rows(n, x, y):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = n.jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)

    return call(n, kernel, shaped(n, (8, 12)), x, y, grid=(2, 3), in_specs=[spec(n, (4, 16), lambda i, j: (i, 0)), spec(n, (16, 4), lambda i, j: (0, j))],
                out_specs=spec(n, (4, 4), lambda i, j: (i, j)))  # fmt: skip


def matmul_with_activation(n, x, y, activation):
    def kernel(x_ref, y_ref, o_ref, *, activation):
        o_ref[...] = activation(x_ref[...] @ y_ref[...])

    import functools

    kernel = functools.partial(kernel, activation=getattr(n.nn, activation))
    return call(n, kernel, shaped(n, (8, 12)), x, y)


def counter(n):
    def kernel(o_ref, count):
        @pl(n).when(pl(n).program_id(0) == 0)
        def _():
            count[0] = 0

        o_ref[0] = count[0]
        count[0] += 1

    return call(n, kernel, shaped(n, (4,), I32), grid=(4,), out_specs=spec(n, (1,), lambda i: (i,)), scratch_shapes=[pltpu(n).SMEM((1,), I32)])


def scratch_by_name(n, x):
    def kernel(x_ref, o_ref, *, acc):
        acc[...] = x_ref[...] * 3
        o_ref[...] = acc[...] + 1

    return call(n, kernel, like(n, x), x, scratch_shapes={"acc": pltpu(n).VMEM((8,), F32)})


def aliased(n, x):
    def kernel(x_ref, o_ref):
        o_ref[0] = x_ref[1] * 100

    return call(n, kernel, like(n, x), x, input_output_aliases={0: 0})


def written_input(n, x):
    """A kernel's inputs are its own: later steps see what it wrote, the caller does not."""
    def kernel(x_ref, o_ref):
        x_ref[...] = x_ref[...] + 1
        o_ref[0] = x_ref[0]

    return call(n, kernel, shaped(n, (3,), I32), x, grid=(3,), in_specs=[spec(n, (1,), lambda i: (0,))],
                out_specs=spec(n, (1,), lambda i: (i,))), x  # fmt: skip


# -- accesses ---------------------------------------------------------------------------------------------------


def strided(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[pl(n).ds(0, 4, 2)] + x_ref[1:8:2]

    return call(n, kernel, shaped(n, (4,)), x)


def strided_writes(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = n.jnp.zeros_like(o_ref)
        o_ref[pl(n).ds(0, 4, 2)] = x_ref[4:]
        o_ref[1::2] = x_ref[:4]

    return call(n, kernel, like(n, x), x)


def dynamic_slices(n, x, i):
    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[pl(n).dslice(i_ref[0], 3)]

    return call(n, kernel, shaped(n, (3,)), i, x)


def gathered(n, x, i):
    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[i_ref[...]]

    return call(n, kernel, shaped(n, (3,)), i, x)


def rows_and_columns(n, x):
    def kernel(x_ref, o_ref):
        o_ref[0, :] = x_ref[3, :8]
        o_ref[1, :] = x_ref[:, 5]

    return call(n, kernel, shaped(n, (2, 8)), x)


def views(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref.at[2:6].at[:, pl(n).ds(4, 8)][1:3]
        o_ref.at[1].at[3].set(7.0) if hasattr(o_ref.at[1].at[3], "set") else None

    return call(n, kernel, shaped(n, (2, 8)), x)


def reshaped_view(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref.reshape(2, 4)[1]

    return call(n, kernel, shaped(n, (4,)), x)


def masked(n, x, limit):
    def kernel(limit_ref, x_ref, o_ref):
        mask = n.jnp.arange(8) < limit_ref[0]
        o_ref[...] = n.jnp.zeros_like(o_ref)
        pltpu(n).store(o_ref, x_ref[...] * 2, mask=mask)

    return call(n, kernel, like(n, x), limit, x)


def masked_read(n, x, i):
    def kernel(i_ref, x_ref, o_ref):
        mask = n.jnp.arange(4) != 1
        o_ref[...] = n.jnp.where(mask, pltpu(n).load(x_ref.at[pl(n).ds(i_ref[0], 4)], mask=mask), 0)

    return call(n, kernel, shaped(n, (4,)), i, x)


def outside_read(n, x, i):
    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = pltpu(n).load(x_ref.at[pl(n).ds(i_ref[0], 4)])

    return call(n, kernel, shaped(n, (4,)), i, x)


def outside_write(n, x, i):
    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]
        pltpu(n).store(o_ref.at[pl(n).ds(i_ref[0], 4)], x_ref[:4] + 10)

    return call(n, kernel, like(n, x), i, x)


# -- programs -----------------------------------------------------------------------------------------------------


def softmax(n, x, columns):
    """Rows that are longer than the data: what is beyond counts as minus infinity."""
    def kernel(x_ref, o_ref):
        valid = n.lax.broadcasted_iota(I32, x_ref.shape, 1) < columns
        row = n.jnp.where(valid, x_ref[...], -n.jnp.inf)
        e = n.jnp.exp(row - row.max(axis=1, keepdims=True))
        o_ref[...] = e / e.sum(axis=1, keepdims=True)

    s = spec(n, (2, 16), lambda i: (i, 0))
    return call(n, kernel, like(n, x), x, grid=(4,), in_specs=[s], out_specs=s)


def softmax_of_long_rows(n, x):
    """Two visits of each block: the maximum and the sum first, then the quotients."""
    def kernel(x_ref, o_ref, top, total):
        phase, j = pl(n).program_id(1), pl(n).program_id(2)

        @pl(n).when((phase == 0) & (j == 0))
        def _():
            top[...] = n.jnp.full_like(top, -n.jnp.inf)
            total[...] = n.jnp.zeros_like(total)

        @pl(n).when(phase == 0)
        def _():
            new = n.jnp.maximum(top[...], x_ref[...].max(axis=1, keepdims=True))
            total[...] = total[...] * n.jnp.exp(top[...] - new) + n.jnp.exp(x_ref[...] - new).sum(axis=1, keepdims=True)
            top[...] = new

        @pl(n).when(phase == 1)
        def _():
            o_ref[...] = n.jnp.exp(x_ref[...] - top[...]) / total[...]

    s = spec(n, (4, 4), lambda i, phase, j: (i, j))
    return call(n, kernel, like(n, x), x, grid=(2, 2, 4), in_specs=[s], out_specs=s,
                scratch_shapes=[pltpu(n).VMEM((4, 1), F32), pltpu(n).VMEM((4, 1), F32)])  # fmt: skip


def layer_norm(n, x, scale, shift):
    def kernel(x_ref, scale_ref, shift_ref, o_ref):
        x = x_ref[...]
        mean = x.mean(axis=-1, keepdims=True)
        centered = x - mean
        var = (centered * centered).mean(axis=-1, keepdims=True)
        o_ref[...] = centered * n.lax.rsqrt(var + 1e-5) * scale_ref[...] + shift_ref[...]

    row, whole = spec(n, (2, 16), lambda i: (i, 0)), spec(n, (16,), lambda i: (0,))
    return call(n, kernel, like(n, x), x, scale, shift, grid=(4,), in_specs=[row, whole, whole], out_specs=row)


def attention(n, q, k, v):
    """One pass over blocks of keys, with the running maximum and sum in scratch."""
    def kernel(q_ref, k_ref, v_ref, o_ref, top, total, acc):
        j = pl(n).program_id(1)

        @pl(n).when(j == 0)
        def _():
            top[...] = n.jnp.full_like(top, -n.jnp.inf)
            total[...] = n.jnp.zeros_like(total)
            acc[...] = n.jnp.zeros_like(acc)

        s = q_ref[...] @ k_ref[...].T
        new = n.jnp.maximum(top[...], s.max(axis=1, keepdims=True))
        p, shrink = n.jnp.exp(s - new), n.jnp.exp(top[...] - new)
        total[...] = total[...] * shrink + p.sum(axis=1, keepdims=True)
        acc[...] = acc[...] * shrink + p @ v_ref[...]
        top[...] = new

        @pl(n).when(j == pl(n).num_programs(1) - 1)
        def _():
            o_ref[...] = acc[...] / total[...]

    queries, keys = spec(n, (4, 4), lambda i, j: (i, 0)), spec(n, (4, 4), lambda i, j: (j, 0))
    one = pltpu(n).VMEM((4, 1), F32)
    return call(n, kernel, like(n, q), q, k, v, grid=(2, 4), in_specs=[queries, keys, keys], out_specs=queries,
                scratch_shapes=[one, one, pltpu(n).VMEM((4, 4), F32)])  # fmt: skip


def running_sum(n, x):
    def kernel(x_ref, o_ref, carry):
        @pl(n).when(pl(n).program_id(0) == 0)
        def _():
            carry[0] = 0.0

        sums = n.jnp.cumsum(x_ref[...]) + carry[0]
        o_ref[...] = sums
        carry[0] = sums[-1]

    s = spec(n, (2,), lambda i: (i,))
    return call(n, kernel, like(n, x), x, grid=(4,), in_specs=[s], out_specs=s, scratch_shapes=[pltpu(n).SMEM((1,), F32)])


def histogram(n, x):
    def kernel(x_ref, o_ref):
        @pl(n).when(pl(n).program_id(0) == 0)
        def _():
            o_ref[...] = n.jnp.zeros_like(o_ref)

        @pl(n).loop(0, 4)
        def _(i):
            o_ref[x_ref[i] % 3] += 1

    return call(n, kernel, shaped(n, (3,), I32), abs(x), grid=(2,), in_specs=[spec(n, (4,), lambda i: (i,))],
                out_specs=spec(n, (3,), lambda i: (0,)))  # fmt: skip


# -- control flow -------------------------------------------------------------------------------------------------


def when_never(n):
    def kernel(o_ref):
        @pl(n).when(pl(n).program_id(0) == 1)
        def _():
            o_ref[0] = 5

    return call(n, kernel, shaped(n, (2,), I32), grid=(2,), out_specs=spec(n, (1,), lambda i: (i,)))


def fori(n, x):
    def kernel(x_ref, o_ref):
        def body(i, total):
            o_ref[i] = x_ref[i] * 2 + total
            return total + x_ref[i]

        o_ref[0] = n.lax.fori_loop(0, 8, body, 0.0)

    return call(n, kernel, like(n, x), x)


def whiles(n, x):
    def kernel(x_ref, o_ref):
        def body(s):
            i, total = s
            o_ref[i] = total
            return i + 1, total + x_ref[i]

        o_ref[...] = n.jnp.zeros_like(o_ref)
        n.lax.while_loop(lambda s: (s[0] < 8) & (s[1] < 1.0), body, (0, 0.0))

    return call(n, kernel, like(n, x), x)


def scans(n, x):
    def kernel(x_ref, o_ref):
        def body(total, i):
            o_ref[i] = total
            return total + x_ref[i], None

        n.lax.scan(body, 0.0, n.jnp.arange(8))

    return call(n, kernel, like(n, x), x)


def loops(n, x, **options):
    def kernel(x_ref, o_ref):
        o_ref[...] = n.jnp.zeros_like(o_ref)

        @pl(n).loop(1, 7, **options)
        def _(i):
            o_ref[i] = x_ref[i] + i

    return call(n, kernel, like(n, x), x)


def loop_with_carry(n, x):
    def kernel(x_ref, o_ref):
        @pl(n).loop(0, 8, step=3, init_carry=(0.0, 1))
        def last(i, carry):
            total, count = carry
            return total + x_ref[i], count * 2

        o_ref[0], o_ref[1] = last[0], last[1].astype(F32)

    return call(n, kernel, shaped(n, (2,)), x)


def loop_to_a_value(n, x, last):
    def kernel(last_ref, x_ref, o_ref):
        o_ref[...] = n.jnp.zeros_like(o_ref)

        @pl(n).loop(0, last_ref[0], step=2)
        def _(i):
            o_ref[i] = x_ref[i]

    return call(n, kernel, like(n, x), last, x)


def branches(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = n.lax.switch(pl(n).program_id(0), [lambda: x_ref[...], lambda: -x_ref[...], lambda: x_ref[...] * 10])

    s = spec(n, (2,), lambda i: (i,))
    return call(n, kernel, like(n, x), x, grid=(4,), in_specs=[s], out_specs=s)


def inner_jit(n, x):
    @n.jax.jit
    def twice(ref):
        return ref[...] * 2

    def kernel(x_ref, o_ref):
        o_ref[...] = twice(x_ref) + n.jax.jit(lambda v: v + 1)(x_ref[...])

    return call(n, kernel, like(n, x), x)


def nested(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = blocks(n, x_ref[...])

    return call(n, kernel, like(n, x), x)


# -- prefetch -------------------------------------------------------------------------------------------------------


def prefetched_order(n, order, x):
    def kernel(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * (order_ref[pl(n).program_id(0)] + 1)

    grid = pltpu(n).PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(2,), in_specs=[spec(n, (4,), lambda i, order: (order[i],))],
                                           out_specs=spec(n, (4,), lambda i, order: (i,)))  # fmt: skip
    return call(n, kernel, like(n, x), order, x, grid_spec=grid)


def scattered_blocks(n, order, x):
    """The prefetched order says where blocks go; the rest stays as the aliased array."""
    def kernel(order_ref, x_ref, base_ref, o_ref):
        o_ref[...] = x_ref[...]

    grid = pltpu(n).PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(2,),
        in_specs=[spec(n, (2,), lambda i, order: (i,)), spec(n, (2,), lambda i, order: (order[i],))],
        out_specs=spec(n, (2,), lambda i, order: (order[i],)))  # fmt: skip
    return call(n, kernel, shaped(n, (8,)), order, x[:4], n.jnp.zeros(8), grid_spec=grid, input_output_aliases={2: 0})


# -- scopes, semaphores, copies -----------------------------------------------------------------------------------


def scoped(n, x):
    def kernel(x_ref, o_ref):
        def body(tmp):
            tmp[...] = x_ref[...] + 1
            o_ref[...] = tmp[...] * 2
            return tmp[0]

        o_ref[0] = pl(n).run_scoped(body, pltpu(n).VMEM((8,), F32))

    return call(n, kernel, like(n, x), x)


def scoped_uninitialized(n):
    def kernel(o_ref):
        o_ref[...] = pl(n).run_scoped(lambda *, tmp: tmp[...], tmp=pltpu(n).VMEM((3,), F32))

    return call(n, kernel, shaped(n, (3,)))


def with_scoped(n, x):
    def kernel(x_ref, o_ref):
        @pl(n).with_scoped(pltpu(n).VMEM((8,), F32))
        def body(scale, tmp):
            tmp[...] = x_ref[...] * scale
            o_ref[...] = tmp[...]

        body(3.0)

    return call(n, kernel, like(n, x), x)


def semaphores(n):
    def kernel(o_ref, sem):
        pl(n).semaphore_signal(sem, 2)
        pl(n).semaphore_wait(sem, 1)
        o_ref[0] = pl(n).semaphore_read(sem)
        pl(n).semaphore_wait(sem, 1, decrement=False)
        o_ref[1] = pl(n).semaphore_read(sem)

    return call(n, kernel, shaped(n, (2,), I32), scratch_shapes=[pltpu(n).SemaphoreType.REGULAR])


def array_of_semaphores(n):
    def kernel(o_ref, sems):
        pl(n).semaphore_signal(sems.at[1], 3)
        pl(n).semaphore_wait(sems.at[1])
        o_ref[0] = pl(n).semaphore_read(sems.at[0])
        o_ref[1] = pl(n).semaphore_read(sems.at[1])

    return call(n, kernel, shaped(n, (2,), I32), scratch_shapes=[pltpu(n).SemaphoreType.REGULAR((2,))])


def copies(n, x):
    def kernel(x_ref, o_ref, count_ref, sem):
        copy = pltpu(n).make_async_copy(x_ref.at[2:4], o_ref.at[0:2], sem)
        copy.start()
        count_ref[0] = pl(n).semaphore_read(sem)
        copy.wait()
        count_ref[1] = pl(n).semaphore_read(sem)
        pltpu(n).async_copy(x_ref.at[0:4], o_ref.at[2:6], sem).wait()
        pltpu(n).sync_copy(x_ref.at[4:6], o_ref.at[6:8])

    anywhere = spec(n, memory_space=pl(n).ANY)
    return call(n, kernel, [like(n, x), shaped(n, (2,), I32)], x, in_specs=[anywhere],
                out_specs=[anywhere, spec(n, (2,), lambda: (0,))], scratch_shapes=[pltpu(n).SemaphoreType.DMA])  # fmt: skip


def double_buffered(n, x):
    """Two slots: the next block is on its way while this one is used."""
    def kernel(x_ref, o_ref, slots, sems):
        def copy(i):
            return pltpu(n).make_async_copy(x_ref.at[pl(n).ds(i * 2, 2)], slots.at[i % 2], sems.at[i % 2])

        copy(0).start()
        o_ref[...] = n.jnp.zeros_like(o_ref)
        for i in range(4):
            if i < 3:
                copy(i + 1).start()
            copy(i).wait()
            o_ref[...] += slots[i % 2]

    return call(n, kernel, shaped(n, (2,)), x, in_specs=[spec(n, memory_space=pl(n).ANY)],
                scratch_shapes=[pltpu(n).VMEM((2, 2), F32), pltpu(n).SemaphoreType.DMA((2,))])  # fmt: skip


def double_buffered_loop(n, x):
    """The same in a loop: slots and semaphores are chosen by values."""
    def kernel(x_ref, o_ref, slots, sems):
        def copy(i):
            slot = n.lax.rem(i, 2)
            return pltpu(n).make_async_copy(x_ref.at[pl(n).ds(i * 2, 2)], slots.at[slot], sems.at[slot])

        copy(0).start()
        o_ref[...] = n.jnp.zeros_like(o_ref)

        def step(i, total):
            @pl(n).when(i < 3)
            def _():
                copy(i + 1).start()

            copy(i).wait()
            return total + slots[n.lax.rem(i, 2)] * (i + 1)

        o_ref[...] = n.lax.fori_loop(0, 4, step, n.jnp.zeros(2))

    return call(n, kernel, shaped(n, (2,)), x, in_specs=[spec(n, memory_space=pl(n).ANY)],
                scratch_shapes=[pltpu(n).VMEM((2, 2), F32), pltpu(n).SemaphoreType.DMA((2,))])  # fmt: skip


def block_sparse_matmul(n, where, x, y):
    """Only the blocks that are not zero are stored; the prefetched table says which columns they are from."""
    def kernel(where_ref, x_ref, y_ref, o_ref):
        @pl(n).when(pl(n).program_id(1) == 0)
        def _():
            o_ref[...] = n.jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] @ y_ref[...]

    grid = pltpu(n).PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2, 2),
        in_specs=[spec(n, (None, None, 4, 4), lambda i, k, where: (i, k, 0, 0)),
                  spec(n, (4, 8), lambda i, k, where: (where[i, k], 0))],
        out_specs=spec(n, (4, 8), lambda i, k, where: (i, 0)))  # fmt: skip
    return call(n, kernel, shaped(n, (8, 8)), where, x, y, grid_spec=grid)


def one_core(n, x):
    def kernel(x_ref, o_ref, tmp):
        tmp[...] = x_ref[...] * 2
        o_ref[...] = tmp[...] + 1

    mesh = pltpu(n).create_tensorcore_mesh("core", num_cores=1)
    return pl(n).kernel(kernel, like(n, x), mesh=mesh, scratch_types=[pltpu(n).VMEM((8,), F32)], interpret=True)(x)


def state(n, x):
    def body(refs):
        a, b = refs
        a[0] = b[1] * 2
        b[...] += a[0]

    return pl(n).run_state(body)((x, n.jnp.ones_like(x)))


# -- helpers ------------------------------------------------------------------------------------------------------


def helpers(n, x):
    def kernel(x_ref, o_ref):
        y = pl(n).reciprocal(n.jnp.abs(x_ref[...]) + 1)
        i = pl(n).multiple_of(pl(n).program_id(0) * 4, 4)
        o_ref[...] = pl(n).broadcast_to(y[pl(n).next_power_of_2(3) :], (4,)) + i

    s = spec(n, (8,), lambda i: (0,))
    return call(n, kernel, shaped(n, (8,)), x, grid=(2,), in_specs=[s], out_specs=spec(n, (4,), lambda i: (i,)))


def sizes(n):
    p = pl(n)
    return (p.cdiv(7, 2), p.cdiv(-8, 2), p.align_to(130, 128), p.next_power_of_2(0), p.next_power_of_2(9),
            p.strides_from_shape((2, 3, 4)), p.strides_from_shape(()), p.cdiv(n.jnp.int32(9), 4), p.align_to(n.jnp.int32(9), 4))  # fmt: skip


def rolled(n, x, **options):
    return call(n, lambda x_ref, o_ref: o_ref.__setitem__(..., pltpu(n).roll(x_ref[...], **options)), like(n, x), x)


def bits(n, x, dtype, shape):
    return call(n, lambda x_ref, o_ref: o_ref.__setitem__(..., pltpu(n).bitcast(x_ref[...], np.dtype(dtype))), shaped(n, shape, np.dtype(dtype)), x)


# -- transformations ----------------------------------------------------------------------------------------------


def in_scan(n, x):
    return n.lax.scan(lambda c, row: (c + 1, blocks(n, row) + c), 0.0, n.jnp.stack([x, x * 2, x * 3]))


def in_cond(n, x):
    return n.lax.cond(x[0] > 0, lambda: blocks(n, x), lambda: sine(n, x))


def vmapped(n, x, dim):
    return n.jax.vmap(lambda v: blocks(n, v), in_axes=dim, out_axes=dim)(n.jnp.stack([x, x + 1, x + 2], dim))


def vmapped_twice(n, x):
    return n.jax.vmap(n.jax.vmap(lambda v: sine(n, v)))(x.reshape(2, 2, 2))


def vmapped_in_part(n, x, y):
    return n.jax.vmap(lambda a, b: vector_add(n, a, b), in_axes=(0, None))(n.jnp.stack([x, x]), y)


def vmapped_of_one(n, x):
    return n.jax.vmap(lambda v: blocks(n, v))(x[None])


def vmapped_ids(n, x):
    def kernel(x_ref, o_ref):
        o_ref[0] = x_ref[0] + 10 * pl(n).program_id(0) + pl(n).num_programs(0)

    def f(v):
        s = spec(n, (1,), lambda i: (i,))
        return call(n, kernel, like(n, v), v, grid=(8,), in_specs=[s], out_specs=s)

    return n.jax.vmap(f)(n.jnp.stack([x, -x]))


def custom_gradient(n, x):
    @n.jax.custom_vjp
    def f(x):
        return sine(n, x)

    f.defvjp(lambda x: (sine(n, x), x), lambda x, ct: (ct * n.jnp.cos(x),))
    return n.jax.value_and_grad(lambda x: f(x).sum())(x)


def sharded(n, x):
    mesh = n.jax.make_mesh((4,), ("i",), axis_types=(n.jax.sharding.AxisType.Auto,))
    spec_ = n.jax.sharding.PartitionSpec("i")
    return n.jax.jit(n.jax.shard_map(lambda v: sine(n, v), mesh=mesh, in_specs=spec_, out_specs=spec_, check_vma=False))(x)


# -- errors ---------------------------------------------------------------------------------------------------------


def kernel_of(f):
    """A call of a kernel `f(n, x_ref, o_ref)` on an array of eight."""
    return lambda n, x: call(n, lambda x_ref, o_ref: f(n, x_ref, o_ref), like(n, x), x)


def captured(n, x):
    return call(n, lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + n.jnp.asarray(x)), like(n, x), x)


def with_scratch(f, *kinds):
    return lambda n, x: call(n, lambda x_ref, o_ref, *s: f(n, x_ref, o_ref, *s), like(n, x), x, scratch_shapes=[k(n) for k in kinds])


def copy(n, src, dst, sem):
    pltpu(n).make_async_copy(src, dst, sem).wait()


def REGULAR(n):
    return pltpu(n).SemaphoreType.REGULAR


def DMA(n):
    return pltpu(n).SemaphoreType.DMA


def PAIR(n):
    return pltpu(n).SemaphoreType.REGULAR((2,))


def identity(n, x, **options):
    return call(n, lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), like(n, x), x, **options)


WRONG = {
    "not_interpreted": (lambda n, x: pl(n).pallas_call(lambda a, b: None, out_shape=like(n, x))(x), "ValueError"),
    "returns": (kernel_of(lambda n, x, o: x[...]), "ValueError"),
    "captures": (captured, "ValueError"),
    "broadcasts": (kernel_of(lambda n, x, o: o.__setitem__(..., 1.0)), "ValueError"),
    "another_shape": (kernel_of(lambda n, x, o: o.__setitem__(slice(0, 4), x[...])), "ValueError"),
    "another_dtype": (kernel_of(lambda n, x, o: o.__setitem__(..., x[...].astype(I32))), "ValueError"),
    "ref_into_ref": (kernel_of(lambda n, x, o: o.__setitem__(..., x)), "ValueError"),
    "slice_outside": (kernel_of(lambda n, x, o: o.__setitem__(pl(n).ds(6, 4), x[:4])), "ValueError"),
    "too_many_indices": (kernel_of(lambda n, x, o: o.__setitem__((0, 0), x[0])), "ValueError"),
    "two_dots": (kernel_of(lambda n, x, o: o.__setitem__(..., x[..., ...])), "ValueError"),
    "backwards": (kernel_of(lambda n, x, o: o.__setitem__(..., x[::-1])), "ValueError"),
    "mask_shape": (kernel_of(lambda n, x, o: pltpu(n).load(x, mask=np.ones(3, bool))), "ValueError"),
    "stored_scalar": (kernel_of(lambda n, x, o: pltpu(n).store(o, np.float32(1), mask=x[...] > 0)), "ValueError"),
    "branch_returns": (kernel_of(lambda n, x, o: pl(n).when(x[0] > 0)(lambda: 3)), "TypeError"),
    "branch_of_array": (kernel_of(lambda n, x, o: pl(n).when(x[...] > 0)(lambda: None)), "TypeError"),
    "loop_returns": (kernel_of(lambda n, x, o: pl(n).loop(0, 3)(lambda i: i)), "TypeError"),
    "loop_without_carry": (kernel_of(lambda n, x, o: pl(n).loop(0, 3, init_carry=1)(lambda i, c: None)), "TypeError"),
    "loop_of_floats": (kernel_of(lambda n, x, o: pl(n).loop(0.0, 3)(lambda i: None)), "TypeError"),
    "loop_unrolled_to_a_value": (kernel_of(lambda n, x, o: pl(n).loop(0, x[0].astype(I32), unroll=2)(lambda i: None)), "ValueError"),
    "axis_outside": (kernel_of(lambda n, x, o: pl(n).program_id(0)), "ValueError"),
    "signal_of_no_semaphore": (kernel_of(lambda n, x, o: pl(n).semaphore_signal(o.at[0])), "ValueError"),
    "signal_of_two": (with_scratch(lambda n, x, o, s: pl(n).semaphore_signal(s), PAIR), "ValueError"),
    "wait_for_two": (with_scratch(lambda n, x, o, s: pl(n).semaphore_wait(s), PAIR), "ValueError"),
    "read_two": (with_scratch(lambda n, x, o, s: o.__setitem__(0, pl(n).semaphore_read(s)), PAIR), "ValueError"),
    "signal_of_a_device": (with_scratch(lambda n, x, o, s: pl(n).semaphore_signal(s, device_id=0), REGULAR), "NotImplementedError"),
    "signal_of_a_core": (with_scratch(lambda n, x, o, s: pl(n).semaphore_signal(s, core_index=1), REGULAR), "NotImplementedError"),
    "copy_with_regular": (with_scratch(lambda n, x, o, s: copy(n, x, o, s), REGULAR), "ValueError"),
    "block_rank": (lambda n, x: identity(n, x, grid=2, in_specs=[spec(n, (4, 4), lambda i: (i, 0))]), "ValueError"),
    "index_map_arity": (lambda n, x: identity(n, x, grid=2, in_specs=[spec(n, (4,), lambda i: (i, 0))]), "ValueError"),
    "index_map_float": (lambda n, x: identity(n, x, grid=2, in_specs=[spec(n, (4,), lambda i: (i * 1.5,))]), "ValueError"),
    "specs_missing": (lambda n, x: identity(n, x, in_specs=[]), "ValueError"),
    "grid_of_float": (lambda n, x: identity(n, x, grid=(2.0,)), "ValueError"),
    "grid_twice": (lambda n, x: identity(n, x, grid=(2,), grid_spec=pl(n).GridSpec(grid=(2,))), "ValueError"),
    "alias_range": (lambda n, x: identity(n, x, input_output_aliases={1: 0}), "ValueError"),
    "alias_type": (lambda n, x: call(n, lambda a, b: None, shaped(n, (4,)), x, input_output_aliases={0: 0}), "ValueError"),
    "output_of_nothing": (lambda n, x: call(n, lambda a, b: None, 3, x), "ValueError"),
    "power_of_negative": (lambda n, x: pl(n).next_power_of_2(-1), "ValueError"),
    "broadcast": (lambda n, x: pl(n).broadcast_to(x, (3,)), "ValueError"),
    "constraint_eagerly": (lambda n, x: pltpu(n).with_memory_space_constraint(n.jnp.asarray(x), pltpu(n).VMEM), "ValueError"),
    "rolled_back": (lambda n, x: rolled(n, x, shift=-1, axis=0), "ValueError"),
    "jvp_of_aliases": (lambda n, x: n.jax.jvp(lambda x: aliased(n, x), (x,), (x,)), "NotImplementedError"),
}  # fmt: skip


SAMPLES = [
    Sample("vector_add", vector_add, [X, X * 2], SMOOTH),
    Sample("sine", sine, [X], ("eager", "jit", "vmap", "jvp", "vmap.vmap", "jvp.vmap")),
    Sample("two_outputs", two_outputs, [X], SMOOTH),
    Sample("tree_of_outputs", tree_of_outputs, [X], EACH),
    Sample("tree_of_inputs", tree_of_inputs, [X, X * 2], SMOOTH),
    *(Sample(f"nothing_written_{d}", lambda n, d=d: nothing_written(n, d), [], VALUE) for d in ("float32", "bool", "int32", "int16", "uint8", "float16")),
    Sample("half", half, [X], EACH),
    Sample("program_ids", program_ids, [], VALUE),
    Sample("order_of_steps", order_of_steps, [], VALUE),
    Sample("blocks", blocks, [X], SMOOTH),
    Sample("blocks_padded", lambda n, x: blocks(n, x, 3), [X], VALUE),
    Sample("uninitialized_per_block", uninitialized_per_block, [floats(10)], VALUE),
    Sample("least_of_blocks", least_of_blocks, [ints(10)], VALUE),
    Sample("squeezed_rows", squeezed_rows, [M], EACH),
    Sample("squeezed_rows_by_name", lambda n, x: squeezed_rows(n, x, "squeezed"), [M], VALUE),
    Sample("element_windows", element_windows, [floats(10)], VALUE),
    Sample("element_windows_padded", lambda n, x: element_windows(n, x, (1, 1)), [floats(10)], VALUE),
    Sample("transposed_blocks", transposed_blocks, [M], SMOOTH),
    Sample("outside", outside, [X], VALUE),
    Sample("dynamic_grid", dynamic_grid, [X, np.int32(2)], VALUE),
    Sample("empty_grid", empty_grid, [X], EACH),
    Sample("grid_spec", grid_spec, [X], EACH),
    Sample("buffered", buffered, [X], VALUE),
    Sample("column_sums", column_sums, [M], EACH),
    Sample("matmul", matmul, [floats(8, 16), floats(16, 12)], EACH),
    Sample("matmul_of_whole_rows", matmul_of_whole_rows, [floats(8, 16), floats(16, 12)], SMOOTH),
    *(Sample(f"matmul_with_{f}", lambda n, x, y, f=f: matmul_with_activation(n, x, y, f), [floats(8, 16), floats(16, 12)], VALUE) for f in ("relu", "gelu")),
    Sample("counter", counter, [], VALUE),
    Sample("scratch_by_name", scratch_by_name, [X], EACH),
    Sample("aliased", aliased, [X], EACH),
    Sample("written_input", written_input, [ints(1)], VALUE),
    Sample("strided", strided, [X], SMOOTH),
    Sample("strided_writes", strided_writes, [X], SMOOTH),
    Sample("dynamic_slices", dynamic_slices, [X, np.array([3], np.int32)], VALUE),
    Sample("dynamic_slices_outside", dynamic_slices, [X, np.array([7], np.int32)], VALUE),
    Sample("gathered", gathered, [X, np.array([1, 5, 2], np.int32)], VALUE),
    Sample("rows_and_columns", rows_and_columns, [M], SMOOTH),
    Sample("views", views, [M], EACH),
    Sample("reshaped_view", reshaped_view, [X], EACH),
    Sample("masked", masked, [X, np.array([5], np.int32)], EACH),
    *(Sample(f"masked_read_{i}", masked_read, [X, np.array([i], np.int32)], VALUE) for i in (0, 3, 6, 9)),
    *(Sample(f"outside_read_{i}", outside_read, [X, np.array([i], np.int32)], VALUE) for i in (4, 5, 8, 20)),
    *(Sample(f"outside_write_{i}", outside_write, [X, np.array([i], np.int32)], VALUE) for i in (4, 5, 8, 20)),
    Sample("softmax", lambda n, x: softmax(n, x, 13), [M], SMOOTH),
    Sample("softmax_of_long_rows", softmax_of_long_rows, [M], ("eager", "jit", "vmap")),
    Sample("layer_norm", layer_norm, [M, floats(16), floats(16)], SMOOTH),
    Sample("attention", attention, [floats(8, 4), floats(16, 4), floats(16, 4)], EACH),
    Sample("running_sum", running_sum, [X], EACH),
    Sample("histogram", histogram, [N], EACH),
    Sample("when_never", when_never, [], VALUE),
    Sample("fori", fori, [X], SMOOTH),
    Sample("whiles", whiles, [np.abs(X)], EACH),
    Sample("scans", scans, [X], SMOOTH),
    Sample("loops", lambda n, x: loops(n, x), [X], EACH),
    Sample("loops_with_step", lambda n, x: loops(n, x, step=2), [X], VALUE),
    Sample("loops_unrolled", lambda n, x: loops(n, x, unroll=2), [X], VALUE),
    Sample("loops_unrolled_with_step", lambda n, x: loops(n, x, step=3, unroll=True), [X], VALUE),
    Sample("loop_with_carry", loop_with_carry, [X], EACH),
    Sample("loop_to_a_value", loop_to_a_value, [X, np.array([7], np.int32)], VALUE),
    Sample("branches", branches, [X], EACH),
    Sample("inner_jit", inner_jit, [X], SMOOTH),
    Sample("nested", nested, [X], EACH),
    Sample("prefetched_order", prefetched_order, [np.array([1, 0], np.int32), X], EACH),
    Sample("scattered_blocks", scattered_blocks, [np.array([3, 1], np.int32), X], VALUE),
    Sample("scoped", scoped, [X], EACH),
    Sample("scoped_uninitialized", scoped_uninitialized, [], VALUE),
    Sample("with_scoped", with_scoped, [X], EACH),
    Sample("semaphores", semaphores, [], VALUE),
    Sample("array_of_semaphores", array_of_semaphores, [], VALUE),
    Sample("copies", copies, [X], EACH),
    Sample("double_buffered", double_buffered, [X], EACH),
    Sample("double_buffered_loop", double_buffered_loop, [X], VALUE),
    Sample("block_sparse_matmul", block_sparse_matmul, [np.array([[0, 3], [1, 2]], np.int32), floats(2, 2, 4, 4), floats(16, 8)], VALUE),
    Sample("one_core", one_core, [X], VALUE),
    Sample("state", state, [X], VALUE),
    Sample("helpers", helpers, [X], EACH),
    Sample("sizes", sizes, [], ("eager",)),
    Sample("rolled", lambda n, x: rolled(n, x, shift=3, axis=1), [M], VALUE),
    Sample("rolled_with_stride", lambda n, x: rolled(n, x, shift=1, axis=1, stride=2, stride_axis=0), [M], VALUE),
    Sample("rolled_rows_with_stride", lambda n, x: rolled(n, x, shift=5, axis=0, stride=1, stride_axis=1), [M], VALUE),
    *(Sample(f"bits_{d}", lambda n, x, d=d, s=s: bits(n, x, d, s), [M], VALUE) for d, s in (("int32", (8, 16)), ("int16", (16, 16)), ("int8", (32, 16)))),
    Sample("bits_wider", lambda n, x: bits(n, x.astype(np.int16), "int32", (4, 16)), [ints(8, 16)], VALUE),
    Sample("in_scan", in_scan, [X], EACH),
    Sample("in_cond", in_cond, [X], VALUE),
    *(Sample(f"vmapped_{d}", lambda n, x, d=d: vmapped(n, x, d), [X], VALUE) for d in (0, 1)),
    Sample("vmapped_twice", vmapped_twice, [X], VALUE),
    Sample("vmapped_in_part", vmapped_in_part, [X, X * 2], VALUE),
    Sample("vmapped_of_one", vmapped_of_one, [X], VALUE),
    Sample("vmapped_ids", vmapped_ids, [X], VALUE),
    Sample("custom_gradient", custom_gradient, [X], VALUE),
    Sample("sharded", sharded, [X], ("eager",)),
    *(Sample(f"wrong_{name}", fun, [X], ("eager",), error=error) for name, (fun, error) in WRONG.items()),
]  # fmt: skip
