"""Eight devices against the reference, and against the laws."""

from tests.reference.harness import cases, check, check_law, law_cases


@law_cases("tests.parallel.samples")
def test_laws(case):
    check_law(case)


@cases("tests.parallel.samples")
def test_reference(case, oracle):
    check(case, oracle)
