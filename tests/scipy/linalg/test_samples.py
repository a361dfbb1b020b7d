"""`scipy.linalg` against the reference and the laws."""

from tests.reference.harness import cases, check, check_law, law_cases


@cases("tests.scipy.linalg.samples")
def test_reference(case, oracle):
    check(case, oracle)


@law_cases("tests.scipy.linalg.samples")
def test_law(case):
    check_law(case)
