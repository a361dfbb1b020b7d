"""Complex extrema against the reference."""

from tests.reference.harness import cases, check


@cases("tests.lax.samples_complex")
def test_reference(case, oracle):
    check(case, oracle)
