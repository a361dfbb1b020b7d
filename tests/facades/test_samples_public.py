"""Public names and forms of calls that libraries use, against the reference."""

from tests.reference.harness import cases, check


@cases("tests.facades.samples_public")
def test_reference(case, oracle):
    check(case, oracle)
