"""What the reference has no answer for, or another one: messages, equality, forms in programs."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.reference.sample import namespaces
from tests.transforms.samples_hijax import linear, scaled_product
from xlab.experimental.hijax import VJPHiPrimitive

N = namespaces("xlab")


class Power(VJPHiPrimitive):
    def __init__(self, aval, n):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {"n": n}
        super().__init__()

    def expand(self, x):
        return x**self.n

    def transpose(self, ct, accum):
        accum.accum(ct * self.n)


def test_one_equation_and_equal_instances():
    aval = xlab.typeof(np.float32(1))
    assert Power(aval, 2) == Power(aval, 2) != Power(aval, 3)
    assert hash(Power(aval, 2)) == hash(Power(aval, 2))
    (eqn,) = xlab.make_jaxpr(lambda x: Power(aval, 2)(x))(np.float32(3)).eqns
    assert (
        eqn.primitive.name == "call_hi_primitive" and repr(eqn.params["_prim"]) == "Power[{'n': 2}]"
    )


def test_operands_are_checked():
    power = Power(xlab.typeof(np.float32(1)), 2)
    with pytest.raises(TypeError, match=r"operand\[0\] of type float32\[\], got float32\[3\]"):
        power(jnp.ones(3))
    with pytest.raises(TypeError, match="takes operands"):
        power(1.0, 2.0)


def test_a_linear_one_is_transposed_by_its_rule():
    power = Power(xlab.typeof(np.float32(1)), 1)
    assert float(xlab.linear_transpose(power, np.float32(1))(np.float32(5))[0]) == 5


def test_tangents_that_are_known_only_backwards_are_evaluated_forwards():
    f = scaled_product(N)
    x, y = jnp.float32(0.3), jnp.float32(1.5)
    _, dot = xlab.linearize(lambda x: f(x, y), x)
    np.testing.assert_allclose(dot(1.0), 200 * np.cos(0.3) * 1.5, rtol=1e-5)
    back = xlab.grad(lambda x: xlab.jit(f)(x, y))(x)
    np.testing.assert_allclose(back, 20 * np.cos(0.3) * 1.5, rtol=1e-5)
    np.testing.assert_allclose(xlab.grad(xlab.checkpoint(lambda x: f(x, y)))(x), back, rtol=1e-6)


def test_its_linearization_serves_both_modes():
    twice = linear(N)
    assert float(xlab.grad(twice)(1.0)) == 7 == float(xlab.jvp(twice, (1.0,), (1.0,))[1])


def test_a_backward_rule_with_too_few_cotangents():
    class Short(Power):
        def vjp_fwd(self, nzs_in, x):
            return self(x), x

        def vjp_bwd_retval(self, res, g):
            return ()

    with pytest.raises(TypeError, match="a cotangent, or None, for each of its 1"):
        xlab.grad(Short(xlab.typeof(np.float32(1)), 2))(np.float32(1))
