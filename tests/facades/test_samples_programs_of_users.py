"""Programs of users against the reference."""

from tests.reference.harness import cases, check


@cases("tests.facades.samples_programs_of_users")
def test_reference(case, oracle):
    check(case, oracle)
