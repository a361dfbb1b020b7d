"""Stacking against the reference."""

from tests.reference.harness import cases, check


@cases("tests.lax.samples_stacking")
def test_reference(case, oracle):
    check(case, oracle)
