"""The derivative of a weak value by a weak value is weak, so that it takes the dtype of an array beside it."""

from __future__ import annotations

import pytest

import xlab
import xlab.numpy as jnp
from xlab import nn

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
