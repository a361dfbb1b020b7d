"""Quantiles of the Cauchy distribution, which single precision has to the last digits only from the nearer end."""

import numpy as np

from xlab.scipy.stats import cauchy

Q = np.float32([1e-6, 1e-3, 0.2, 0.3, 0.5, 0.7, 0.8, 0.999])


def test_quantiles():
    exact = -1 / np.tan(np.pi * Q.astype(float))
    np.testing.assert_allclose(cauchy.ppf(Q), exact, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(cauchy.isf(Q), -exact, rtol=2e-6, atol=1e-6)
    assert cauchy.ppf(np.float32([0, 1])).tolist() == [-np.inf, np.inf]
    assert cauchy.isf(np.float32([0, 1])).tolist() == [np.inf, -np.inf]
    assert np.isnan(cauchy.ppf(np.nan))
