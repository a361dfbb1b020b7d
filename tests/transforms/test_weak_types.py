"""The derivative of a weak value by a weak value is weak, so that it takes the dtype of an array beside it."""

from __future__ import annotations

import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax, nn

FUNCTIONS = [
    lambda x: x**2,
    lambda x: x**3,
    lambda x: jnp.maximum(x, 0),
    jnp.sqrt,
    jnp.tanh,
    jnp.log1p,
    nn.sigmoid,
    nn.silu,
    xlab.checkpoint(jnp.tanh),
]


@pytest.mark.law
@pytest.mark.parametrize("fun", FUNCTIONS)
def test_derivatives_by_a_number_are_weak(fun):
    for derivative in (
        xlab.grad(fun),
        xlab.grad(xlab.jit(fun)),
        xlab.grad(xlab.grad(fun)),
        lambda x: xlab.jvp(fun, (x,), (1.0,))[1],
    ):
        assert xlab.make_jaxpr(derivative)(0.5).out_avals[0].weak_type


def test_a_derivative_takes_the_dtype_beside_it():
    assert (xlab.grad(lambda x: x**2)(3.0) * jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16


def test_the_gradient_of_a_part_of_a_complex_number_is_strong():
    for part in (lambda z: z.real, lambda z: z.imag * 2):
        assert not xlab.make_jaxpr(xlab.grad(part))(1 + 2j).out_avals[0].weak_type


def weak(fun, x):
    """Whether the gradient of the sum of a function, in a weak number or array, is weak."""
    grad = xlab.grad(lambda v: jnp.sum(fun(v)))
    return xlab.make_jaxpr(grad)(x).out_avals[0].weak_type


@pytest.mark.parametrize(
    "fun",
    [jnp.log10, jnp.log2, jnp.median, lax.sort, lambda v: v[jnp.array([0])], lambda v: jnp.quantile(v, 0.5)],
)  # fmt: skip
def test_gradients_through_strong_factors_and_gathers_are_strong(fun):
    assert not weak(fun, lax.broadcast(2.0, (3,)))
    if fun in (jnp.log10, jnp.log2, jnp.median):
        assert not weak(fun, 2.0)
        assert not fun(2.0).weak_type


@pytest.mark.parametrize(
    "fun",
    [
        lambda v: jnp.ones(3).at[0].set(v),
        lambda v: jnp.ones(3).at[0].add(v),
        lambda v: jnp.ones(3).at[0].multiply(v),
        lambda v: lax.igamma(jnp.ones(3), v),
        lambda v: lax.igammac(2.0, v),
        lambda v: lax.betainc(jnp.ones(3), jnp.ones(3), v * 0.2),
    ],
)
def test_gradients_in_a_number_beside_strong_operands_are_weak(fun):
    assert weak(fun, 2.0)


def test_conversions_of_angles_make_weak_arrays_strong_and_leave_numbers_weak():
    for fun in (jnp.deg2rad, jnp.rad2deg, jnp.sinc):
        assert fun(2.0).weak_type and not fun(lax.broadcast(2.0, (3,))).weak_type


def test_a_weak_integer_to_the_power_of_a_truth_value_is_weak():
    assert (lax.broadcast(2, (3,)) ** True).weak_type
    assert not (jnp.ones(3, "int32") ** True).weak_type


def test_random_gamma_grad_of_numbers_is_weak():
    assert lax.random_gamma_grad(2.0, 2.0).weak_type
    assert not lax.random_gamma_grad(2.0, jnp.ones(3)).weak_type
