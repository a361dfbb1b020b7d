"""Ragged and sliding products that the reference does not have, against their laws; products inside fusions."""

import numpy as np
import pytest

import xlab
from tests.lax.samples_products import BEYOND
from tests.reference import laws
from tests.reference.harness import law_cases, report, subject
from tests.reference.sample import Case
from xlab import lax
from xlab import numpy as jnp

_BEYOND = [
    Case("", sample, transform)
    for sample in BEYOND
    for transform in laws.LAWS
    if transform != "vmap" or not sample.name.startswith("outer_sizes")
]


@law_cases(_BEYOND)
def test_laws_beyond_the_reference(case):
    report(case, "breaks a law", laws.law(case, subject()))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32])
def test_mulhi_inside_fusions(dtype):
    x = np.asarray([5, 2**6 - 1, 3], dtype)
    expected = ((x.astype(np.int64) * (x.astype(np.int64) * 2)) >> (8 * x.dtype.itemsize)).astype(
        dtype
    ) * 3
    for n in (1, 3):
        out = xlab.jit(lambda x: lax.mulhi(x, x * 2) * 3)(x[:n])
        np.testing.assert_array_equal(out, expected[:n])


def test_a_product_of_two_types_is_in_the_wider():
    for narrow, wide in (
        ("bfloat16", "float32"), ("uint8", "int8"), ("int8", "uint32"), ("uint32", "int32"), ("int32", "float16"), ("float16", "bfloat16"),
        ("float8_e4m3fn", "float8_e5m2"), ("float32", "complex64"), ("bool", "uint8"),
    ):  # fmt: skip
        x, y = jnp.ones((2, 3), narrow), jnp.ones((3,), wide)
        for out in (lax.dot(x, y), lax.dot(y, x.T), xlab.jit(lax.dot)(x, y)):
            assert out.dtype == wide, (narrow, wide)
            np.testing.assert_array_equal(np.asarray(out).astype(complex), [3, 3])


def test_derivatives_of_a_product_of_two_types_have_the_types_of_the_operands():
    x, y = jnp.asarray([[1.5, 2.0]], jnp.bfloat16), jnp.asarray([[3.0], [4.0]], jnp.float32)
    dx, dy = xlab.grad(lambda x, y: lax.dot(x, y).sum(), argnums=(0, 1))(x, y)
    assert (dx.dtype, dy.dtype) == (x.dtype, y.dtype)
    np.testing.assert_array_equal(np.asarray(dx, np.float32), [[3, 4]])
    np.testing.assert_array_equal(dy, [[1.5], [2]])
    whole = np.int32([[1], [2]])
    dx = xlab.grad(lambda x: lax.dot(x, whole).sum())(x)
    assert dx.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(dx, np.float32), [[1, 2]])
