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


def test_complex_transforms_take_floats_of_8_bits():
    x = jnp.asarray([1, 2, -0.5, 4], jnp.float8_e4m3fn)
    for name, n in (("fft", None), ("ifft", 6), ("fftn", None), ("irfft", 5), ("hfft", None)):
        more = {} if n is None else {"n": n}
        out = getattr(jnp.fft, name)(x, **more)
        expected = getattr(jnp.fft, name)(x.astype(np.float32), **more)
        assert out.dtype == expected.dtype
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="RFFT input must be float32 or float64"):
        jnp.fft.rfft(x)
