"""Special functions against the reference, and against their own laws."""

from tests.reference.harness import cases, check, check_law, law_cases


@law_cases("tests.lax.samples_special")
def test_laws(case):
    check_law(case)


@cases("tests.lax.samples_special")
def test_reference(case, oracle):
    check(case, oracle)
