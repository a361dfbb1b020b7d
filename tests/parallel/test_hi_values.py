"""`shard_map` of functions of values of hi types."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.experimental.hi_values import quantized, vectors
from xlab import lax
from xlab.experimental.hijax import HiPspec
from xlab.sharding import AxisType
from xlab.sharding import PartitionSpec as P

V, Q = vectors("xlab"), quantized("xlab")
X = jnp.arange(1.0, 5.0)


@dataclasses.dataclass(frozen=True)
class Specs(HiPspec):
    """A spec for each array."""

    specs: tuple

    def to_lo(self):
        return self.specs


@pytest.fixture(scope="module")
def mesh():
    return xlab.make_mesh((2,), ("i",), axis_types=AxisType.Auto)


def test_each_device_has_the_value_of_its_parts(mesh):
    seen = []

    def body(u, x):
        seen.append(xlab.typeof(u))
        return V.mul(u, V.to(x)), lax.psum(V.of(u).sum(), "i")

    spec = Specs((P("i"),))
    f = xlab.shard_map(body, mesh=mesh, in_specs=(spec, P("i")), out_specs=(spec, P()))
    for run in (f, xlab.jit(f)):
        out, total = run(V.Vec(X), X)
        np.testing.assert_array_equal(out.arr, X * X)
        assert out.arr.sharding.spec == P("i") and float(total) == 10
    assert set(seen) == {V.VecType((2,))}


def test_values_of_several_arrays(mesh):
    q = Q.quantize(X)
    spec = Specs((P("i"), P()))
    f = xlab.shard_map(Q.dequantize, mesh=mesh, in_specs=spec, out_specs=P("i"))
    np.testing.assert_allclose(xlab.jit(f)(q), Q.dequantize(q))
    parts = xlab.shard_map(lambda q: q, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(
        q
    )
    np.testing.assert_array_equal(parts.values, q.values)
    assert parts.scale == q.scale


def test_derivatives(mesh):
    spec = Specs((P("i"),))
    f = xlab.shard_map(lambda u: V.mul(u, u), mesh=mesh, in_specs=spec, out_specs=spec)
    g = xlab.jit(xlab.grad(lambda u: V.of(f(u)).sum()))(V.Vec(X))
    np.testing.assert_array_equal(g.arr, 2 * X)


def test_values_made_inside(mesh):
    body = lambda x: V.of(V.mul(V.to(x), V.to(x)))
    f = xlab.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    for run in (f, xlab.jit(f)):
        np.testing.assert_array_equal(run(X), X * X)
    np.testing.assert_array_equal(xlab.jit(xlab.grad(lambda x: f(x).sum()))(X), 2 * X)


def test_specs_that_do_not_fit(mesh):
    identity = lambda x: x
    spec = Specs((P("i"), P()))
    with pytest.raises(
        TypeError, match="a PartitionSpec for each of the 1 arrays of a value of type"
    ):
        xlab.shard_map(identity, mesh=mesh, in_specs=spec, out_specs=spec)(V.Vec(X))
    with pytest.raises(TypeError, match="is for values of a hi type, arrays take a PartitionSpec"):
        xlab.shard_map(identity, mesh=mesh, in_specs=spec, out_specs=spec)(X)
    with pytest.raises(NotImplementedError, match="has to define `to_lo`"):
        HiPspec().to_lo()
