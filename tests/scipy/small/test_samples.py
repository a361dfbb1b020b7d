"""The small rooms of `scipy` against the reference."""

from tests.reference.harness import cases, check


@cases("tests.scipy.small.samples")
def test_reference(case, oracle):
    check(case, oracle)
