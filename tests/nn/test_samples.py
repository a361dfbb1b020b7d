"""`nn` against the reference, and against its laws."""

from tests.reference.harness import cases, check, check_law, law_cases


@law_cases("tests.nn.samples")
def test_law(case):
    check_law(case)


@cases("tests.nn.samples")
def test_reference(case, oracle):
    check(case, oracle)
