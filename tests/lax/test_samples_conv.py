"""Convolutions and precisions against the reference, and against their laws."""

import numpy as np
import pytest

from tests.lax.samples_conv import CUT, W, X
from tests.reference import laws
from tests.reference.harness import cases, check, check_law, law_cases, report, subject
from tests.reference.sample import Case
from xlab import lax

_CUT = [Case("", sample, transform) for sample in CUT for transform in laws.LAWS]


@law_cases("tests.lax.samples_conv")
def test_laws(case):
    check_law(case)


@cases("tests.lax.samples_conv")
def test_reference(case, oracle):
    check(case, oracle)


@pytest.mark.parametrize("case", _CUT, ids=[c.id for c in _CUT])
def test_laws_of_negative_padding(case):
    report(case, "breaks a law", laws.law(case, subject()))


def test_negative_padding_cuts():
    cut = lax.conv_general_dilated(X[:, :, 1:, :-2], W, (1, 1), ((0, 1), (0, 0)))
    np.testing.assert_allclose(lax.conv_general_dilated(X, W, (1, 1), ((-1, 1), (0, -2))), cut, rtol=1e-5, atol=1e-5)
