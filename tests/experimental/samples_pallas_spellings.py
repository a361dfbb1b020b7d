"""The many ways to write one thing in a kernel: specs, index maps, indices, dtypes, and what references are asked for."""

from __future__ import annotations

import functools

import numpy as np

from tests.experimental.samples_pallas import F32, I32, M, N, X, call, like, pl, pltpu, shaped, spec
from tests.reference.data import floats, ints
from tests.reference.sample import VALUE, Sample

LAWS = False


def double(n):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    return kernel


def tiled(n, x, block, index_map, grid=(4,), **options):
    """Doubles by blocks, with the index map on both sides."""
    s = spec(n, block, index_map, **options)
    return call(n, double(n), like(n, x), x, grid=grid, in_specs=[s], out_specs=s)


INDEX_MAPS = {
    "list": lambda n: lambda i: [i],
    "scalar": lambda n: lambda i: i,
    "numpy_int": lambda n: lambda i: (np.int32(1),),
    "python_int": lambda n: lambda i: (2,),
    "array": lambda n: lambda i: (n.jnp.int32(3),),
    "arithmetic": lambda n: lambda i: (3 - i,),
    "floor": lambda n: lambda i: (i // 2,),
    "minimum": lambda n: lambda i: (n.jnp.minimum(i, 2),),
    "where": lambda n: lambda i: (n.jnp.where(i > 1, 0, i),),
    "remainder": lambda n: lambda i: (n.lax.rem(i, 3),),
    "stars": lambda n: lambda *ids: ids,
    "default": lambda n: lambda i=None: (i,),
    "jitted": lambda n: n.jax.jit(lambda i: (i,)),
    "switch": lambda n: lambda i: (n.lax.switch(i, [lambda: 3, lambda: 1, lambda: 0, lambda: 2]),),
}

GRIDS = {"int": 4, "tuple_of_numpy": (np.int32(4),), "padded_with_one": (4, 1)}


def grids(n, x, grid):
    return tiled(n, x, (2,), lambda i, *_: (i,), grid)


SPECS = {
    "list_of_block": lambda n: spec(n, [2], lambda i: (i,)),
    "blocked": lambda n: spec(n, (pl(n).Blocked(2),), lambda i: (i,)),
    "keywords": lambda n: spec(n, block_shape=(2,), index_map=lambda i: (i,)),
    "buffered": lambda n: spec(n, (2,), lambda i: (i,), pipeline_mode=pl(n).Buffered(3, use_lookahead=True)),
    "in_a_space": lambda n: spec(n, (2,), lambda i: (i,), memory_space=pltpu(n).VMEM),
    "element": lambda n: spec(n, (pl(n).Element(2),), lambda i: (2 * i,)),
}


def specs(n, x, name):
    s = SPECS[name](n)
    return call(n, double(n), like(n, x), x, grid=(4,), in_specs=(s,), out_specs=s)


def spec_trees(n, x):
    def kernel(ins, out):
        out["a"][...] = ins[0][...] + ins[1]["b"][...]
        out["c"][...] = ins[1]["b"][...]

    s = spec(n, (2,), lambda i: (i,))
    return call(n, kernel, {"a": like(n, x), "c": like(n, x)}, (x, {"b": x * 2}), grid=(4,), in_specs=[(s, {"b": s})],
                out_specs={"a": s, "c": s})  # fmt: skip


def no_specs(n, x):
    """Whole arrays at every step."""
    def kernel(x_ref, o_ref):
        i = pl(n).program_id(0)
        o_ref[i] = x_ref[i] * 2

    return call(n, kernel, like(n, x), x, grid=(8,))


def decorated(n, x):
    @functools.partial(pl(n).pallas_call, out_shape=like(n, x), interpret=True, name="doubled", debug=False, metadata={"a": "b"})
    def kernel(x_ref, o_ref):
        """Doubles."""
        o_ref[...] = x_ref[...] * 2

    return kernel(x)


def with_cost(n, x):
    cost = pl(n).CostEstimate(flops=8, transcendentals=0, bytes_accessed=64)
    return call(n, double(n), like(n, x), x, cost_estimate=cost, compiler_params=pltpu(n).CompilerParams(dimension_semantics=("parallel",)))


class Callable:
    def __init__(self, n, factor):
        self.factor = factor

    def __call__(self, x_ref, o_ref):
        o_ref[...] = x_ref[...] * self.factor


def of_an_object(n, x):
    return call(n, Callable(n, 3), like(n, x), x)


def scalars(n, x):
    """Arrays without dimensions."""
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    return call(n, kernel, shaped(n, ()), x)


def python_scalar(n, x):
    def kernel(a_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * a_ref[...]

    return call(n, kernel, like(n, x), 2.5, x)


def no_inputs(n):
    def kernel(o_ref):
        o_ref[...] = n.lax.broadcasted_iota(I32, (2, 3), 1)

    return call(n, kernel, shaped(n, (2, 3), I32))


def facts(n, x):
    """What a reference says of itself while a kernel is traced."""
    seen = []

    def kernel(x_ref, o_ref):
        seen.extend([x_ref.shape, str(x_ref.dtype), x_ref.ndim, x_ref.size, len(x_ref)])
        o_ref[...] = n.jnp.zeros(x_ref.shape, x_ref.dtype) + n.jnp.ones_like(x_ref)

    out = call(n, kernel, like(n, x), x)
    return out, [s if isinstance(s, int) else len(str(s)) for s in seen]


INDICES = {
    "dots": lambda n, r, i: r[...],
    "slice": lambda n, r, i: r[2:6],
    "open_slice": lambda n, r, i: r[3:],
    "step": lambda n, r, i: r[1:7:3],
    "negative": lambda n, r, i: r[-2],
    "negative_slice": lambda n, r, i: r[-3:-1],
    "row": lambda n, r, i: r[3, :],
    "column": lambda n, r, i: r[:, -1],
    "dots_last": lambda n, r, i: r[..., 2],
    "corner": lambda n, r, i: r[1, 2],
    "value": lambda n, r, i: r[i],
    "value_twice": lambda n, r, i: r[i, i + 1],
    "value_and_slice": lambda n, r, i: r[i, 2:5],
    "window": lambda n, r, i: r[pl(n).ds(i, 2), :],
    "window_of_both": lambda n, r, i: r[pl(n).ds(i, 2), pl(n).ds(2 * i, 4)],
    "window_of_slice": lambda n, r, i: r[pl(n).ds(2, 3)],
    "window_of_nothing": lambda n, r, i: r[pl(n).ds(3)],
    "window_with_stride": lambda n, r, i: r[pl(n).ds(0, 4, stride=2)],
    "points": lambda n, r, i: r[n.jnp.arange(3) + i],
    "points_of_both": lambda n, r, i: r[n.jnp.arange(3), n.jnp.arange(3) + i],
    "points_and_slice": lambda n, r, i: r[n.jnp.arange(3) + i, 1:4],
    "views": lambda n, r, i: r.at[pl(n).ds(i, 4)].at[1][2:5],
    "tuple": lambda n, r, i: r[(2, slice(1, 3))],
}


def indexed(n, x, i, name):
    """Reads, adds one, and writes the same place of the output."""
    read = INDICES[name]

    def kernel(i_ref, x_ref, o_ref, part_ref):
        part_ref[...] = read(n, x_ref, i_ref[0]) + 1
        o_ref[...] = x_ref[...]

    part = n.jax.eval_shape(lambda x, i: read(n, n.jax.new_ref(x), i), x, np.int32(1))
    return call(n, kernel, [like(n, x), like(n, part)], i, x)


def accumulated(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = n.jnp.zeros_like(o_ref)
        o_ref[2:4] += x_ref[2:4]
        o_ref[0] -= 1.0
        n.jax.ref.addupdate(o_ref, slice(0, 3), x_ref[:3])
        old = n.jax.ref.swap(o_ref, 7, x_ref[0])
        o_ref[6] = old + 5

    return call(n, kernel, like(n, x), x)


def converted(n, x, dtype):
    def kernel(x_ref, o_ref):
        o_ref[...] = (x_ref[...] * 3).astype(o_ref.dtype)

    return call(n, kernel, shaped(n, x.shape, np.dtype(getattr(n.jnp, dtype))), x)


def masks(n, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] > 0

    return call(n, kernel, shaped(n, x.shape, np.dtype(bool)), x)


def keys(n, x):
    """Random bits in a kernel, from raw keys."""
    def kernel(key_ref, o_ref):
        o_ref[...] = n.random.uniform(n.random.wrap_key_data(key_ref[...], impl="threefry2x32"), (4,))

    return call(n, kernel, shaped(n, (4,)), x)


FUNCTIONS = {
    "sort": lambda n, x: n.jnp.sort(x, axis=1),
    "argmax": lambda n, x: n.jnp.argmax(x, axis=1).astype(F32)[:, None] + x,
    "cumsum": lambda n, x: n.jnp.cumsum(x, axis=0),
    "softmax": lambda n, x: n.nn.softmax(x, axis=-1),
    "gelu": lambda n, x: n.nn.gelu(x),
    "where": lambda n, x: n.jnp.where(x > 0, x, -x),
    "concatenate": lambda n, x: n.jnp.concatenate([x[4:], x[:4]]),
    "einsum": lambda n, x: n.jnp.einsum("ij,kj->ik", x, x) @ x,
    "dot_general": lambda n, x: n.lax.dot_general(x, x, (((1,), (1,)), ((), ()))) @ x,
    "pad": lambda n, x: n.jnp.pad(x, ((1, 1), (0, 0)))[1:-1],
    "top_k": lambda n, x: n.lax.top_k(x, 4)[0].sum() + x,
    "vmap": lambda n, x: n.jax.vmap(lambda row: row / row.sum())(x),
    "grad": lambda n, x: n.jax.grad(lambda x: (x**3).sum())(x),
    "scan": lambda n, x: n.lax.scan(lambda c, row: (c + row, c), n.jnp.zeros(16), x)[1],
    "map": lambda n, x: n.lax.map(lambda row: row[::-1], x),
    "round": lambda n, x: n.jnp.round(x * 10) // 3,
}


def function(n, x, name):
    return call(n, lambda x_ref, o_ref: o_ref.__setitem__(..., FUNCTIONS[name](n, x_ref[...])), like(n, x), x)


def after_the_fact(n, x):
    """Results of kernels as any other arrays: sliced, batched, differentiated around."""
    f = n.jax.jit(lambda v: tiled(n, v, (2,), lambda i: (i,)))
    return n.jax.jvp(lambda v: n.jnp.sin(f(v * v))[2:], (x,), (x,)), n.jax.vmap(f)(n.jnp.stack([x, -x])).T


SAMPLES = [
    *(Sample(f"index_map_{k}", lambda n, x, k=k: tiled(n, x, (2,), INDEX_MAPS[k](n)), [X], VALUE) for k in INDEX_MAPS),
    *(Sample(f"grid_{k}", lambda n, x, g=g: grids(n, x, g), [X], ("eager",)) for k, g in GRIDS.items()),
    *(Sample(f"spec_{k}", lambda n, x, k=k: specs(n, x, k), [X], VALUE) for k in SPECS),
    Sample("spec_trees", spec_trees, [X], ("eager", "jit", "vmap")),
    Sample("no_specs", no_specs, [X], ("eager", "jit", "vmap")),
    Sample("decorated", decorated, [X], ("eager", "jit", "vmap", "jvp")),
    Sample("with_cost", with_cost, [X], ("eager", "jit", "vmap", "jvp")),
    Sample("of_an_object", of_an_object, [X], VALUE),
    Sample("scalars", scalars, [np.float32(2)], ("eager", "jit", "vmap", "jvp")),
    Sample("python_scalar", python_scalar, [X], VALUE),
    Sample("no_inputs", no_inputs, [], VALUE),
    Sample("facts", facts, [M], ("eager",)),
    *(Sample(f"index_{k}", lambda n, x, i, k=k: indexed(n, x, i, k), [M, np.array([1], np.int32)], VALUE) for k in INDICES),
    Sample("accumulated", accumulated, [X], VALUE),
    *(Sample(f"converted_{d}", lambda n, x, d=d: converted(n, x, d), [X], VALUE)
      for d in ("int32", "int8", "bfloat16", "float16", "float8_e4m3fn", "uint8", "bool")),
    Sample("integers", lambda n, x: converted(n, x, "int32"), [N], VALUE),
    Sample("masks", masks, [X], ("eager", "jit", "vmap")),
    Sample("keys", keys, [np.array([0, 7], np.uint32)], VALUE),
    *(Sample(f"function_{k}", lambda n, x, k=k: function(n, x, k), [M], ("eager", "vmap") if k not in ("top_k", "argmax", "sort") else VALUE) for k in FUNCTIONS),
    Sample("after_the_fact", after_the_fact, [X], ("eager",)),
    Sample("of_doubles", lambda n, x: tiled(n, x, (2,), lambda i: (i,)), [floats(8).astype(np.float64)], VALUE, x64=True),
    Sample("wide_integers", lambda n, x: tiled(n, x, (2,), lambda i: (n.jnp.int64(i),)), [ints(8).astype(np.int64)], VALUE, x64=True),
]  # fmt: skip
