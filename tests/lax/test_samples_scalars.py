"""Scalars beside arrays against the reference."""

from tests.reference.harness import cases, check


@cases("tests.lax.samples_scalars")
def test_reference(case, oracle):
    check(case, oracle)
