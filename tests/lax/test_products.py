"""Ragged and sliding products that the reference does not have, against their laws; products inside fusions."""

import numpy as np
import pytest

import xlab
from tests.lax.samples_products import BEYOND
from tests.reference import laws
from tests.reference.harness import law_cases, report, subject
from tests.reference.sample import Case
from xlab import lax

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
