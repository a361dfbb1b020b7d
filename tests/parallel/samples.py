"""Samples on eight devices: sharded `jit`, `shard_map` and its collectives."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from tests.reference.data import BF16, floats, ints
from tests.reference.sample import Sample

WAYS = ("eager", "jit", "grad", "jvp")
X, Y, SQUARE = floats(8, 4), floats(16, 2), floats(64)


def mesh(n, shape=(8,), names=("d",)):
    auto = n.jax.sharding.AxisType.Auto
    return n.jax.make_mesh(shape, names, axis_types=(auto,) * len(names))


def spec(n, *names):
    return n.jax.sharding.PartitionSpec(*names)


def along(fun, out=("d",), ins=("d",), **options):
    """`fun(n, block)` over eight devices, one mesh axis `d`."""
    return lambda n, *args: n.jax.shard_map(
        lambda *blocks: fun(n, *blocks), mesh=mesh(n), in_specs=spec(n, *ins), out_specs=spec(n, *out), **options)(*args)


def grid(fun, ins, out, **options):
    """`fun(n, *blocks)` over a 4 by 2 mesh, axes `data` and `model`."""
    return lambda n, *args: n.jax.shard_map(
        lambda *blocks: fun(n, *blocks), mesh=mesh(n, (4, 2), ("data", "model")),
        in_specs=tuple(spec(n, *names) for names in ins), out_specs=spec(n, *out), **options)(*args)


COLLECTIVES = [
    Sample("elementwise", along(lambda n, x: n.jnp.sin(x)), [X], WAYS),
    Sample("psum", along(lambda n, x: n.lax.psum(x, "d"), out=()), [X], WAYS),
    Sample("psum_int", along(lambda n, x: n.lax.psum(x, "d"), out=()), [ints(8)], ("eager", "jit")),
    Sample("psum_bfloat16", along(lambda n, x: n.lax.psum(x, "d"), out=()), [floats(8, 2, dtype=BF16)],
           ("eager", "jit")),
    Sample("psum_one", along(lambda n, x: x / n.lax.psum(1, "d")), [X], WAYS),
    Sample("psum_tree", along(lambda n, x: n.lax.psum({"a": x, "b": 2 * x}, "d")["b"], out=()), [X], WAYS),
    Sample("pmean", along(lambda n, x: x - n.lax.pmean(x, "d")), [X], WAYS),
    Sample("pmax", along(lambda n, x: n.lax.pmax(x, "d"), out=()), [X], ("eager", "jit")),
    Sample("pmin", along(lambda n, x: n.lax.pmin(x, "d"), out=()), [X], ("eager", "jit")),
    Sample("all_gather", along(lambda n, x: n.lax.all_gather(x, "d").sum(0)), [X], WAYS),
    Sample("all_gather_tiled", along(lambda n, x: n.lax.all_gather(x, "d", tiled=True) * 2), [X], WAYS),
    Sample("psum_scatter", along(lambda n, x: n.lax.psum_scatter(x, "d", tiled=True)), [SQUARE], WAYS),
    Sample("psum_scatter_untiled", along(lambda n, x: n.lax.psum_scatter(x, "d")[None]), [SQUARE], WAYS),
    Sample("all_to_all", along(lambda n, x: n.lax.all_to_all(x, "d", 0, 0, tiled=True)), [SQUARE], WAYS),
    Sample("ppermute", along(lambda n, x: n.lax.ppermute(x, "d", [(i, (i + 1) % 8) for i in range(8)])), [X], WAYS),
    Sample("ppermute_partial", along(lambda n, x: n.lax.ppermute(x, "d", [(0, 3), (5, 1)])), [X], WAYS),
    Sample("axis_index", along(lambda n, x: x + n.lax.axis_index("d")), [X], WAYS),
    Sample("axis_size", along(lambda n, x: x * n.lax.axis_size("d")), [X], WAYS),
    Sample("two_axes", grid(lambda n, x: n.lax.psum(x, ("data", "model")), [("data", "model")], ()), [X], WAYS),
    Sample("one_of_two", grid(lambda n, x: n.lax.psum(x, "model"), [("data", "model")], ("data",)), [X], WAYS),
    Sample("matmul", grid(lambda n, x, w: n.lax.psum(x @ w, "model"), [("data", "model"), ("model",)], ("data",)),
           [X, floats(4, 3)], (*WAYS, "primitives", "jit.grad")),
    Sample("replicated_operand", along(lambda n, x: x + 1, ins=(), out=()), [X], WAYS),
    Sample("scan_inside", along(lambda n, x: n.lax.scan(
        lambda c, _: (n.lax.ppermute(c, "d", [(i, (i + 1) % 8) for i in range(8)]) * 0.5, None), x, None, length=3)[0]),
        [X], WAYS),
    Sample("unchecked", along(lambda n, x: n.lax.psum(x, "d"), out=(), check_vma=False), [X], ("eager", "jit")),
]


def constrained(n, x):
    where = n.jax.sharding.NamedSharding(mesh(n, (4, 2), ("data", "model")), spec(n, "data", "model"))
    return n.jax.lax.with_sharding_constraint(n.jnp.sin(x), where) * 2


def placed(n, x, w):
    grid = mesh(n, (4, 2), ("data", "model"))
    x = n.jax.device_put(x, n.jax.sharding.NamedSharding(grid, spec(n, "data", "model")))
    w = n.jax.device_put(w, n.jax.sharding.NamedSharding(grid, spec(n, "model")))
    return n.jax.jit(lambda x, w: n.jnp.tanh(x @ w).sum(0))(x, w)


def rearranged(given, wanted):
    """A shard_map over one Explicit axis of two, of an array that lies in another way; with the types inside and out."""

    def fun(n, x):
        both = n.jax.make_mesh((4, 2), ("data", "model"))
        types = []

        def body(v):
            types.append(str(n.jax.typeof(v)))
            return 2 * v

        if given:
            x = n.jax.reshard(x, n.jax.sharding.NamedSharding(both, spec(n, *given)))
        out = n.jax.shard_map(
            body, mesh=both, in_specs=spec(n, *wanted), out_specs=spec(n, *wanted), axis_names={"data"}
        )(x)
        return out, types[0], str(n.jax.typeof(out))

    return fun


def declared(n, x):
    where = n.jax.sharding.NamedSharding(mesh(n), spec(n, "d"))
    return n.jax.jit(lambda x: x * 2, in_shardings=where, out_shardings=where)(x)


SHARDED = [
    Sample("constraint", constrained, [X], ("jit", "jit.grad", "jit.jvp")),
    Sample("placed", placed, [X, floats(4, 3)], ("eager",)),
    Sample("declared", declared, [X], ("eager", "grad")),
    Sample("transposed", lambda n, x: n.jax.device_put(
        x, n.jax.sharding.NamedSharding(mesh(n), spec(n, "d"))).T + 1, [X], ("eager",)),
    Sample("vmapped_shard_map", along(lambda n, x: x - n.lax.pmean(x, "d")), [X], ("vmap", "jit.vmap", "vmap.grad")),
]

ERRORS = [
    Sample("uneven", along(lambda n, x: x), [floats(6)], error="ValueError"),
    Sample("unknown_axis", lambda n, x: n.lax.psum(x, "nope"), [X], ("eager", "jit"), error="NameError"),
    Sample("unknown_spec", lambda n, x: n.jax.shard_map(
        lambda x: x, mesh=mesh(n), in_specs=spec(n, "nope"), out_specs=spec(n))(x), [X], error="ValueError"),
    Sample("rank_of_spec", along(lambda n, x: x.sum()), [X], error="ValueError"),
    Sample("claims_replication", along(lambda n, x: x, out=()), [X], error="ValueError"),
    Sample("mesh_too_large", lambda n, x: mesh(n, (64,)), [X], error="ValueError"),
    Sample("uneven_put", lambda n, x: n.jax.device_put(x, n.jax.sharding.NamedSharding(mesh(n), spec(n, "d"))),
           [floats(6)], error="ValueError"),
    Sample("spec_too_long", lambda n, x: n.jax.device_put(x, n.jax.sharding.NamedSharding(
        mesh(n), spec(n, None, None, "d"))), [X], error="ValueError"),
    Sample("axis_twice", lambda n, x: n.jax.sharding.NamedSharding(mesh(n), spec(n, "d", "d")), [X],
           error="DuplicateSpecError"),
]


def inside(fun, **options):
    """The gradient taken on each device, of the sum of `fun`."""
    return along(lambda n, x: n.jax.grad(lambda v: fun(n, v).sum())(x), **options)


def named(fun):
    """`fun(n, example)` over a mapped axis `v`."""
    return lambda n, *args: n.jax.vmap(lambda *xs: fun(n, *xs), axis_name="v")(*args)


def ring(n, x, axis, size):
    return n.lax.ppermute(x, axis, [(i, (i + 1) % size) for i in range(size)])


FREE = {"check_vma": False}
GRADIENTS = [
    Sample("free_psum", along(lambda n, x: n.lax.psum(n.jnp.sin(x), "d") * x, **FREE), [X], WAYS),
    Sample("free_replicated", along(lambda n, x: n.lax.psum(n.jnp.sin(x), "d"), out=(), **FREE), [X], WAYS),
    Sample("free_weight", along(lambda n, x: x * 2, ins=(), out=(), **FREE), [X], WAYS),
    Sample("free_gather", along(lambda n, x: n.lax.all_gather(x, "d", tiled=True).sum(0, keepdims=True) * x, **FREE), [X], WAYS),
    Sample("free_scatter", along(lambda n, x: n.lax.psum_scatter(x * x, "d", tiled=True), **FREE), [SQUARE], WAYS),
    Sample("free_exchange", along(lambda n, x: n.lax.all_to_all(x * x, "d", 0, 0, tiled=True), **FREE), [SQUARE], WAYS),
    Sample("free_groups", along(lambda n, x: n.lax.psum(x * x, "d", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]]), **FREE),
           [X], WAYS),
    Sample("inside_psum", inside(lambda n, x: n.lax.psum(n.jnp.sin(x), "d")), [X], ("eager", "jit")),
    Sample("inside_free_psum", inside(lambda n, x: n.lax.psum(n.jnp.sin(x), "d"), **FREE), [X], ("eager", "jit")),
    Sample("inside_pmean", inside(lambda n, x: (x - n.lax.pmean(x, "d")) ** 2), [X], ("eager", "jit")),
    Sample("inside_gather", inside(lambda n, x: n.lax.all_gather(x, "d") ** 2), [X], ("eager", "jit")),
    Sample("inside_ring", inside(lambda n, x: ring(n, x, "d", 8) * x), [X], ("eager", "jit")),
    Sample("copies", along(lambda n, x: n.lax.psum(n.jnp.sin(x), "d")), [X], WAYS),
    Sample("scalar_residual", along(lambda n, x: n.jnp.sin(x.sum()) * x), [X], (*WAYS, "jit.grad")),
    Sample("partial_manual", grid(lambda n, x: n.lax.psum(n.jnp.sin(x), "data"), [("data",)], (), axis_names={"data"}), [X],
           ("jit", "jit.grad")),
    *[
        Sample(f"partial_manual_rearranged_{i}_{k}", rearranged(given, wanted), [floats(8, 8)], ("eager",))
        for i, given in enumerate([(), ("data",), ("model",), ("data", "model"), (("model", "data"),)])
        for k, wanted in enumerate([("data",), (None, "data"), ()])
    ],
]

NAMED = [
    Sample("named_psum", named(lambda n, x: x - n.lax.psum(x, "v")), [X], WAYS),
    Sample("named_pmax", named(lambda n, x: n.lax.pmax(x, "v")), [X], ("eager", "jit")),
    Sample("named_pmean", named(lambda n, x: x * n.lax.pmean(x, "v")), [X], WAYS),
    Sample("named_gather", named(lambda n, x: n.lax.all_gather(x, "v", axis=1)), [X], WAYS),
    Sample("named_gather_tiled", named(lambda n, x: n.lax.all_gather(x, "v", tiled=True)), [X], WAYS),
    Sample("named_scatter", named(lambda n, x: n.lax.psum_scatter(x, "v")), [floats(8, 8, 2)], WAYS),
    Sample("named_exchange", named(lambda n, x: n.lax.all_to_all(x, "v", 0, 1)), [floats(8, 8, 2)], WAYS),
    Sample("named_exchange_tiled", named(lambda n, x: n.lax.all_to_all(x, "v", 1, 0, tiled=True)), [floats(2, 3, 4)], WAYS),
    Sample("named_ring", named(lambda n, x: ring(n, x, "v", 8)), [X], WAYS),
    Sample("named_shuffle", named(lambda n, x: n.lax.pshuffle(x, "v", [1, 0, 3, 2, 5, 4, 7, 6])), [X], WAYS),
    Sample("named_index", named(lambda n, x: x * n.lax.axis_index("v")), [X], WAYS),
    Sample("named_swap", named(lambda n, x: n.lax.pswapaxes(x, "v", 0)), [floats(8, 8)], WAYS),
]

PMAPPED = [
    Sample("pmap", lambda n, x: n.jax.pmap(lambda v: n.jnp.sin(v) - n.lax.pmean(v, "p"), axis_name="p")(x), [X],
           ("eager", "grad")),
    Sample("pmap_axes", lambda n, x, w: n.jax.pmap(lambda v, w: v * w, in_axes=(1, None), out_axes=1)(x, w),
           [floats(3, 4), floats(3)], ("eager",)),
]

def started(n, name):
    """The function that starts a collective, which the reference keeps to itself."""
    home = n.lax if n.name == "xlab" else import_module(f"{n.name}._src.lax.parallel")
    return getattr(home, f"{name}_start")


def pending(name, *args, **options):
    """Starts a collective of a block, computes something, and waits for it."""

    def body(n, x):
        todo = started(n, name)(x, "d", *args, **options)
        y = n.jnp.sin(x)
        return todo.done().sum() * y

    return along(body)


STARTED = [
    Sample("psum_start", pending("psum"), [X], ("jit", "primitives")),
    Sample("all_gather_start", pending("all_gather", tiled=True), [X], ("jit", "primitives")),
    Sample("all_gather_start_untiled", pending("all_gather", axis=1), [X], ("jit", "primitives")),
    Sample("psum_scatter_start", pending("psum_scatter", tiled=True), [SQUARE], ("jit", "primitives")),
    Sample("all_to_all_start", pending("all_to_all", 0, 0, tiled=True), [SQUARE], ("jit", "primitives")),
    Sample("ppermute_start", pending("ppermute", [(i, (i + 1) % 8) for i in range(8)]), [X], ("jit", "primitives")),
    Sample("psum_start_unchecked", along(lambda n, x: started(n, "psum")(x, "d").done(), check_vma=False), [X], ("jit", "primitives")),
]  # fmt: skip

SAMPLES = [*COLLECTIVES, *STARTED, *SHARDED, *GRADIENTS, *NAMED, *PMAPPED, *(replace(s, name=f"error_{s.name}") for s in ERRORS)]
