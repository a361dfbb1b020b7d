"""Whole programs with kernels, as people of the field write them; both sides run them in interpretation and numbers are compared."""

from __future__ import annotations

import functools
from importlib import import_module

import numpy as np

from tests.reference.data import floats, ints
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
PROGRAMS = []


def program(*args, tol=1e-5):
    """Adds a function of the namespaces, `pl`, `pltpu` and these arguments to the table."""
    def add(fun):
        def run(n, *args):
            pl = import_module(f"{n.name}.experimental.pallas")
            return fun(n, pl, import_module(f"{pl.__name__}.tpu"), *args)
        PROGRAMS.append(Sample(fun.__name__, run, list(args), ("eager", "jit"), tol=tol))
        return fun
    return add


def struct(n, shape, dtype="float32"):
    return n.jax.ShapeDtypeStruct(shape, n.jnp.dtype(dtype))


@program(floats(16, 24), floats(24, 32), floats(32))
def linear_layer_in_bfloat16(n, pl, pltpu, x, w, b):
    jnp = n.jnp

    def kernel(x_ref, w_ref, b_ref, o_ref, acc_ref, *, steps, activation):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == steps - 1)
        def _():
            o_ref[...] = activation(acc_ref[...] + b_ref[...]).astype(o_ref.dtype)

    @functools.partial(n.jax.jit, static_argnames=("tile",))
    def linear(x, w, b, *, tile):
        (m, k), (_, p) = x.shape, w.shape
        return pl.pallas_call(
            functools.partial(kernel, steps=k // tile, activation=n.nn.relu),
            out_shape=n.jax.ShapeDtypeStruct((m, p), x.dtype),
            grid=(m // tile, p // tile, k // tile),
            in_specs=[
                pl.BlockSpec((tile, tile), lambda i, j, k: (i, k)),
                pl.BlockSpec((tile, tile), lambda i, j, k: (k, j)),
                pl.BlockSpec((1, tile), lambda i, j, k: (0, j)),
            ],
            out_specs=pl.BlockSpec((tile, tile), lambda i, j, k: (i, j)),
            scratch_shapes=[pltpu.VMEM((tile, tile), jnp.float32)],
            compiler_params=pltpu.CompilerParams(
                dimension_semantics=("parallel", "parallel", "arbitrary")),
            cost_estimate=pl.CostEstimate(flops=2 * m * k * p, transcendentals=0, bytes_accessed=4 * m * k),
            interpret=True,
        )(x, w, b[None])
    x, w = (a.astype(jnp.bfloat16) for a in (x, w))
    return linear(x, w, b, tile=8).astype(jnp.float32)


@program(floats(2, 16, 8), floats(2, 16, 8), floats(2, 16, 8))
def attention_with_a_rule_of_its_own(n, pl, pltpu, q, k, v):
    jnp, lax = n.jnp, n.lax

    def kernel(q_ref, k_ref, v_ref, o_ref, lse_ref, *, block):
        q = q_ref[...]

        def body(j, carry):
            top, total, acc = carry
            keys = pl.ds(j * block, block)
            s = q @ k_ref[keys, :].T
            new = jnp.maximum(top, s.max(axis=-1))
            p, old = jnp.exp(s - new[:, None]), jnp.exp(top - new)
            return new, total * old + p.sum(axis=-1), acc * old[:, None] + p @ v_ref[keys, :]
        rows, d = q.shape
        init = jnp.full(rows, -jnp.inf), jnp.zeros(rows), jnp.zeros((rows, d))
        top, total, acc = lax.fori_loop(0, k_ref.shape[0] // block, body, init)
        o_ref[...] = acc / total[:, None]
        lse_ref[...] = top + jnp.log(total)

    def forward(q, k, v):
        length, d = q.shape
        rows = pl.BlockSpec((4, d), lambda i: (i, 0))
        whole = pl.BlockSpec((length, d), lambda i: (0, 0))
        return pl.pallas_call(
            functools.partial(kernel, block=8),
            out_shape=[struct(n, (length, d)), struct(n, (length,))],
            grid=(pl.cdiv(length, 4),),
            in_specs=[rows, whole, whole],
            out_specs=[rows, pl.BlockSpec((4,), lambda i: (i,))],
            interpret=True,
        )(q, k, v)

    @n.jax.custom_vjp
    def attend(q, k, v):
        return forward(q, k, v)[0]

    def fwd(q, k, v):
        out, lse = forward(q, k, v)
        return out, (q, k, v, out, lse)

    def bwd(saved, ct):
        q, k, v, out, lse = saved
        p = jnp.exp(q @ k.T - lse[:, None])
        ds = p * (ct @ v.T - jnp.sum(ct * out, axis=1, keepdims=True))
        return ds @ k, ds.T @ q, p.T @ ct
    attend.defvjp(fwd, bwd)
    return n.jax.vmap(attend)(q, k, v), n.jax.grad(
        lambda *a: jnp.sum(attend(*a) ** 2), argnums=(0, 1, 2))(q[0], k[0], v[0])


@program(floats(12, 16), floats(16))
def rms_norm_of_batches(n, pl, pltpu, x, scale):
    jnp = n.jnp

    def kernel(x_ref, scale_ref, o_ref, *, eps):
        x = x_ref[:]
        o_ref[:] = x * n.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * scale_ref[:]

    norm = pl.pallas_call(
        functools.partial(kernel, eps=1e-6),
        out_shape=struct(n, (4, 16)),
        grid=2,
        in_specs=[pl.BlockSpec((2, 16), lambda i: (i, 0)), pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_specs=pl.BlockSpec((2, 16), lambda i: (i, 0)),
        interpret=True,
    )
    return n.jax.vmap(norm, in_axes=(0, None))(x.reshape(3, 4, 16), scale)


@program(floats(8, 16), floats(16, 8), np.array([[0, 1], [1, 2], [3, 0]], np.int32))
def block_sparse_product(n, pl, pltpu, x, w, blocks):
    jnp = n.jnp

    def kernel(rows_ref, columns_ref, x_ref, w_ref, _, o_ref):
        o_ref[...] += jnp.dot(x_ref[...], w_ref[...])

    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(blocks.shape[0],),
        in_specs=[
            pl.BlockSpec((2, 8), lambda b, rows, columns: (rows[b], 0)),
            pl.BlockSpec((8, 4), lambda b, rows, columns: (0, columns[b] % 2)),
            pl.BlockSpec((2, 4), lambda b, rows, columns: (rows[b], columns[b] % 2)),
        ],
        out_specs=pl.BlockSpec((2, 4), lambda b, rows, columns: (rows[b], columns[b] % 2)),
    )
    return pl.pallas_call(
        kernel, out_shape=struct(n, (8, 8)), grid_spec=grid_spec, input_output_aliases={4: 0}, interpret=True,
    )(blocks[:, 0], blocks[:, 1], x, w, jnp.zeros((8, 8)))


@program(floats(16, 4))
def copies_into_two_slots(n, pl, pltpu, x):
    def kernel(x_hbm, o_hbm, slots, sems):
        def fetch(i):
            slot = i % 2
            return pltpu.make_async_copy(x_hbm.at[pl.ds(4 * i, 4)], slots.at[slot], sems.at[slot])

        fetch(0).start()

        def body(i, _):
            @pl.when(i + 1 < 4)
            def _():
                fetch(i + 1).start()

            fetch(i).wait()
            o_hbm[pl.ds(4 * i, 4), :] = slots[i % 2] * 2 + 1
            return ()
        n.lax.fori_loop(0, 4, body, ())

    return pl.pallas_call(
        kernel,
        out_shape=struct(n, (16, 4)),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
        scratch_shapes=[pltpu.VMEM((2, 4, 4), n.jnp.float32), pltpu.SemaphoreType.DMA((2,))],
        interpret=True,
    )(x)


@program(floats(20), floats(5))
def convolution_with_a_halo(n, pl, pltpu, x, w):
    def kernel(x_ref, w_ref, o_ref):
        acc = n.jnp.zeros(o_ref.shape, o_ref.dtype)
        for k in range(5):
            acc += w_ref[k] * x_ref[k : k + 8]
        o_ref[...] = acc

    return pl.pallas_call(
        kernel,
        out_shape=struct(n, (16,)),
        grid=(2,),
        in_specs=[pl.BlockSpec((pl.Element(12),), lambda i: (8 * i,)), pl.BlockSpec(memory_space=pltpu.SMEM)],
        out_specs=pl.BlockSpec((8,), lambda i: (i,)),
        interpret=True,
    )(x, w)


@program(floats(6, 10), ints(6) % 10)
def cross_entropy_and_its_slope(n, pl, pltpu, logits, labels):
    jnp = n.jnp

    def loss_kernel(x_ref, y_ref, o_ref):
        x, y = x_ref[...], y_ref[0]
        e = jnp.exp(x - x.max())
        o_ref[0] = jnp.log(e.sum()) + x.max() - jnp.sum(jnp.where(jnp.arange(10) == y, x, 0.0))

    def slope_kernel(x_ref, y_ref, ct_ref, o_ref):
        e = jnp.exp(x_ref[...] - x_ref[...].max())
        o_ref[...] = ct_ref[0] * (e / e.sum() - (jnp.arange(10) == y_ref[0]))

    row, one = pl.BlockSpec((None, 10), lambda i: (i, 0)), pl.BlockSpec((1,), lambda i: i)
    call = functools.partial(pl.pallas_call, grid=6, interpret=True)

    @n.jax.custom_vjp
    def loss(x, y):
        return call(loss_kernel, struct(n, (6,)), in_specs=[row, one], out_specs=one)(x, y)

    def bwd(saved, ct):
        slope = call(slope_kernel, struct(n, (6, 10)), in_specs=[row, one, one], out_specs=row)
        return slope(*saved, ct), None
    loss.defvjp(lambda x, y: (loss(x, y), (x, y)), bwd)
    return n.jax.value_and_grad(lambda x: loss(x, labels).mean())(logits)


@program(floats(6, 8))
def jacobi_iterations_in_place(n, pl, pltpu, x):
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        o_ref[1:-1, 1:-1] = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) / 4

    step = pl.pallas_call(kernel, struct(n, (6, 8)), input_output_aliases={0: 0}, interpret=True)
    out, sums = n.lax.scan(lambda x, _: (step(x), step(x).sum()), x, None, length=4)
    return out, sums


@program(floats(24))
def running_sum_with_a_scalar_carry(n, pl, pltpu, x):
    def kernel(x_ref, o_ref, carry_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            carry_ref[0] = 0.0

        o_ref[...] = n.jnp.cumsum(x_ref[...]) + carry_ref[0]
        carry_ref[0] = o_ref[7]

    block = pl.BlockSpec((8,), lambda i: (i,))
    return pl.pallas_call(
        kernel, out_shape=x, grid=pl.cdiv(24, 8), in_specs=[block], out_specs=block,
        scratch_shapes=[pltpu.SMEM((1,), n.jnp.float32)], interpret=True)(x)


@program(floats(8), floats(8, 2))
def fused_optimizer_step(n, pl, pltpu, b, w):
    jax, jnp = n.jax, n.jnp
    params = {"b": b, "w": w}

    def kernel(lr_ref, params, slopes, speeds, new_params, new_speeds):
        for k in ("b", "w"):
            v = 0.9 * speeds[k][...] + slopes[k][...]
            new_speeds[k][...] = v
            new_params[k][...] = params[k][...] - lr_ref[0] * v

    def step(params, slopes, speeds):
        shapes = jax.tree.map(lambda x: n.jax.ShapeDtypeStruct(x.shape, x.dtype), (params, speeds))
        return pl.pallas_call(
            kernel, out_shape=shapes, input_output_aliases={1: 0, 2: 1, 5: 2, 6: 3}, interpret=True,
        )(jnp.array([0.1]), params, slopes, speeds)
    slopes = jax.tree.map(jnp.cos, params)
    return step(*step(params, slopes, jax.tree.map(jnp.zeros_like, params))[:1], slopes, params)


@program(np.int32(3))
def grid_known_at_run_time(n, pl, pltpu, rows):
    def kernel(_, o_ref):
        o_ref[...] = n.jnp.full_like(o_ref, pl.program_id(0) + 10 * pl.num_programs(0))

    @n.jax.jit
    def fill(rows):
        row = pl.BlockSpec((1, 4), lambda i: (i, 0))
        return pl.pallas_call(
            kernel, struct(n, (5, 4), "int32"), grid=(rows,), in_specs=[row], out_specs=row,
            input_output_aliases={0: 0}, interpret=True)(n.jnp.zeros((5, 4), "int32"))
    return fill(rows)


@program()
def escape_times(n, pl, pltpu):
    jnp = n.jnp

    def kernel(o_ref):
        rows = pl.program_id(0) * 4 + n.lax.broadcasted_iota("int32", (4, 8), 0)
        x = n.lax.broadcasted_iota("int32", (4, 8), 1) / 4.0 - 1.5
        c = x, rows / 4.0 - 1.0

        def body(state):
            i, (a, b), count = state
            z = a * a - b * b + c[0], 2 * a * b + c[1]
            return i + 1, z, count + (z[0] ** 2 + z[1] ** 2 < 4)
        zeros = jnp.zeros((4, 8))
        start = 0, (zeros, zeros), jnp.zeros((4, 8), "int32")
        o_ref[...] = n.lax.while_loop(lambda s: (s[0] < 20) & jnp.any(s[2] == s[0]), body, start)[2]

    return pl.pallas_call(
        kernel, struct(n, (8, 8), "int32"), grid=2, out_specs=pl.BlockSpec((4, 8), lambda i: (i, 0)), interpret=True)()


@program(ints(8, 16).astype(np.int8), ints(16, 8).astype(np.int8), np.abs(floats(8)) + 1)
def product_of_quantized_matrices(n, pl, pltpu, x, w, scale):
    def kernel(x_ref, w_ref, scale_ref, o_ref):
        acc = n.lax.dot_general(
            x_ref[...], w_ref[...], (((1,), (0,)), ((), ())), preferred_element_type=n.jnp.int32)
        o_ref[...] = acc.astype(n.jnp.float32) * scale_ref[...]

    return pl.pallas_call(
        kernel, struct(n, (8, 8)), grid=(2, 2),
        in_specs=[
            pl.BlockSpec((4, 16), lambda i, j: (i, 0)),
            pl.BlockSpec((16, 4), lambda i, j: (0, j)),
            pl.BlockSpec((1, 4), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((4, 4), lambda i, j: (i, j)), interpret=True)(x, w, scale[None])


@program(floats(8, 6))
def transposed_tile_by_tile(n, pl, pltpu, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    return pl.pallas_call(
        kernel, struct(n, (6, 8)), grid=(4, 2), in_specs=[pl.BlockSpec((2, 3), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((3, 2), lambda i, j: (j, i)), interpret=True)(x)


SAMPLES = PROGRAMS
