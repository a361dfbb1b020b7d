"""Samples of sharding in types: values, the sharding each result's type states, and what is refused.

Every sample runs eagerly and jitted under a mesh of Explicit axes, `x` of 4 and `y` of 2 devices; with its result goes the sharding
its type states, as numbers: per dimension the axes that shard it (1 for `x`, 2 for `y`).
"""

from __future__ import annotations

import numpy as np

from tests.reference.data import floats, ints
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
A, B, V, CUBE = floats(8, 4), floats(4, 8), floats(8), floats(8, 4, 2)
XY, X_, _Y, YX = ("x", "y"), ("x", None), (None, "y"), ("y", "x")
AXES = {"x": 1, "y": 2}


def spec(n, entries):
    return n.jax.sharding.PartitionSpec(*entries)


def mesh(n):
    return n.jax.make_mesh((4, 2), ("x", "y"), axis_types=(n.jax.sharding.AxisType.Explicit,) * 2)


def stated(n, x):
    """The sharding in the type of a value, as an array."""
    sharded = n.jax.typeof(x).sharding.spec
    out = np.zeros((np.ndim(x), 2), np.int32)
    for d, axes in enumerate(sharded):
        for i, axis in enumerate((axes,) if isinstance(axes, str) else axes or ()):
            out[d, i] = AXES[axis]
    return out


def placed(n, args, specs):
    return [x if s is None else n.jax.sharding.reshard(x, spec(n, s)) for x, s in zip(args, specs)]


def report(n, out):
    return [(np.asarray(x), stated(n, x)) for x in n.jax.tree.leaves(out)]


def typed(fun, *specs):
    def run(n, *args):
        with n.jax.set_mesh(mesh(n)):
            args = placed(n, args, specs)
            return report(n, fun(n, *args)), report(n, n.jax.jit(lambda *a: fun(n, *a))(*args))
    return run


def graded(fun, *specs):
    """Gradients, which lie as their arguments do."""
    def run(n, *args):
        def loss(*a):
            return n.jnp.sin(fun(n, *a)).sum()
        with n.jax.set_mesh(mesh(n)):
            args = placed(n, args, specs)
            every = tuple(range(len(args)))
            return report(n, n.jax.grad(loss, every)(*args)), report(n, n.jax.jit(n.jax.grad(loss, every))(*args))
    return run


def row(name, fun, args, *specs, error=None, grad=False):
    rows = [Sample(name, typed(fun, *specs), args, ("eager",), error=error, lawful=False)]
    if grad:
        rows.append(Sample(f"{name}_grad", graded(fun, *specs), args, ("eager",), tol=1e-5, lawful=False))
    return rows


def out(n, *entries):
    return spec(n, entries)


def summands(n):
    return n.jax.sharding.PartitionSpec("x", None, unreduced={"y"})


def reduced(n):
    return n.jax.sharding.PartitionSpec(None, reduced={"y"})


def summing(n):
    """Its columns over `y`, as a sum that is not carried out."""
    return n.jax.shard_map(lambda v: n.lax.pcast(v * 2.0, "y", to="unreduced"), in_specs=out(n, "x", "y"), out_specs=summands(n))


def parts(n, a, b):
    """A product that is still a sum over `y`."""
    return n.jnp.dot(a, b, out_sharding=summands(n))


BAD = "ShardingTypeError"
ROWS = [
    # elementwise
    row("sin", lambda n, a: n.jnp.sin(a), [A], XY, grad=True),
    row("scalar", lambda n, a: a * 2 + 1, [A], XY, grad=True),
    row("add_each_way", lambda n, a, b: a + b, [A, A], X_, _Y, grad=True),
    row("mul_whole", lambda n, a, b: a * b, [A, A], X_, (), grad=True),
    row("add_numpy", lambda n, a, b: a + b, [A, A], X_, None),
    row("add_crossed", lambda n, a, b: a + b, [A, A], X_, YX, error=BAD),
    row("add_coarser", lambda n, a, b: a + b, [A, A], (("x", "y"),), X_, error=BAD),
    row("add_twice_the_axis", lambda n, a, b: a + b, [A, floats(4)], X_, ("x",), error=BAD),
    row("add_row", lambda n, a, b: a + b, [A, floats(4)], X_, ("y",), grad=True),
    row("add_column", lambda n, a, b: n.lax.add(a, b), [floats(8, 1), A], X_, _Y),
    row("compare", lambda n, a: a > 0, [A], XY),
    row("astype", lambda n, a: a.astype(n.jnp.int32), [A], XY),
    row("clamp", lambda n, a, b: n.lax.clamp(b, a, b), [A, A], X_, ()),
    row("where_number", lambda n, a: n.jnp.where(a > 0, a, 1.0), [A], XY, grad=True),
    row("select", lambda n, a: n.lax.select(a > 0, a, -a), [A], XY, grad=True),
    row("select_mixed", lambda n, a, b: n.lax.select(a > 0, a, b), [A, A], X_, (), error=BAD),
    row("select_whole_mask", lambda n, a, b: n.lax.select_n(b > 0, a, a), [A, A], X_, (), error=BAD),
    row("relu", lambda n, a: n.jax.nn.relu(a), [A], XY, grad=True),
    row("softmax", lambda n, a: n.jax.nn.softmax(a), [A], XY, grad=True),
    row("logsumexp", lambda n, a: n.jax.nn.logsumexp(a, -1), [A], XY, grad=True),
    row("standardized", lambda n, a: (a - a.mean(-1, keepdims=True)) / n.jnp.sqrt(a.var(-1, keepdims=True) + 1e-3), [A], XY),
    # shapes
    row("transpose", lambda n, a: a.T, [A], XY, grad=True),
    row("expand", lambda n, a: a[:, None], [A], XY),
    row("squeeze", lambda n, a: n.lax.squeeze(a, (1,)), [floats(8, 1)], X_),
    row("rev", lambda n, a: n.lax.rev(a, (0,)), [A], XY),
    row("broadcast", lambda n, a: n.jnp.broadcast_to(a, (3, 8, 4)), [A], XY, grad=True),
    row("broadcast_asked", lambda n, a: n.lax.broadcast_in_dim(a, (8, 4), (0,), out_sharding=out(n, "x", "y")), [V], ("x",), grad=True),
    row("reshape_split", lambda n, a: a.reshape(4, 2, 4), [A], X_, grad=True),
    row("reshape_split_uneven", lambda n, a: a.reshape(2, 4, 4), [A], X_, error=BAD),
    row("reshape_split_two_axes", lambda n, a: a.reshape(4, 2, 4), [A], (("x", "y"),)),
    row("reshape_split_minor", lambda n, a: a.reshape(8, 2, 2), [A], XY),
    row("reshape_merge", lambda n, a: a.reshape(32), [A], X_, grad=True),
    row("reshape_merge_both", lambda n, a: a.reshape(32), [A], XY, grad=True),
    row("reshape_merge_minor", lambda n, a: a.reshape(32), [A], _Y, error=BAD),
    row("reshape_merge_back", lambda n, a: a.reshape(16, 4), [floats(2, 8, 4)], (None, "x"), error=BAD),
    row("reshape_merge_others", lambda n, a: a.reshape(16, 4), [floats(8, 2, 4)], ("y", None, "x")),
    row("reshape_ones", lambda n, a: a.reshape(1, 8, 16, 1), [floats(8, 1, 16)], ("y", None, "x")),
    row("reshape_regroup", lambda n, a: a.reshape(4, 8), [A], X_, error=BAD),
    row("reshape_asked", lambda n, a: n.lax.reshape(a, (32,), out_sharding=out(n, "y")), [A], _Y, grad=True),
    row("concatenate", lambda n, a: n.jnp.concatenate([a, a]), [A], XY, grad=True),
    row("concatenate_mixed", lambda n, a, b: n.jnp.concatenate([a, b]), [A, A], X_, (), error=BAD),
    row("stack", lambda n, a: n.jnp.stack([a, a]), [A], X_),
    row("split", lambda n, a: n.jnp.split(a, 2, 0), [A], XY),
    row("pad_whole_dimension", lambda n, a: n.jnp.pad(a, ((1, 0), (0, 0))), [A], _Y, grad=True),
    row("pad_evenly", lambda n, a: n.jnp.pad(a, ((4, 0), (0, 0))), [A], X_, grad=True),
    row("pad_unevenly", lambda n, a: n.lax.pad(a, np.float32(0), ((1, 0, 0), (0, 0, 0))), [A], X_, error=BAD),
    row("tile", lambda n, a: n.jnp.tile(a, (1, 2)), [A], X_),
    row("tril", lambda n, a: n.jnp.tril(a), [A], X_),
    row("roll", lambda n, a: n.jnp.roll(a, 1, 1), [A], X_),
    # slices
    row("slice", lambda n, a: n.lax.slice(a, (0, 0), (4, 4)), [A], XY, grad=True),
    row("slice_unevenly", lambda n, a: n.lax.slice(a, (0, 0), (6, 4)), [A], XY, error=BAD),
    row("index_whole", lambda n, a: a[0], [A], _Y, grad=True),
    row("index_sharded", lambda n, a: a[0], [A], X_, error=BAD),
    row("columns", lambda n, a: a[:, 1:3], [A], X_, grad=True),
    row("dynamic_slice", lambda n, a: n.lax.dynamic_slice(a, (1, 0), (4, 2)), [A], _Y, grad=True),
    row("dynamic_update", lambda n, a: n.lax.dynamic_update_slice(a, a[:4] * 2, (2, 0)), [A], _Y, grad=True),
    row("dynamic_update_mixed", lambda n, a, b: n.lax.dynamic_update_slice(a, b[:4], (0, 0)), [A, A], _Y, (), error=BAD),
    row("gather", lambda n, a: a[np.array([0, 5])], [A], _Y, grad=True),
    row("gather_sharded", lambda n, a: a[np.array([0, 5])], [A], X_, error=BAD),
    row("gather_asked", lambda n, a: a.at[np.array([0, 5])].get(out_sharding=out(n, "y")), [A], X_, grad=True),
    row("take_along_axis", lambda n, a, i: n.jnp.take_along_axis(a, i, 1), [A, ints(8, 1) % 4], X_, X_),
    row("scatter", lambda n, a: a.at[0].set(1.0), [A], _Y),
    row("scatter_add", lambda n, a: a.at[np.array([0, 0])].add(1.0), [A], _Y),
    row("scatter_sharded", lambda n, a: a.at[0].set(1.0), [A], X_, error=BAD),
    row("flatten_asked", lambda n, a: a.reshape(32, out_sharding=out(n, "x")), [A], _Y),
    row("scatter_asked", lambda n, a: a.at[0].set(1.0, out_sharding=out(n, "x")), [A], X_),
    # reductions and what runs along a dimension
    row("sum_rows", lambda n, a: a.sum(0), [A], XY, grad=True),
    row("sum_all", lambda n, a: a.sum(), [A], XY, grad=True),
    row("sum_asked", lambda n, a: n.lax.reduce_sum(a, (0,), out_sharding=out(n, "x")), [A], XY, grad=True),
    row("max", lambda n, a: a.max(1), [A], XY, grad=True),
    row("argmax", lambda n, a: n.jnp.argmax(a, 0), [A], XY),
    row("all", lambda n, a: n.jnp.all(a > 0, 1), [A], XY),
    row("cumsum", lambda n, a: n.jnp.cumsum(a, 0), [A], _Y, grad=True),
    row("cumsum_sharded", lambda n, a: n.jnp.cumsum(a, 0), [A], X_, error=BAD),
    row("sort", lambda n, a: n.jnp.sort(a, 0), [A], _Y),
    row("sort_sharded", lambda n, a: n.jnp.sort(a, 0), [A], X_, error=BAD),
    row("argsort", lambda n, a: n.jnp.argsort(a, 1), [A], X_),
    row("top_k", lambda n, a: n.lax.top_k(a, 2), [A], X_),
    row("top_k_sharded", lambda n, a: n.lax.top_k(a, 2), [A], _Y, error=BAD),
    row("reduce_window", lambda n, a: n.lax.reduce_window(a, np.float32(0), n.lax.add, (2, 1), (1, 1), "SAME"), [A], _Y),
    # products
    row("matmul_rows", lambda n, a, b: a @ b, [A, B], X_, (), grad=True),
    row("matmul_both", lambda n, a, b: a @ b, [A, B], X_, _Y, grad=True),
    row("matmul_one_contracted", lambda n, a, b: a @ b, [A, B], _Y, ()),
    row("matmul_contracted", lambda n, a, b: a @ b, [A, B], XY, ("y",), error=BAD),
    row("matmul_same_axis", lambda n, a, b: a @ b, [A, B], X_, (None, "x"), error=BAD),
    row("matmul_asked", lambda n, a, b: n.jnp.dot(a, b, out_sharding=out(n, "x", None)), [A, B], XY, ("y",), grad=True),
    row("einsum_asked", lambda n, a, b: n.jnp.einsum("ij,jk->ki", a, b, out_sharding=out(n, None, "x")), [A, B], XY, ("y",)),
    row("tensordot_asked", lambda n, a, b: n.jnp.tensordot(a, b, 1, out_sharding=out(n, None, "x")), [A, B], XY, ("y",)),
    row("dot_batch", lambda n, a, b: n.lax.dot_general(a, b, (((1,), (1,)), ((0,), (0,)))), [A, A], X_, X_, grad=True),
    row("dot_batch_one", lambda n, a, b: n.lax.dot_general(a, b, (((1,), (1,)), ((0,), (0,)))), [A, A], X_, ()),
    row("dot_batch_crossed", lambda n, a, b: n.lax.dot_general(a, b, (((1,), (1,)), ((0,), (0,)))), [A, A], X_, ("y",), error=BAD),
    row("conv_batch", lambda n, a, k: n.lax.conv_general_dilated(a, k, (1, 1), "SAME"), [floats(8, 2, 4, 4), floats(3, 2, 3, 3)],
        ("x",), ()),
    row("conv_features", lambda n, a, k: n.lax.conv_general_dilated(a, k, (1, 1), "SAME"), [floats(8, 2, 4, 4), floats(3, 2, 3, 3)],
        (None, "y"), (), error=BAD),
    # arrays from nothing
    row("zeros", lambda n: n.jnp.zeros((8, 4), out_sharding=out(n, "x")), []),
    row("ones_like", lambda n, a: n.jnp.ones_like(a), [A], XY),
    row("full", lambda n: n.jnp.full((8,), 3.0, out_sharding=out(n, "y")), []),
    row("array", lambda n, a: n.jnp.array(a, out_sharding=out(n, None, "y")), [A], None),
    row("arange", lambda n: n.jnp.arange(8, out_sharding=out(n, "x")), []),
    row("iota", lambda n: n.lax.broadcasted_iota(n.jnp.int32, (8, 4), 0, out_sharding=out(n, "x")), []),
    row("uniform", lambda n: n.jax.random.uniform(n.jax.random.key(0), (8, 4), out_sharding=out(n, "x")), []),
    # moving
    row("reshard", lambda n, a: n.jax.sharding.reshard(a, out(n, "y", None)), [A], X_, grad=True),
    row("reshard_tree", lambda n, a, b: n.jax.sharding.reshard({"a": a, "b": [b]}, out(n, "y")), [A, V], X_, ()),
    row("reshard_unevenly", lambda n, a: n.jax.sharding.reshard(a, out(n, "x")), [floats(6, 4)], None, error="ValueError"),
    row("device_put", lambda n, a: n.jax.device_put(a, out(n, "y")), [A], X_),
    row("constraint_holds", lambda n, a: n.lax.with_sharding_constraint(a, out(n, "x", "y")), [A], XY),
    row("constraint_fails", lambda n, a: n.lax.with_sharding_constraint(a, out(n, "x")), [A], XY, error="AssertionError"),
    row("barrier", lambda n, a: n.lax.optimization_barrier(a), [A], XY),
    # control flow
    row("scan_carry", lambda n, a: n.lax.scan(lambda c, _: (n.jnp.sin(c), None), a, None, length=3)[0], [A], XY, grad=True),
    row("scan_elements", lambda n, a: n.lax.scan(lambda c, v: (c + 1, v * c), np.float32(1), a)[1], [A], _Y, grad=True),
    row("scan_cut_elements", lambda n, a: n.lax.scan(lambda c, v: (c, v * 2), 0.0, a)[1], [A], X_, error="ValueError"),
    row("scan_other_carry", lambda n, a: n.lax.scan(lambda c, _: (n.jax.sharding.reshard(c, out(n, "x")), None), a, None, length=2)[0],
        [A], XY, error="TypeError"),
    row("fori", lambda n, a: n.lax.fori_loop(0, 3, lambda i, c: c * 2, a), [A], XY, grad=True),
    row("while", lambda n, a: n.lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * 2, n.jnp.abs(a)), [A], XY),
    row("cond", lambda n, a: n.lax.cond(a.sum() > 0, n.jnp.sin, n.jnp.cos, a), [A], XY, grad=True),
    row("cond_mixed", lambda n, a: n.lax.cond(True, lambda v: v, lambda v: n.jax.sharding.reshard(v, out(n, "x")), a), [A], XY,
        error="TypeError"),
    row("checkpoint", lambda n, a: n.jax.checkpoint(lambda v: n.jnp.sin(n.jnp.sin(v)))(a), [A], XY, grad=True),
    row("nested_jit", lambda n, a: n.jax.jit(lambda v: v.T * 2)(a), [A], XY, grad=True),
    row("jvp", lambda n, a: n.jax.jvp(n.jnp.sin, (a,), (a,)), [A], XY),
    # vmap
    row("vmap", lambda n, a: n.jax.vmap(lambda v: v * v.sum())(a), [A], XY, grad=True),
    row("vmap_out_axes", lambda n, a: n.jax.vmap(lambda v: v * 2, out_axes=1)(a), [A], XY),
    row("vmap_constant", lambda n, a: n.jax.vmap(lambda v: n.jnp.concatenate([v, n.jnp.ones(4)]))(a), [A], X_),
    row("vmap_matmul", lambda n, a, b: n.jax.vmap(lambda v: v @ b)(a), [A, B], X_, (), grad=True),
    row("vmap_reshard", lambda n, a: n.jax.vmap(lambda v: n.jax.sharding.reshard(v, out(n, "y")))(a), [A], X_),
    row("vmap_fori", lambda n, a: n.jax.vmap(lambda v: n.lax.fori_loop(0, 3, lambda i, c: c * 2, v))(a), [A], X_),
    row("vmap_psum", lambda n, a: n.jax.vmap(lambda v: n.lax.psum(v, "i"), axis_name="i")(a), [A], X_),
    row("vmap_mixed", lambda n, a, b: n.jax.vmap(lambda v, w: v + w)(a, b), [A, A], X_, _Y, error="ValueError"),
    # regions
    row("auto_axes", lambda n, a: n.jax.sharding.auto_axes(lambda v: v @ v.T, out_sharding=out(n, "x", None))(a), [A], XY, grad=True),
    row("auto_axes_in_call", lambda n, a: n.jax.sharding.auto_axes(lambda v: v * 2)(a, out_sharding=out(n, "y")), [A], X_),
    row("auto_axes_part", lambda n, a: n.jax.sharding.auto_axes(axes="y", out_sharding=out(n, "x"))(lambda v: n.jnp.sin(v))(a), [A], XY),
    row("auto_axes_nothing_said", lambda n, a: n.jax.sharding.auto_axes(lambda v: v)(a), [A], X_, error="TypeError"),
    row("auto_axes_unknown", lambda n, a: n.jax.sharding.auto_axes(lambda v: v, axes="q", out_sharding=out(n, "x"))(a), [A], X_,
        error="KeyError"),
    row("reshard_in_auto", lambda n, a: n.jax.sharding.auto_axes(lambda v: n.jax.sharding.reshard(v, out(n, "y")),
                                                                 out_sharding=out(n, "x"))(a), [A], X_, error="ValueError"),
    row("explicit_in_auto", lambda n, a: n.jax.sharding.auto_axes(
        lambda v: n.jax.sharding.explicit_axes(lambda w: w * 2, in_sharding=out(n, "y"))(v), out_sharding=out(n, "x"))(a), [A], XY),
    # shard_map
    row("shard_map_inferred", lambda n, a: n.jax.shard_map(lambda v: v * 2, out_specs=out(n, "x", "y"))(a), [A], XY, grad=True),
    row("shard_map", lambda n, a: n.jax.shard_map(lambda v: n.lax.psum(v, "x"), in_specs=out(n, "x"), out_specs=out(n))(a), [A], X_,
        grad=True),
    row("shard_map_other_specs", lambda n, a: n.jax.shard_map(lambda v: v, in_specs=out(n, "x"), out_specs=out(n, "x"))(a), [A], XY,
        error="ValueError"),
    row("shard_map_part", lambda n, a: n.jax.shard_map(lambda v: n.jnp.sin(v), in_specs=out(n, "x"), out_specs=out(n, "x"),
                                                       axis_names={"x"})(a), [A], XY),
    # sums not carried out
    row("unreduced_then_summed", lambda n, a, b: n.jax.sharding.reshard(parts(n, a, b), out(n, "x")), [A, B], XY, ("y",)),
    row("unreduced_added", lambda n, a, b: n.jax.sharding.reshard(parts(n, a, b) + parts(n, a, b), out(n, "x")), [A, B], XY, ("y",)),
    row("unreduced_plus_whole", lambda n, a, b: parts(n, a, b) + n.jnp.zeros((8, 8), out_sharding=out(n, "x")), [A, B], XY, ("y",),
        error=BAD),
    row("unreduced_sin", lambda n, a, b: n.jnp.sin(parts(n, a, b)), [A, B], XY, ("y",), error="NotImplementedError"),
    row("unreduced_into_shard_map", lambda n, a, b: n.jax.shard_map(
        lambda v: n.lax.psum(v, "y"), in_specs=summands(n), out_specs=out(n, "x"))(parts(n, a, b)), [A, B], XY, ("y",)),
    row("unreduced_out_of_shard_map", lambda n, a: n.jax.sharding.reshard(n.jax.shard_map(
        lambda v: n.lax.pcast(v, "y", to="unreduced"), in_specs=out(n, "x", "y"),
        out_specs=summands(n))(a), out(n, "x")), [A], XY, grad=True),
    row("unreduced_out_and_in", lambda n, a: n.jax.shard_map(lambda u: n.lax.psum(u, "y") * 3.0, in_specs=summands(n), out_specs=out(n, "x", None))(
        summing(n)(a)), [A], XY, grad=True),
    row("unreduced_dot_into_shard_map", lambda n, a, b: n.jax.shard_map(
        lambda v: n.jnp.sin(n.lax.psum(v, "y")), in_specs=summands(n), out_specs=out(n, "x", None))(parts(n, a, b)), [A, B], XY, ("y",), grad=True),
    row("reduced_into_shard_map", lambda n, v, a: n.jax.shard_map(
        lambda r, a: a * n.lax.pcast(r, "y", to="varying").sum(), in_specs=(reduced(n), out(n, "x", "y")), out_specs=out(n, "x", "y"))(
            n.jax.sharding.reshard(v, reduced(n)), a), [V, A], (None,), XY, grad=True),
    row("reduced_out_of_shard_map", lambda n, v: n.jax.sharding.reshard(n.jax.shard_map(
        lambda v: n.lax.pcast(v * 2.0, "y", to="reduced"), in_specs=out(n, None), out_specs=reduced(n))(v), out(n, None)), [V], (None,),
        grad=True),
]
SAMPLES = [sample for rows in ROWS for sample in rows]
