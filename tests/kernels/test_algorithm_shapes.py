"""Algorithms as kernels at shapes and blocks that Hypothesis draws, interpreted; XLAB_KERNEL_SHAPES says how many of each."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import algorithms as kernels
from xlab import numpy as jnp
from xlab.kernels import interpret_mode

EXAMPLES = int(os.environ.get("XLAB_KERNEL_SHAPES", "6"))
few = settings(max_examples=EXAMPLES, deadline=None)
sizes, blocks = st.integers(1, 12), st.integers(1, 7)


def numbers(*shape):
    """Small integers as floats: sums of them are exact in any order."""
    return np.random.default_rng(shape).integers(-4, 5, shape).astype("float32")


def interpreted(f, *args):
    with interpret_mode("value"):
        return np.asarray(f(*args))


@few
@given(sizes, sizes, sizes, st.tuples(blocks, blocks, blocks))
def test_k35_products(m, k, n, tiles):
    x, y = numbers(m, k), numbers(k, n)
    np.testing.assert_array_equal(interpreted(kernels.matmul, x, y, tiles), x @ y)


@few
@given(st.integers(1, 20), blocks)
def test_k42_scans(n, block):
    x = numbers(n)
    got = interpreted(lambda x: kernels.scan(jnp.add, x, 0, block), x)
    np.testing.assert_array_equal(got, np.cumsum(x))


@few
@given(sizes, st.integers(1, 20), st.tuples(blocks, blocks))
def test_k37_softmax_and_argmax(rows, n, tiles):
    x = numbers(rows, n)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    got = interpreted(kernels.softmax, x, tiles)
    np.testing.assert_allclose(got, e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(interpreted(kernels.argmax, x, tiles), x.argmax(axis=1))


@few
@given(st.integers(1, 20), st.integers(1, 6), blocks)
def test_k13_histograms(n, bins, block):
    x = np.random.default_rng(n).integers(0, bins, n).astype("int32")
    got = interpreted(lambda x: kernels.histogram(x, bins, block), x)
    np.testing.assert_array_equal(got, np.bincount(x, minlength=bins))


@few
@given(st.integers(1, 3), st.integers(1, 20))
def test_bitonic_sorts(rows, n):
    x = numbers(rows, n)
    np.testing.assert_array_equal(interpreted(kernels.sort, x), np.sort(x, axis=1))
