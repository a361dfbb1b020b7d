"""Hi types by themselves: registration, the boundary of programs, what is said where something is missing."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.experimental.hi_values import vectors
from xlab.experimental.hijax import (
    HiPrimitive,
    HiType,
    MappingSpec,
    ShapedArray,
    aval_method,
    aval_property,
    register_hitype,
)

V = vectors("xlab")
U = V.Vec(jnp.float32([1.0, 2.0, 3.0]))


@dataclasses.dataclass(frozen=True)
class Pair:
    first: object
    second: object


@dataclasses.dataclass(frozen=True)
class PairSpec(MappingSpec):
    first: object
    second: object


@dataclasses.dataclass(frozen=True)
class PairType(HiType):
    """Two values of any types, with batches of its own kind."""

    first: object
    second: object

    parts = property(lambda self: (self.first, self.second))

    def lo_ty(self):
        return [a for p in self.parts for a in p.lo_ty()]

    def lower_val(self, x):
        return [*self.first.lower_val(x.first), *self.second.lower_val(x.second)]

    def raise_val(self, *arrays):
        n = len(self.first.lo_ty())
        return Pair(self.first.raise_val(*arrays[:n]), self.second.raise_val(*arrays[n:]))

    def to_tangent_aval(self):
        return PairType(*(p.to_tangent_aval() for p in self.parts))

    def dec_rank(self, size, spec):
        return PairType(
            self.first.dec_rank(size, spec.first), self.second.dec_rank(size, spec.second)
        )

    def inc_rank(self, size, spec):
        return PairType(
            self.first.inc_rank(size, spec.first), self.second.inc_rank(size, spec.second)
        )

    def leading_axis_spec(self):
        return PairSpec(*(p.leading_axis_spec() for p in self.parts))

    total = aval_property(lambda tracer: total_p.bind(tracer))
    plus = aval_method(lambda tracer, x: total_p.bind(tracer) + x)
    # Arrays have a method of this name too.
    copy = aval_method(lambda tracer, *, plus=0.0: total_p.bind(tracer) + plus)

    def _add(self, tracer, other):
        return total_p.bind(tracer) + other

    def _len(self, tracer):
        return 2


register_hitype(Pair, lambda p: PairType(xlab.typeof(p.first), xlab.typeof(p.second)))


class Total(HiPrimitive):
    def abstract_eval(self, pair):
        return ShapedArray((), jnp.float32), set()

    def to_lojax(self, pair):
        return pair.first.sum() + pair.second.sum()


class First(HiPrimitive):
    def abstract_eval(self, pair):
        return pair.first, set()

    def to_lojax(self, pair):
        return pair.first

    def batch(self, axis, args, dims):
        return self.bind(*args), dims[0].first


total_p, first_p = Total("total"), First("first")
PAIR = Pair(jnp.float32([1.0, 2.0]), jnp.float32([[3.0, 4.0], [5.0, 6.0]]))


def test_a_program_takes_and_returns_values():
    f = xlab.jit(lambda p: (p, V.mul(p["u"], p["u"])))
    p, square = f({"u": U})
    np.testing.assert_array_equal(p["u"].arr, U.arr)
    np.testing.assert_array_equal(square.arr, U.arr**2)
    assert str(f.trace({"u": U}).jaxpr).count("mul_vec") == 1


def test_it_is_traced_and_compiled_once():
    calls = []
    f = xlab.jit(lambda u: (calls.append(1), V.mul(u, u))[1])
    for _ in range(3):
        f(U)
    assert calls == [1]
    f(V.Vec(jnp.ones(2)))
    assert calls == [1, 1]


def test_options_of_jit_hold_for_each_array():
    u = V.Vec(jnp.ones(3))
    xlab.jit(lambda u: V.mul(u, u), donate_argnums=0)(u)
    assert u.arr.is_deleted()
    there = xlab.sharding.SingleDeviceSharding(xlab.devices()[1])
    out = xlab.jit(lambda u, n: V.mul(u, u) if n else u, in_shardings=there, static_argnums=1)
    assert out(V.Vec(np.float32([2.0])), 1).arr.devices() == {xlab.devices()[1]}
    assert xlab.device_put(U, xlab.devices()[2]).arr.devices() == {xlab.devices()[2]}


def test_ahead_of_time():
    lowered = xlab.jit(lambda u, k: (V.mul(u, u), k)).lower(V.VecType((3,)), np.float32(1))
    assert "stablehlo.multiply" in lowered.as_text()
    compiled = lowered.compile()
    square, k = compiled(U, np.float32(2))
    np.testing.assert_array_equal(square.arr, U.arr**2)
    assert k == 2 and compiled.out_info[0] == V.VecType((3,))
    assert "multiply" in compiled.as_text()
    with pytest.raises(
        TypeError, match=r"compiled for argument `u` of type .*\(3,\)\), and called with .*\(2,\)"
    ):
        compiled(V.Vec(jnp.ones(2)), np.float32(2))


def test_specs_say_where_the_examples_are():
    axes = PairSpec(0, 1)
    out = xlab.vmap(first_p.bind, in_axes=axes, axis_size=2)(PAIR)
    np.testing.assert_array_equal(out, PAIR.first)
    same = xlab.vmap(lambda p: p, in_axes=axes, out_axes=axes, axis_size=2)(PAIR)
    np.testing.assert_array_equal(same.second, PAIR.second)
    scanned, ys = xlab.lax.scan(lambda c, p: (c + total_p.bind(p), p), 0.0, PAIR, length=2)
    assert float(scanned) == 21
    np.testing.assert_array_equal(ys.second, PAIR.second)
    with pytest.raises(NotImplementedError, match="are at PairSpec.*needed at PairSpec"):
        xlab.vmap(lambda p: p, in_axes=axes, out_axes=PairSpec(0, 0), axis_size=2)(PAIR)


def test_how_many_examples_has_to_be_said():
    with pytest.raises(ValueError, match="give axis_size"):
        xlab.vmap(first_p.bind, in_axes=PairSpec(0, 0))(PAIR)
    with pytest.raises(ValueError, match="must provide `length`"):
        xlab.lax.scan(lambda c, p: (c, None), 0.0, PAIR)
    with pytest.raises(ValueError, match="MappingSpec is for values of hi types"):
        xlab.vmap(jnp.sin, in_axes=(PairSpec(0, 0),))(jnp.ones(3))
    with pytest.raises(
        NotImplementedError, match="vmap requires .*VecType.* to implement the `dec_rank` method"
    ):
        xlab.vmap(V.of, axis_size=3)(U)


def test_traced_values_have_what_their_type_defines():
    @xlab.jit
    def f(p):
        assert p.first.shape == (2,) and len(p) == 2
        with pytest.raises(AttributeError, match="PairType.* has no attribute 'third'"):
            p.third
        with pytest.raises(TypeError, match="no __mul__: define `_mul"):
            p * 2
        return p.total, p.plus(1.0), p + 2.0, p.copy(plus=3.0)

    assert [float(x) for x in f(PAIR)] == [21, 22, 23, 24]


def test_zeros_and_sums_by_arrays():
    aval = PairType(ShapedArray((2,), jnp.float32), ShapedArray((), jnp.float32))
    zero = aval.vspace_zero()
    assert [float(x.sum()) for x in (zero.first, zero.second)] == [0, 0]
    p = Pair(jnp.ones(2), jnp.float32(3))
    total = xlab.jit(lambda p: aval.vspace_add(p, p))(p)
    assert total.first.tolist() == [2, 2] and float(total.second) == 6
    with pytest.raises(NotImplementedError, match="`vspace_zero` method"):
        PairType(ShapedArray((), jnp.int8), ShapedArray((), jnp.float32)).vspace_zero()


def test_without_tangents_values_are_constants():
    @dataclasses.dataclass(frozen=True)
    class Constant(HiType):
        def lo_ty(self):
            return [ShapedArray((), jnp.float32)]

        def lower_val(self, c):
            return [c.x]

        def raise_val(self, x):
            return Held(x)

    class Held:
        def __init__(self, x):
            self.x = x

    register_hitype(Held, lambda c: Constant())

    class Value(HiPrimitive):
        def abstract_eval(self, c):
            return c.lo_ty()[0], set()

        def to_lojax(self, c):
            return c.x

    value = Value("value").bind
    c = Held(jnp.float32(3))
    f = lambda x, c: x * value(c)
    assert float(xlab.jit(xlab.grad(f))(2.0, c)) == 3
    with pytest.raises(TypeError, match=r"Constant.*no tangents: define `to_tangent_aval`"):
        xlab.grad(f, argnums=1)(2.0, c)


def test_types_of_tangents_and_cotangents_are_checked():
    square = lambda u: V.mul(u, u)
    with pytest.raises(TypeError, match="its tangent must be .*VecType"):
        xlab.jvp(square, (U,), (jnp.ones(3),))
    _, back = xlab.vjp(square, U)
    with pytest.raises(ValueError, match="takes a cotangent of type .*VecType"):
        back(jnp.ones(3))
    _, push = xlab.linearize(square, U)
    with pytest.raises(ValueError, match="takes a tangent of type .*VecType"):
        push(jnp.ones(3))


def test_what_can_be_registered():
    with pytest.raises(TypeError, match="takes a class and a function"):
        register_hitype(3, lambda x: None)
    with pytest.raises(ValueError, match="arguments of programs already"):
        register_hitype(np.ndarray, lambda x: None)
    with pytest.raises(TypeError, match="is a tuple, and these are pytrees"):
        register_hitype(NamedTuple("Point", [("x", int)]), lambda x: None)

    class Odd:
        pass

    register_hitype(Odd, lambda x: "no type")
    with pytest.raises(TypeError, match="has to return a HiType or MutableHiType, got 'no type'"):
        xlab.jit(lambda x: x)(Odd())


@pytest.mark.parametrize("operate", [jnp.sin, lambda u: u + 1, jnp.asarray, xlab.lax.sin])
def test_operations_on_arrays_say_what_to_do(operate):
    for f in (operate, xlab.jit(operate)):
        with pytest.raises(TypeError):
            f(U)


def test_a_lax_operation_on_a_traced_value_names_the_type():
    with pytest.raises(TypeError, match="sin computes with arrays.*hi type .*VecType.*HiPrimitive"):
        xlab.make_jaxpr(xlab.lax.sin_p.bind if hasattr(xlab.lax, "sin_p") else xlab.lax.sin)(U)


def test_types_are_pickled():
    aval = PairType(ShapedArray((2,), jnp.float32), ShapedArray((), jnp.float32))
    assert pickle.loads(pickle.dumps(aval)) == aval


def test_nothing_looks_for_hi_types_before_somebody_has_one():
    code = (
        "import xlab, xlab.numpy, xlab.experimental.hijax; from xlab.core.hi_types import in_use; "
        "assert not in_use.types and not in_use.mutable; "
        "T = type('T', (xlab.experimental.hijax.HiType,), {}); assert in_use.types"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
