"""The binomial distribution at what is no number, where the reference takes it for a value outside of the support."""

import numpy as np

from xlab.scipy.stats import binom


def test_nan_gives_nan():
    assert np.isnan(binom.pmf(np.float32([np.nan, 1]), 4, 0.5)).tolist() == [True, False]
    assert np.isnan(binom.logpmf(1, 4, np.nan))
    assert binom.pmf(5, 4, 0.5) == 0
