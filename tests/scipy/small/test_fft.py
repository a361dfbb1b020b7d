"""Fourier and cosine transforms: dtypes, and lengths for axes that are not there."""

import numpy as np
import pytest
import scipy.fft

import xlab.numpy as jnp
from xlab.scipy import fft

X = np.random.RandomState(0).randn(3, 4)


@pytest.mark.parametrize("name", ["dct", "idct", "dctn", "idctn"])
def test_cosine_transforms_of_half_precision_are_single(name):
    for dtype in (jnp.float16, jnp.bfloat16):
        x = jnp.asarray(X, dtype)
        out = getattr(fft, name)(x)
        assert out.dtype == np.float32
        expected = getattr(scipy.fft, name)(np.asarray(x, np.float64))
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_more_lengths_than_axes_are_refused():
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        with pytest.raises(ValueError, match=r"lengths for 3 axes.*shape \(3, 4\), which has 2"):
            getattr(jnp.fft, name)(X, s=(1, 2, 3))
