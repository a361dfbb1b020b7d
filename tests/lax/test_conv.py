"""Convolutions: padding that cuts, and where derivatives lie."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.lax.samples_conv import CUT, W, X
from tests.reference import laws
from tests.reference.harness import law_cases, report, subject
from tests.reference.sample import Case
from xlab import lax

_CUT = [Case("", sample, transform) for sample in CUT for transform in laws.LAWS]


@law_cases(_CUT)
def test_laws_of_negative_padding(case):
    report(case, "breaks a law", laws.law(case, subject()))


def test_negative_padding_cuts():
    cut = lax.conv_general_dilated(X[:, :, 1:, :-2], W, (1, 1), ((0, 1), (0, 0)))
    np.testing.assert_allclose(
        lax.conv_general_dilated(X, W, (1, 1), ((-1, 1), (0, -2))), cut, rtol=1e-5, atol=1e-5
    )


def test_derivatives_lie_as_the_operands_do():
    """Along Explicit axes: the batch of examples is cut, the kernel's cotangent is a sum over all devices."""

    def loss(x, w):
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME")
        y = lax.reduce_window(y, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return lax.reduce_sum(lax.sin(y), (0, 1, 2, 3))

    expected = xlab.grad(loss, argnums=(0, 1))(X, W)
    mesh = xlab.make_mesh((4,), ("x",), axis_types=(xlab.sharding.AxisType.Explicit,))
    with xlab.set_mesh(mesh):
        cut = xlab.device_put(X, xlab.NamedSharding(mesh, xlab.P("x")))
        found = xlab.jit(xlab.grad(loss, argnums=(0, 1)))(cut, W)
        assert [tuple(xlab.typeof(g).sharding.spec)[:1] for g in found] == [("x",), (None,)]
        asked = lax.conv_general_dilated(cut, W, (1, 1), "SAME", out_sharding=xlab.P(None, "x"))
        assert str(xlab.typeof(asked)) == "float32[4,4@x,5,7]"
    for g, e in zip(found, expected):
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("preferred", [None, np.float32])
def test_a_convolution_of_weak_arrays_is_weak(preferred):
    x = jnp.broadcast_to(1.0, (1, 1, 4))
    out = lax.conv_general_dilated(x, x, (1,), "SAME", preferred_element_type=preferred)
    assert out.weak_type
    strong = np.ones((1, 1, 4), np.float32)
    assert not lax.conv_general_dilated(
        x, strong, (1,), "SAME", preferred_element_type=preferred
    ).weak_type
