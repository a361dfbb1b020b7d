"""`image` against the reference."""

from tests.reference.harness import cases, check


@cases("tests.facades.samples_image")
def test_reference(case, oracle):
    check(case, oracle)
