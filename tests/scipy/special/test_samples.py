"""`scipy.special` against the reference, and against its own laws."""

from tests.reference.harness import cases, check, check_law, law_cases


@law_cases("tests.scipy.special.samples")
def test_laws(case):
    check_law(case)


@cases("tests.scipy.special.samples")
def test_reference(case, oracle):
    check(case, oracle)
