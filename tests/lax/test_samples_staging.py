"""What staging offers, against the reference."""

from tests.reference.harness import cases, check


@cases("tests.lax.samples_staging")
def test_reference(case, oracle):
    check(case, oracle)
