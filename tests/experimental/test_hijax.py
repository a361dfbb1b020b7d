"""What rules of primitives as classes are handed: `AxisData` of a mapped axis, and a `CotangentAccumulator` of each operand."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.experimental.hijax import (
    AxisData,
    CotangentAccumulator,
    HiPrimitive,
    VJPHiPrimitive,
    Zero,
)
from xlab.sharding import AxisType

X, Y = np.float32([0.3, -1.2, 2.0]), np.float32([1.5, 0.5, -1.0])


def test_an_accumulator_adds_what_it_is_given():
    aval = xlab.typeof(X)
    accum = CotangentAccumulator(aval)
    assert accum.aval == aval and accum.total is None
    assert repr(accum) == "CotangentAccumulator(f32[3])"
    accum.accum(None)
    accum.accum(Zero(aval))
    assert accum.total is None  # nothing, not an array of zeros
    accum.accum(X)
    np.testing.assert_array_equal(accum.total, X)
    for nothing in (None, Zero(aval)):
        accum.accum(nothing)
    accum.accum(Y)
    accum.accum(Y)
    np.testing.assert_allclose(accum.total, X + 2 * Y, rtol=1e-6)
    with pytest.raises(AttributeError):
        accum.note = "no other attributes"


class Mixed(VJPHiPrimitive):
    """`x^2 y + sin(x)`, and what is not used; each term is added by itself, where it stands in the pytree of operands."""

    def __init__(self, aval):
        self.in_avals = ({"x": aval, "unused": aval}, aval)
        self.out_aval, self.params = aval, {}
        super().__init__()

    def expand(self, d, y):
        return plain(d["x"], y)

    def vjp_fwd(self, nzs_in, d, y):
        return self(d, y), (d["x"], y)

    def vjp_bwd(self, res, g, d, y_accum):
        x, y = res
        types.append((type(d["x"]), d["x"].aval, y_accum.aval))
        d["x"].accum(2 * x * y * g)
        d["x"].accum(jnp.cos(x) * g)
        y_accum.accum(x * x * g)


types: list = []
plain = lambda x, y: x * x * y + jnp.sin(x)


def mixed(x, y):
    return Mixed(xlab.typeof(x))({"x": x, "unused": x}, y)


@pytest.mark.parametrize("how", ["eager", "jit", "checkpoint"])
def test_a_backward_rule_adds_the_cotangents_of_each_operand(how):
    types.clear()
    wrap = {"eager": lambda f: f, "jit": xlab.jit, "checkpoint": xlab.checkpoint}[how]
    back = lambda f: xlab.grad(lambda x, y: (wrap(f)(x, y) * Y).sum(), argnums=(0, 1))(X, Y)
    for a, b in zip(back(mixed), back(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    aval = xlab.typeof(X)
    assert types and all(found == (CotangentAccumulator, aval, aval) for found in types)


def test_an_operand_to_which_nothing_is_added_has_a_derivative_of_zero():
    back = xlab.grad(lambda u: Mixed(xlab.typeof(X))({"x": X, "unused": u}, Y).sum())(X)
    np.testing.assert_array_equal(back, np.zeros(3))
    assert back.dtype == np.float32


class Shear(VJPHiPrimitive):
    """`a + k b`, linear in both: an operand that is known is a value in the transposed rule."""

    def __init__(self, aval, k):
        self.in_avals, self.out_aval, self.params = (aval, aval), aval, {"k": k}
        super().__init__()

    def expand(self, a, b):
        return a + self.k * b

    def transpose(self, ct, a, b):
        for x, term in ((a, ct), (b, self.k * ct)):
            if isinstance(x, CotangentAccumulator):
                x.accum(term)


def test_a_transposed_rule_has_accumulators_of_what_it_is_linear_in():
    shear = Shear(xlab.typeof(X), 3.0)
    both = xlab.linear_transpose(shear, X, X)(Y)
    np.testing.assert_allclose(both, [Y, 3 * Y], rtol=1e-6)
    (second,) = xlab.linear_transpose(lambda b: shear(jnp.zeros(3), b), X)(Y)
    np.testing.assert_allclose(second, 3 * Y, rtol=1e-6)


def seen_by_a_rule(map_, x):
    """What the batching rule of a primitive on arrays is told."""

    class Same(HiPrimitive):
        def abstract_eval(self, x):
            return x, set()

        def to_lojax(self, x):
            return x

        def batch(self, axis, args, dims):
            seen.append(axis)
            return self.bind(args[0]), dims[0]

    seen: list = []
    np.testing.assert_array_equal(map_(Same("same").bind)(x), x)
    return seen


def test_a_batching_rule_is_told_of_the_axis():
    x = np.eye(3, 4)
    (axis,) = seen_by_a_rule(lambda f: xlab.vmap(f, axis_name="rows"), x)
    assert type(axis) is AxisData and axis == AxisData("rows", 3)
    name, size, spmd, explicit = axis
    assert (name, size, spmd, explicit) == ("rows", 3, None, None)
    (axis,) = seen_by_a_rule(lambda f: xlab.vmap(f, in_axes=1, out_axes=1, axis_name="i"), x)
    assert axis == AxisData("i", 4)
    inner, outer = seen_by_a_rule(
        lambda f: xlab.vmap(xlab.vmap(f, axis_name="inner"), axis_name="outer"), x
    )
    assert (inner, outer) == (AxisData("inner", 4), AxisData("outer", 3))
    (axis,) = seen_by_a_rule(lambda f: xlab.vmap(f, axis_name="i", spmd_axis_name="x"), x)
    assert axis.spmd_name == ("x",) and axis != AxisData("i", 3)


def test_a_batching_rule_is_told_which_axes_of_a_mesh_shard_the_dimension():
    mesh = xlab.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,), devices=xlab.devices()[:2])
    with xlab.set_mesh(mesh):
        for spec, names in ((xlab.P("x", None), ("x",)), (xlab.P(None, None), None)):
            x = xlab.device_put(np.ones((4, 3)), xlab.NamedSharding(mesh, spec))
            (axis,) = seen_by_a_rule(xlab.vmap, x)
            assert axis.size == 4
            assert axis.explicit_mesh_axis == names
            assert axis.mesh == (names and mesh.abstract_mesh)


@pytest.mark.parametrize("hand", [lambda axis: axis, lambda axis: axis._replace(name="other")])
def test_what_has_no_batching_rule_is_mapped_over_the_axes_of_a_mesh(hand):
    class Twice(HiPrimitive):
        def abstract_eval(self, x):
            return x, set()

        def to_lojax(self, x):
            return x * 2

        def batch(self, axis, args, dims):
            return super().batch(hand(axis), args, dims)

    mesh = xlab.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,), devices=xlab.devices()[:2])
    with xlab.set_mesh(mesh):
        x = xlab.device_put(np.ones((4, 3)), xlab.NamedSharding(mesh, xlab.P("x", None)))
        for call in (xlab.vmap(Twice("twice").bind), xlab.jit(xlab.vmap(Twice("twice").bind))):
            y = call(x)
            np.testing.assert_array_equal(y, 2 * np.ones((4, 3)))
            assert xlab.typeof(y).sharding.spec == xlab.P("x", None)
