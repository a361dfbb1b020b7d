"""Activations of unusual operands."""

import numpy as np
import pytest

import xlab
from xlab import nn

Z = np.complex64([1 + 2j, -3 - 1j, 0, 7 + 1j, 6 - 1j])


@pytest.mark.parametrize(
    ("name", "slopes"),
    [
        ("relu", [1, 0, 0, 1, 1]),
        ("relu6", [1, 0, 0, 0, 1]),
        ("hard_sigmoid", np.array([1, 0, 1, 0, 0]) / 6),
    ],
)
def test_complex_numbers_have_slopes_in_their_order(name, slopes):
    """By real parts, then by imaginary parts, as in the maximum of complex numbers."""
    f = getattr(nn, name)
    found = xlab.grad(lambda z: f(z).sum(), holomorphic=True)(Z)
    np.testing.assert_allclose(found, np.complex64(slopes), rtol=1e-6)
    assert xlab.jvp(f, (Z,), (Z,))[0].dtype == np.complex64


def test_products_with_them_have_slopes_too():
    for f in (nn.hard_silu, nn.hard_swish):
        found = xlab.grad(lambda z, f=f: f(z).sum(), holomorphic=True)(Z[1:4])
        np.testing.assert_allclose(found, [0, 0.5, 1], rtol=1e-6)


def test_the_slope_at_a_weak_number_is_weak():
    """Through the maximum that is taken from the exponents."""
    from xlab.scipy.special import log_softmax, softmax

    for f in (softmax, log_softmax):
        assert xlab.grad(f)(2.0).weak_type
        assert not xlab.grad(f)(np.float32(2)).weak_type
        assert not f(2.0).weak_type
