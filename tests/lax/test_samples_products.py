"""Ragged and scaled products, approximate top-k and sliding products against the reference, and against their laws."""

import pytest

from tests.lax.samples_products import BEYOND
from tests.reference import laws
from tests.reference.harness import cases, check, check_law, law_cases, report, subject
from tests.reference.sample import Case


@law_cases("tests.lax.samples_products")
def test_laws(case):
    check_law(case)


@cases("tests.lax.samples_products")
def test_reference(case, oracle):
    check(case, oracle)


_BEYOND = [Case("", sample, transform) for sample in BEYOND for transform in laws.LAWS
           if transform != "vmap" or not sample.name.startswith("outer_sizes")]


@pytest.mark.parametrize("case", _BEYOND, ids=[c.id for c in _BEYOND])
def test_laws_beyond_the_reference(case):
    report(case, "breaks a law", laws.law(case, subject()))
