"""Dtypes of a library's own, given by its rules: here numbers whose derivatives are joined by their maximum."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core import ShapedArray, dtypes
from xlab.experimental import EArray


class Rules:
    @staticmethod
    def physical_element_aval(dtype):
        return ShapedArray((), dtype.inner)

    @staticmethod
    def convert_from(dtype, other):
        return other == dtype.inner

    @staticmethod
    def convert_to(other, dtype):
        return other == dtype.inner

    @staticmethod
    def tangent_dtype(dtype):
        return dtype

    @staticmethod
    def zero(dtype):
        return lax.convert_element_type(np.array(-np.inf, dtype.inner), dtype)

    @staticmethod
    def add(dtype, x, y):
        largest = lax.max(
            lax.convert_element_type(x, dtype.inner), lax.convert_element_type(y, dtype.inner)
        )
        return lax.convert_element_type(largest, dtype)

    @staticmethod
    def full(shape, fill_value, dtype):
        return lax.convert_element_type(lax.full(shape, fill_value, dtype.inner), dtype)


class largest_number(dtypes.extended):
    pass


@dataclasses.dataclass(frozen=True)
class Largest(dtypes.ExtendedDType):
    inner: Any
    _rules: Any = Rules
    type: type = largest_number
    name = property(lambda self: f"largest<{np.dtype(self.inner)}>")
    __repr__ = dtypes.ExtendedDType.__repr__


L = Largest(jnp.float32)


@xlab.custom_vjp
def noted(x, scale):
    """Its derivative by the scale is what it saw."""
    return x * lax.convert_element_type(scale, "float32")


noted.defvjp(
    lambda x, s: (noted(x, s), (x, s)),
    lambda res, g: (g * lax.convert_element_type(res[1], "float32"), lax.convert_element_type(abs(res[0]), L)),
)  # fmt: skip


def test_what_it_is_made_of():
    assert L.base_dtype == np.float32 and L.base_shape == () and L.itemsize == 4
    assert Largest(jnp.float32) == L and Largest(jnp.bfloat16) != L
    assert jnp.issubdtype(L, dtypes.extended) and jnp.issubdtype(L, largest_number)
    assert not jnp.issubdtype(L, np.inexact) and str(ShapedArray((2,), L)) == "largest<float32>[2]"
    assert xlab.typeof(jnp.zeros(2, L)).to_tangent_aval() == ShapedArray((2,), L)
    assert xlab.random.key(0).dtype.tangent_dtype is None


def test_arrays():
    x = lax.convert_element_type(jnp.float32([3, -1]), L)
    assert isinstance(x, EArray) and x.dtype == L and x.astype("float32").tolist() == [3, -1]
    for made in (jnp.full((2, 3), 2, L), jnp.full_like(x, 2), lax.full((2,), 2.0, L), jnp.ones((), L)):  # fmt: skip
        assert set(np.ravel(made.astype("float32"))) == {2.0 if made.shape else 1.0}
    shared = jnp.full((8,), 1, L, device=xlab.NamedSharding(xlab.make_mesh((8,), "i"), xlab.P("i")))
    assert len(shared.addressable_shards) == 8 and shared.dtype == L
    with pytest.raises(
        ValueError,
        match=r"int32\[2\] to largest<float32>: .* made of|are float32, and are converted",
    ):
        lax.convert_element_type(jnp.int32([1, 2]), L)
    with pytest.raises(ValueError, match="Convert to float32 first"):
        x.astype("int32")


def joined(x, scale):
    s = lax.convert_element_type(scale, L)
    return noted(x, s) + noted(3 * x, s) + noted(-2 * x, s)


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit])
def test_derivatives_are_joined_by_the_rule(wrap):
    """By their sum it would be 12."""
    assert wrap(xlab.grad(joined, 1))(2.0, 5.0) == 6
    assert xlab.grad(wrap(joined), 1)(2.0, 5.0) == 6
    assert xlab.grad(wrap(joined))(2.0, 5.0) == 10
    many = wrap(xlab.vmap(xlab.grad(joined, 1), (0, None)))(jnp.float32([1, 2]), 5.0)
    assert many.tolist() == [3, 6]


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit])
def test_in_loops_and_branches(wrap):
    def loop(x, scale):
        s = lax.convert_element_type(scale, L)
        return lax.scan(lambda x, _: (noted(x, s), None), x, None, length=3)[0]

    # What each step saw: 1, 2 and 4 with a scale of 2; 8, 4 and 2 with one of a half.
    assert wrap(xlab.grad(loop, 1))(1.0, 2.0) == 4 and wrap(xlab.grad(loop, 1))(8.0, 0.5) == 8

    def branch(x, scale):
        s = lax.convert_element_type(scale, L)
        return lax.cond(x > 0, lambda: noted(x, s), lambda: x) + noted(x / 4, s)

    assert wrap(xlab.grad(branch, 1))(8.0, 1.0) == 8 and wrap(xlab.grad(branch, 1))(-8.0, 1.0) == 2


def test_where_there_is_no_derivative_it_is_the_rules_zero():
    # The element that was not used has the identity of the maximum.
    def parts(scales):
        s = lax.convert_element_type(scales, L)
        return noted(7.0, s[1])

    assert xlab.grad(parts)(jnp.ones(3)).tolist() == [-np.inf, 7, -np.inf]
    _, back = xlab.vjp(lambda s: (lax.convert_element_type(s, L), s), 1.0)
    zero = lax.convert_element_type(jnp.float32(-np.inf), L)
    assert back((zero, jnp.float32(2)))[0] == -np.inf


def test_rules_that_are_missing_are_named():
    @dataclasses.dataclass(frozen=True)
    class Bare(dtypes.ExtendedDType):
        _rules: Any = None
        type: type = largest_number
        name = "bare"

    with pytest.raises(
        TypeError,
        match="the dtype bare does not say what 'physical_element_aval' is: `_rules` of its class, .*Bare",
    ):
        jnp.zeros(2, Bare())
