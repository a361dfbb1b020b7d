"""`scipy.stats` against the reference."""

from tests.reference.harness import cases, check


@cases("tests.scipy.stats.samples")
def test_reference(case, oracle):
    check(case, oracle)
