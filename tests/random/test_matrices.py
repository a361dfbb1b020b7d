"""Normal vectors of 16 bits: matrices have no decompositions there, so they are factored in 32."""

import numpy as np
import pytest

import xlab.numpy as jnp
from xlab import random


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_normal_vectors_of_halves(dtype, method):
    key, mean = random.key(3), np.float32([1, -2])
    draws = random.multivariate_normal(
        key, mean, np.diag(np.float32([4, 9])), (50,), jnp.dtype(dtype), method
    )
    assert draws.dtype == dtype and draws.shape == (50, 2)
    # Of one variance after the other, up to signs and order of the axes, which a decomposition may choose.
    plain = np.abs(np.asarray(random.normal(key, (50, 2), jnp.dtype(dtype)), np.float32))
    found = np.abs(np.asarray(draws, np.float32) - mean)
    close = [
        np.allclose(found, plain[:, axes] * [2, 3], rtol=0.02, atol=0.05)
        for axes in ([0, 1], [1, 0])
    ]
    assert any(close)
