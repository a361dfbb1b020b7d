"""Dtypes asked of random numbers, and parameters that are arrays."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import random

KEY = random.key(1)


@pytest.mark.parametrize(
    ("draw", "dtype"),
    [
        (lambda d: random.normal(KEY, (2,), d), "float64"),
        (lambda d: random.uniform(KEY, (2,), d), np.float64),
        (lambda d: random.randint(KEY, (2,), 0, 4, d), "int64"),
        (lambda d: random.poisson(KEY, 2.0, (2,), d), "int64"),
        (lambda d: random.rademacher(KEY, (2,), d), "int64"),
        (lambda d: random.bits(KEY, (2,), d), "uint64"),
        (lambda d: random.multinomial(KEY, 3, np.float32([1, 2]), dtype=d), "float64"),
    ],
)
def test_a_dtype_that_is_narrowed_warns(draw, dtype):
    with pytest.warns(UserWarning, match="64 in .* is not available"):
        assert draw(dtype).dtype.itemsize == 4


def test_python_types_and_defaults_do_not_warn():
    assert random.normal(KEY, (2,), float).dtype == np.float32
    assert random.randint(KEY, (2,), 0, 4, int).dtype == np.int32
    assert random.bits(KEY, (2,)).dtype == np.uint32


def test_multinomial_counts_may_be_integers():
    p = np.float32([0.2, 0.3, 0.5])
    counts = random.multinomial(KEY, 10, p, dtype=int)
    assert counts.dtype == np.int32 and counts.sum() == 10
    np.testing.assert_array_equal(counts, random.multinomial(KEY, 10, p))


def test_weibull_parameters_may_have_dimensions_of_their_own():
    scale, power = np.float32([1, 2]), np.float32([[1], [2]])
    out = random.weibull_min(KEY, scale, power)
    unit = random.weibull_min(KEY, 1.0, 1.0)
    np.testing.assert_allclose(out, scale * np.asarray(unit) ** (1 / power), rtol=1e-6)
    assert random.weibull_min(KEY, scale, power, (2,)).shape == (2, 2)


def test_double_sided_maxwell_has_the_dimensions_of_its_parameters_last():
    out = random.double_sided_maxwell(KEY, np.float32([0, 1000]), 1.0, (3,))
    assert out.shape == (3, 2) and jnp.all(out[:, 1] > 900) and jnp.all(out[:, 0] < 100)


def test_parameters_that_do_not_fit_are_named():
    p = np.ones(2, np.float32)
    with pytest.raises(ValueError, match="generalized_normal got shape"):
        random.generalized_normal(KEY, p)
    with pytest.raises(TypeError, match="ball takes one exponent p"):
        random.ball(KEY, 2, p)
    assert xlab.vmap(lambda p: random.ball(KEY, 2, p))(p).shape == (2, 2)
