"""`numpy.linalg` against the reference and the laws."""

from tests.reference.harness import cases, check, check_law, law_cases


@cases("tests.numpy.samples_linalg")
def test_reference(case, oracle):
    check(case, oracle)


@law_cases("tests.numpy.samples_linalg")
def test_law(case):
    check_law(case)
