"""Binomial and multinomial numbers against the reference."""

from tests.reference.harness import cases, check


@cases("tests.random.samples_counts")
def test_reference(case, oracle):
    check(case, oracle)
