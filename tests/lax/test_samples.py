"""`lax` against the reference, and against its own laws."""

from tests.reference.harness import cases, check, check_law, law_cases


@law_cases("tests.lax.samples")
def test_laws(case):
    check_law(case)


@law_cases("tests.lax.samples_data")
def test_laws_of_data(case):
    check_law(case)


@cases("tests.lax.samples")
def test_reference(case, oracle):
    check(case, oracle)


@cases("tests.lax.samples_data")
def test_reference_of_data(case, oracle):
    check(case, oracle)
