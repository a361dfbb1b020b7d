"""One function over a mesh in its three forms: as a program of partitions, as one of replicas, and vectorized over a reshaped array."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.avals import ShapedArray
from xlab.core.primitive import Primitive
from xlab.experimental.replicas import lower_replicas
from xlab.interpreters import batching
from xlab.parallel.manual import global_aval, local_aval
from xlab.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, P, make_mesh

X = np.arange(64, dtype=np.float32).reshape(8, 8)
LARGE = jnp.arange(128.0).reshape(4, 32)
RING = [(i, (i + 1) % 4) for i in range(4)]

# A body, the specs of its argument and of its result.
BODIES = {
    "elementwise": (lambda a: jnp.sin(a) * 2, P("x", "y"), P("x", "y")),
    "psum": (lambda a: jnp.tanh(a) + lax.psum(a, "x"), P("x", "y"), P("x", "y")),
    "pmax over both": (lambda a: lax.pmax(a, ("x", "y")), P("x", "y"), P()),
    "axis_index": (lambda a: a + 10 * lax.axis_index("y") + lax.axis_index("x"), P("x", "y"), P("x", "y")),
    "ppermute": (lambda a: lax.ppermute(a, "x", RING), P("x", "y"), P("x", "y")),
    "all_gather": (lambda a: lax.all_gather(a, "y", axis=1, tiled=True) * 2, P("x", "y"), P("x")),
    "all_to_all": (lambda a: lax.all_to_all(a, "y", 1, 0, tiled=True), P("x", "y"), P("x", "y")),
    "psum_scatter": (lambda a: lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True), P(None, "y"), P("y", "x")),
    "constant": (lambda a: a @ LARGE, P("x", "y"), P("x")),
    "scan": (lambda a: lax.scan(lambda c, _: (c + lax.psum(c, "y"), None), a, None, length=2)[0], P("x", "y"), P("x", "y")),
}  # fmt: skip


@pytest.fixture(scope="module")
def mesh():
    return make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


@pytest.mark.parametrize("name", BODIES)
def test_x58_replicas_give_what_partitions_give(mesh, name):
    body, ins, outs = BODIES[name]
    where = {"mesh": mesh, "in_specs": ins, "out_specs": outs, "check_vma": False}
    want = xlab.shard_map(body, **where)(X)
    lowered = lower_replicas(body, X, **where)
    for given in (X, xlab.device_put(X, NamedSharding(mesh, ins))):
        got = lowered(given)
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert got.sharding.is_equivalent_to(want.sharding, 2) and got.committed


def test_x58_the_two_forms_of_a_module(mesh):
    body, ins, outs = BODIES["psum"]
    where = {"mesh": mesh, "in_specs": ins, "out_specs": outs}
    replicas = lower_replicas(body, X, **where)
    partitions = xlab.jit(xlab.shard_map(body, **where)).lower(X).as_text()
    assert "num_partitions = 1 : i32, mhlo.num_replicas = 8" in replicas.as_text()
    assert "num_partitions = 8 : i32, mhlo.num_replicas = 1" in partitions
    assert "@main(%arg0: tensor<2x4xf32>)" in replicas.as_text()
    assert "@main(%arg0: tensor<8x8xf32>" in partitions
    groups = "dense<[[0, 2, 4, 6], [1, 3, 5, 7]]>"
    for text in (replicas.as_text(), partitions):
        assert f"replica_groups = {groups}" in text
    assert "channel" not in replicas.as_text() and "manual_computation" not in replicas.as_text()
    hlo = replicas.hlo()
    assert "replica_count=8" in hlo and "channel_id" not in hlo
    tree = lower_replicas(
        lambda d, k: {"s": d["a"] * 2, "k": xlab.random.fold_in(k[0], 1)[None], "c": 3},
        {"a": X},
        keys := xlab.random.split(xlab.random.key(0), 8),
        mesh=mesh,
        in_specs=(P("x"), P(("x", "y"))),
        out_specs={"s": P("x"), "k": P(("x", "y")), "c": P()},
    )({"a": X}, keys)
    assert np.array_equal(tree["s"], 2 * X) and int(tree["c"]) == 3
    folded = xlab.vmap(xlab.random.fold_in, (0, None))(keys, 1)
    assert np.array_equal(xlab.random.key_data(tree["k"]), xlab.random.key_data(folded))


def test_x58_what_needs_partitions_is_refused(mesh):
    where = {"mesh": mesh, "in_specs": P("x"), "out_specs": P("x")}
    with pytest.raises(ValueError, match="f has the ordered effects|f do not run in an order"):

        def f(a):
            xlab.debug.print("{}", a, ordered=True)
            return a

        lower_replicas(f, X, **where)
    with pytest.raises(ValueError, match="calls back to Python"):
        lower_replicas(lambda a: xlab.pure_callback(np.sin, a, a), X, **where)
    with pytest.raises(ValueError, match="needs the devices"):
        lower_replicas(lambda a: a, X, **{**where, "mesh": AbstractMesh((4,), ("x",))})
    with pytest.raises(TypeError, match=r"types \(f32\[8,8\]\), and called with \(i32\[8\]\)"):
        lower_replicas(lambda a: a, X, **where)(np.arange(8))
    with pytest.raises(ValueError, match="not evenly divisible"):
        lower_replicas(lambda a: a, X[:6], **where)


def vectorized(body, ins, outs, x, mesh):
    """The form without devices: each mesh axis is a dimension that `vmap` maps, the last axis of the mesh innermost."""
    names, sizes = mesh.axis_names, dict(mesh.shape)

    def cut(a, spec):
        # Dimension d in pieces: (axis, d / axis), the axes in front in the order of the mesh.
        shape, at = [], {}
        for d, n in enumerate(a.shape):
            for name in spec.axes_of(d) if d < len(spec) else ():
                at[name] = len(shape)
                shape.append(sizes[name])
                n //= sizes[name]
            shape.append(n)
        a = a.reshape(shape)
        for name in names:
            if name not in at:
                a, at[name] = np.broadcast_to(a[..., None], (*a.shape, sizes[name])), a.ndim
        front = [at[name] for name in names]
        return a.transpose(*front, *(d for d in range(a.ndim) if d not in front))

    f = body
    for name in reversed(names):
        f = xlab.vmap(f, axis_name=name)
    got = np.asarray(f(cut(x, ins)))
    block = got.shape[len(names) :]
    result = np.zeros([n * np.prod([sizes[a] for a in outs.axes_of(d)], dtype=int) if d < len(outs) else n for d, n in enumerate(block)], got.dtype)  # fmt: skip
    where = NamedSharding(mesh, outs).devices_indices_map(result.shape)
    for place, device in np.ndenumerate(mesh.devices):
        result[where[device]] = got[place]
    return result


@pytest.mark.parametrize("name", ["elementwise", "psum", "pmax over both", "axis_index", "all_gather", "psum_scatter", "scan"])  # fmt: skip
def test_x59_vmap_over_the_axes_is_the_vectorized_form(mesh, name):
    body, ins, outs = BODIES[name]
    want = xlab.shard_map(body, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)(X)
    np.testing.assert_allclose(vectorized(body, ins, outs, X, mesh), want, rtol=1e-6)


def test_x59_a_primitive_may_have_a_rule_of_its_own_for_such_axes(mesh):
    called = []
    twice = Primitive("twice_of_test")
    twice.def_abstract_eval(lambda a: a)
    twice.def_impl(lambda a: a * 2)

    def rule(axis, operands, dims):
        called.append((axis.name, axis.size))
        return twice.bind(*operands), dims[0]

    batching.axis_primitive_batchers[twice] = rule
    try:
        got = vectorized(lambda a: twice.bind(a), P("x", "y"), P("x", "y"), X, mesh)
    finally:
        batching.axis_primitive_batchers.pop(twice)
    assert np.array_equal(got, 2 * X) and called == [("y", 2), ("x", 4)]


@pytest.mark.parametrize(
    ("manual", "text"),
    [
        ({"y"}, "{devices=[1,1,2,4]<=[4,2]T(1,0) last_tile_dims={manual, replicated}}"),
        ({"x"}, "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}"),
        ({"x", "y"}, "{manual}"),
    ],
)
def test_x60_tilings_say_which_axes_are_manual(mesh, manual, text):
    inside = mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual))
    assert str(NamedSharding(inside, P()).to_hlo_sharding(2)) == text
    # In and out again is the identity, whatever is manual.
    spec = P("x" if "x" in manual else None, "y" if "y" in manual else None)
    through = xlab.shard_map(lambda a: a, mesh=mesh, in_specs=spec, out_specs=spec, axis_names=manual)  # fmt: skip
    lowered = xlab.jit(through).lower(X).as_text()
    assert lowered.count("sdy.manual_computation") == 1
    assert f"manual_axes={{{', '.join(repr(a) for a in sorted(manual))}}}".replace("'", '"') in lowered  # fmt: skip
    assert np.array_equal(through(X), X)


def test_x12_x13_types_of_parts_and_of_wholes():
    mesh = AbstractMesh((4, 2), ("x", "y"))
    whole = ShapedArray((8, 6), np.float32)
    for spec, part, grown in (
        (P("x", "y"), (2, 3), (32, 12)),
        (P(("x", "y")), (1, 6), (64, 6)),
        (P(), (8, 6), (8, 6)),
    ):
        assert NamedSharding(mesh, spec).shard_shape((8, 6)) == part
        local = local_aval(whole, mesh, spec, True)
        assert local.shape == part and local.mat.varying == frozenset(spec.axes())
        assert global_aval(whole, mesh, spec, frozenset("xy"), False).shape == grown
        back = global_aval(local, mesh, spec, frozenset("xy"), True)
        assert back.shape == (8, 6) and not back.mat.varying
    with pytest.raises(ValueError, match="axis 1.*4 times.*size is 6"):
        NamedSharding(mesh, P(None, "x")).shard_shape((8, 6))
    with pytest.raises(ValueError, match="not evenly divisible"):
        xlab.shard_map(lambda a: a, mesh=Mesh(np.array(xlab.devices()[:4]), ("x",)), in_specs=P("x"), out_specs=P("x"))(np.ones(6))  # fmt: skip
