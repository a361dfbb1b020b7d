"""The beta distribution where its parameters say nothing, and in its upper tail."""

import numpy as np
import pytest

import xlab
from xlab.scipy.stats import beta


@pytest.mark.parametrize("f", [beta.pdf, beta.logpdf])
def test_parameters_without_a_distribution(f):
    x = np.float32([-1, 0.3, 2])
    for a, b, scale in ((0, 1, 1), (-1, 2, 1), (2, 0, 1), (2, 2, 0), (2, 2, -1), (np.nan, 2, 1)):
        assert np.isnan(f(x, a, b, 0, scale)).all()
    assert np.isnan(f(np.nan, 2.0, 2.0)) and np.isnan(f(x, 2.0, 2.0, np.nan)).all()
    assert f(2.0, 2.0, 2.0) == (0 if f is beta.pdf else -np.inf)


def test_the_upper_tail():
    """Of a = 1: (1 - x)^b."""
    with xlab.enable_x64(True):
        x, b = np.array([1e-3, 0.5, 0.999]), np.array([0.5, 5.5, 30])[:, None]
        tail = (1 - x) ** b
        np.testing.assert_allclose(beta.sf(x, 1.0, b), tail, rtol=1e-11)
        np.testing.assert_allclose(beta.logsf(x, 1.0, b), np.log(tail), rtol=1e-11)
