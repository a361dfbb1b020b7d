"""Questions about traced programs (D13 to D15, D21 to D25), and the rewriter of programs."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.extend import core
from xlab.interpreters import mlir
from xlab.sharding import Mesh, NamedSharding
from xlab.sharding import PartitionSpec as P

X = np.arange(8, dtype=np.float32)


@pytest.fixture
def mesh():
    return Mesh(np.array(xlab.devices()[:4]), ("x",))


@xlab.jit
def inner(x):
    return lax.sin(x) * 2.0


def branches(x):
    return lax.cond(x[0] > 0, lambda v: v + 3.0, inner, x)


def test_d23_primitives_are_found_by_a_part_of_their_name_at_any_depth():
    closed = xlab.make_jaxpr(branches)(X)
    assert core.has_primitive(closed, "sin") and core.has_primitive(closed.jaxpr, "si")
    assert not core.has_primitive(closed, "cos")
    assert core.has_primitive(
        xlab.make_jaxpr(xlab.pmap(lambda v: v, devices=xlab.devices()[:2]))(X[:2]), "shard_map"
    )


def test_d13_literals_of_nested_programs_are_found_in_order():
    assert list(core.literals(xlab.make_jaxpr(lambda x: (inner(x), 5))(X))) == [2.0, 5]
    found = list(core.literals(xlab.make_jaxpr(branches)(X)))
    assert 3.0 in found and 2.0 in found


def test_d13_arrays_that_become_text_are_read_ahead(monkeypatch):
    small, nested, large = jnp.ones(3), jnp.arange(3.0), jnp.ones(1000)
    started = []
    array = type(small)
    start = array.copy_to_host_async
    monkeypatch.setattr(
        array, "copy_to_host_async", lambda self: (started.append(self.shape), start(self))[1]
    )

    @xlab.jit
    def f(x):
        return x + small + xlab.jit(lambda v: v * nested)(x) + large.sum()

    f.lower(X[:3])
    # A large array stays on its device: it becomes an argument of the program.
    assert started == [(3,), (3,)]


def test_d21_shardings_inside_a_program_come_in_order_with_what_fixes_them(mesh):
    sharding, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    host = NamedSharding(mesh, P("x"), memory_kind="pinned_host")

    def f(x):
        x = lax.with_sharding_constraint(x, sharding)
        x = xlab.jit(lambda v: v + 1, in_shardings=(sharding,), out_shardings=whole)(x)
        x = xlab.shard_map(lambda v: v * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)
        y = xlab.device_put(x, host)
        x = xlab.device_put(x, xlab.devices()[0])
        return lax.cond(
            x[0] > 0, lambda v: lax.with_sharding_constraint(v, whole), lambda v: v, x
        ), y

    found = core.fixed_shardings(xlab.make_jaxpr(f)(X))
    assert [(s.primitive, s.sharding.spec, s.sharding.memory_kind) for s in found] == [
        ("sharding_constraint", P("x"), "device"),
        ("jit", P("x"), "device"),
        ("jit", P(), "device"),
        ("shard_map", P("x"), "device"),
        ("shard_map", P("x"), "device"),
        ("device_put", P("x"), "pinned_host"),
        ("sharding_constraint", P(), "device"),
    ]
    assert all("test_queries.py:" in str(s.source_info) for s in found)


def test_d22_what_asks_for_devices_is_lowered_for_each(mesh):
    assert core.needs_devices_to_lower(
        xlab.make_jaxpr(xlab.jit(lambda x: xlab.pure_callback(np.sin, x, x)))(X)
    )
    assert not core.needs_devices_to_lower(xlab.make_jaxpr(branches)(X))


def test_d25_the_largest_mesh_inside_says_how_many_devices_are_needed(mesh):
    two = Mesh(np.array(xlab.devices()[:2]), ("y",))
    mapped = xlab.shard_map(jnp.sin, mesh=mesh, in_specs=P("x"), out_specs=P("x"))

    def scanned(x):
        return lax.scan(lambda c, _: (mapped(c), None), x, length=2)[0]

    assert core.devices_needed(xlab.make_jaxpr(branches)(X)) == 1
    assert core.devices_needed(xlab.make_jaxpr(scanned)(X)) == 4
    assert (
        core.devices_needed(
            xlab.make_jaxpr(lambda x: inner(xlab.device_put(x, NamedSharding(two, P("y")))))(X)
        )
        == 2
    )


def test_d24_shapes_are_numbers():
    assert not core.has_dynamic_shapes(xlab.make_jaxpr(branches)(X))

    closed = xlab.make_jaxpr(branches)(X)
    dynamic = core.Var(core.ShapedArray(xlab.export.symbolic_shape("n"), np.float32))
    assert core.has_dynamic_shapes(closed.jaxpr.replace(constvars=[dynamic]))


def test_d14_a_rewriter_sees_the_pruned_program_and_says_what_is_lowered():
    seen = []

    def sines_are_cosines(closed):
        seen.append(closed)
        (sine,) = closed.jaxpr.eqns
        return core.ClosedJaxpr(
            closed.jaxpr.replace(eqns=[sine.replace(primitive=lax.cos_p)]), closed.consts
        )

    @xlab.jit
    def f(x, unused):
        lax.exp(unused)
        return lax.sin(x)

    core.set_rewriter(sines_are_cosines)
    try:
        np.testing.assert_allclose(f(X, X), np.cos(X), rtol=1e-6)
        assert len(seen) == 1 and len(seen[0].in_avals) == 1
    finally:
        core.set_rewriter(None)
    np.testing.assert_allclose(f(X, X), np.cos(X), rtol=1e-6)  # which is compiled
    xlab.clear_caches()
    np.testing.assert_allclose(f(X, X), np.sin(X), rtol=1e-6)


def test_d14_errors_of_a_rewriter_arrive_and_its_types_are_checked():
    def fails(closed):
        raise ZeroDivisionError("mine")

    f = xlab.jit(lambda x: lax.tan(x) * 3)
    try:
        core.set_rewriter(fails)
        with pytest.raises(ZeroDivisionError, match="mine"):
            f(X)
        core.set_rewriter(lambda closed: xlab.make_jaxpr(lambda x: x[:2])(X))
        with pytest.raises(TypeError, match=r"results of types \(float32\[2\]\).*float32\[8\]"):
            f(X)
    finally:
        core.set_rewriter(None)
    f(X)


def test_d15_a_program_without_operations_is_trivial():
    lowered = xlab.jit(lambda a, b: (b, a, 1)).lower(X, 3)
    assert lowered.is_trivial() and lowered.compile().is_trivial()
    assert not xlab.jit(lambda a: a + 1).lower(X).is_trivial()
    one, same = xlab.jit(lambda a: (a, a))(x := jnp.asarray(X))
    assert one is not same and one is not x


def test_d9_a_missing_lowering_names_the_primitive_and_the_platform():
    toy = core.Primitive("toy")
    toy.def_abstract_eval(lambda a: a)
    traced = xlab.jit(lambda x: toy.bind(x)).trace(X)
    for platforms, name in ((None, "cpu"), (("tpu",), "tpu")):
        with pytest.raises(NotImplementedError, match=f"lower 'toy' for the platform {name}"):
            traced.lower(lowering_platforms=platforms)
    with pytest.raises(NotImplementedError, match="lower 'toy' for the platform cpu"):
        toy.bind(X)


def test_d22_members_of_the_set_are_lowered_for_each_device():
    toy = core.Primitive("device_toy")
    toy.def_abstract_eval(lambda a: a)
    seen = []

    def lowering(ctx, x):
        seen.append(ctx.module.assignment)
        return x

    mlir.register_text_lowering(toy, lowering)
    first, second = xlab.devices()[:2]
    shared = xlab.jit(lambda x: toy.bind(x) + 1)
    for device in (first, second):
        shared(xlab.device_put(X, device))
    assert seen == [(first,)]
    mlir.lowered_with_devices.add(toy)
    try:
        own = xlab.jit(lambda x: toy.bind(x) + 2)
        for device in (first, second):
            own(xlab.device_put(X, device))
        assert seen == [(first,), (first,), (second,)]
    finally:
        mlir.lowered_with_devices.discard(toy)
