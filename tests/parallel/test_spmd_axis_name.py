"""`vmap(..., spmd_axis_name=...)`: examples laid over mesh axes, in constraints and in `shard_map`s inside."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.sharding import AxisType, NamedSharding, SingleDeviceSharding
from xlab.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pytest.fixture
def mesh():
    if len(xlab.devices()) < 4:
        pytest.skip("needs four devices")
    return xlab.make_mesh(
        (2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2, devices=xlab.devices()[:4]
    )


def constrained(mesh):
    return lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("b")))


def summed(mesh, check_vma=True):
    return lambda x: xlab.shard_map(
        lambda x: lax.psum(x, "b") * 2,
        mesh=mesh,
        in_specs=P("b"),
        out_specs=P(),
        check_vma=check_vma,
    )(x)


def test_constraints_name_the_axis(mesh):
    f = constrained(mesh)
    eqn = xlab.make_jaxpr(xlab.vmap(f, spmd_axis_name="a"))(X).eqns[1]
    assert eqn.params["sharding"].spec == P("a", "b") and not eqn.params["unconstrained_dims"]
    eqn = xlab.make_jaxpr(xlab.vmap(f, in_axes=1, spmd_axis_name=("a",)))(X.T).eqns[1]
    assert eqn.params["sharding"].spec == P("b", "a")
    out = xlab.jit(xlab.vmap(f, spmd_axis_name="a"))(X)
    assert out.sharding.spec == P("a", "b")
    np.testing.assert_array_equal(out, X * 2)


@pytest.mark.parametrize("check_vma", [True, False])
def test_shard_map_shards_the_examples(mesh, check_vma):
    f = xlab.vmap(summed(mesh, check_vma), spmd_axis_name="a")
    (eqn,) = xlab.make_jaxpr(f)(X).eqns
    assert eqn.params["in_specs"] == (P("a", "b"),) and eqn.params["out_specs"] == (P("a"),)
    assert eqn.params["jaxpr"].invars[0].aval.shape == (2, 4)
    want = 2 * (X[:, :4] + X[:, 4:])
    np.testing.assert_array_equal(f(X), want)
    np.testing.assert_array_equal(xlab.jit(f)(X), want)
    grad = xlab.jit(xlab.grad(lambda x: (f(x) ** 2).sum()))(X)
    np.testing.assert_array_equal(grad, np.tile(4 * want, (1, 2)))


def test_arguments_that_are_the_same_for_all(mesh):
    f = xlab.vmap(
        lambda x, y: xlab.shard_map(
            lambda x, y: xlab.jit(jnp.multiply)(lax.psum(x, "b"), y),
            mesh=mesh,
            in_specs=(P("b"), P()),
            out_specs=P(),
        )(x, y),
        in_axes=(0, None),
        spmd_axis_name="a",
    )
    y = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(xlab.jit(f)(X, y), (X[:, :4] + X[:, 4:]) * y)


def test_errors(mesh):
    with pytest.raises(ValueError, match="cannot appear in shard_map in_specs"):
        xlab.vmap(summed(mesh), spmd_axis_name="b")(X)
    with pytest.raises(ValueError, match="cannot appear in with_sharding_constraint spec"):
        xlab.jit(xlab.vmap(constrained(mesh), spmd_axis_name="b"))(X)
    with pytest.raises(ValueError, match="not found in mesh"):
        xlab.jit(xlab.vmap(constrained(mesh), spmd_axis_name="zz"))(X)
    with pytest.raises(ValueError, match="that 2 divides"):
        xlab.vmap(summed(mesh), spmd_axis_name="a")(X[:3])


class TestJitInside:
    """The shardings of a `jit` inside are those of one example: a batch of them lies over the axes of `spmd_axis_name` too."""

    def mapped(self, **options):
        mesh = xlab.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
        model = NamedSharding(mesh, P("model"))
        one = xlab.jit(lambda x: jnp.sin(x) * 2, in_shardings=model, out_shardings=model)
        return (
            xlab.vmap(one, **options),
            NamedSharding(mesh, P("data", "model")),
            jnp.arange(64.0).reshape(8, 8),
        )

    def test_entries(self):
        f, whole, x = self.mapped(spmd_axis_name="data")
        (eqn,) = xlab.make_jaxpr(f)(x).eqns
        assert eqn.params["in_shardings"] == eqn.params["out_shardings"] == (whole,)
        f, _, x = self.mapped(spmd_axis_name="data", in_axes=1)
        eqn = xlab.make_jaxpr(f)(x).eqns[-1]
        assert eqn.params["in_shardings"] == (whole,)

    def test_no_communication(self):
        f, whole, x = self.mapped(spmd_axis_name="data")
        compiled = xlab.jit(f, in_shardings=whole).lower(x).compile()
        assert "all-gather" not in compiled.as_text() and "all-to-all" not in compiled.as_text()
        out = xlab.jit(f, in_shardings=whole)(x)
        assert out.sharding.spec == P("data", "model")
        np.testing.assert_allclose(out, np.sin(np.asarray(x)) * 2, rtol=1e-6)

    def test_one_axis_twice(self):
        f, _, x = self.mapped(spmd_axis_name="model")
        with pytest.raises(ValueError, match="spmd_axis_name .* cannot appear"):
            f(x)

    def test_a_device_is_kept(self):
        there = SingleDeviceSharding(xlab.devices()[1])
        out = xlab.vmap(xlab.jit(lambda x: x + 1, out_shardings=there))(jnp.ones(3))
        assert out.devices() == {xlab.devices()[1]}
