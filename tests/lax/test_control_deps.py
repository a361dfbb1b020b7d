"""`experimental.control_deps`: the compiler gets the order, on one device and on several, and nothing else changes."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.experimental.control_deps import control_dep, schedule
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P

X = np.random.RandomState(0).randn(4, 4).astype(np.float32)


def reversed_products(x, y, dep=control_dep):
    a, b = x @ y, y.T @ x
    dep(b, a)
    return a + 1, b


def ordered(f, *args):
    """How many instructions of the compiled program wait for another; its results are checked to be those of eager execution."""
    compiled = xlab.jit(f).lower(*args).compile()
    for a, b in zip(xlab.tree.leaves(compiled(*args)), xlab.tree.leaves(f(*args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return compiled.as_text().count("control-predecessors=")


def test_the_compiler_is_told():
    assert ordered(reversed_products, X, X) == 1
    assert ordered(lambda x, y: reversed_products(x, y, lambda a, b: None), X, X) == 0
    three = lambda x: (a := x @ x, b := x.T @ x, c := x @ x.T, schedule([c, a, b]))[:3]
    assert ordered(three, X) == 2
    assert ordered(lambda x: (schedule([x]), schedule(()), x)[2], X) == 0


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("vmap", xlab.vmap(reversed_products)),
        ("grad", lambda x, y: xlab.grad(lambda x, y: reversed_products(x, y)[0].sum())(x[0], y[0])),
        ("jvp", lambda x, y: xlab.jvp(reversed_products, (x[0], y[0]), (y[0], x[0]))),
        ("scan", lambda x, y: lax.scan(lambda c, z: (c, reversed_products(z, c)), y[0], x)),
    ],
)
def test_under_transformations(name, f):
    stack = np.stack([X, X.T])
    assert ordered(f, stack, stack) >= 1


def test_over_devices_parts_are_ordered_as_they_lie():
    mesh = xlab.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = xlab.device_put(np.tile(X, (2, 2)), NamedSharding(mesh, P("x", "y")))

    def f(x, dep):
        a, b = jnp.sin(x), jnp.cos(x) * 2
        dep(b, a)
        return a, b

    with_it, without = (
        xlab.jit(lambda x, dep=dep: f(x, dep)).lower(x).compile()
        for dep in (control_dep, lambda a, b: None)
    )
    for text in (with_it.as_text(), without.as_text()):
        assert "all-gather" not in text and "custom-call" not in text
    for a, b in zip(with_it(x), without(x)):
        np.testing.assert_array_equal(a, b)
        assert a.sharding == b.sharding

    def body(x):
        a, b = lax.psum(x, "x"), lax.psum(2 * x, "x")
        control_dep(b, a)
        return a + b

    for names in ({"x", "y"}, {"x"}):
        spec = P("x", "y") if len(names) == 2 else P("x")
        out = P(None, "y") if len(names) == 2 else P()
        g = xlab.shard_map(body, mesh=mesh, in_specs=spec, out_specs=out, axis_names=names)
        parts = np.asarray(x).reshape(4, 2, 8).sum(0)
        np.testing.assert_allclose(xlab.jit(g)(x), 3 * parts, rtol=1e-5)


def test_it_is_part_of_the_program_and_refuses_what_is_no_array():
    program = xlab.make_jaxpr(reversed_products)(X, X)
    assert [e.primitive.name for e in program.eqns].count("control_dep") == 1
    with pytest.raises(TypeError, match="text"):
        control_dep("text", X)
    with pytest.raises(TypeError, match="None"):
        xlab.jit(lambda x: control_dep(x, None))(X)
