"""`numpy` on unusual arguments against the reference."""

from tests.reference.harness import cases, check, check_law, law_cases


@cases("tests.numpy.samples_values")
def test_reference(case, oracle):
    check(case, oracle)


@law_cases("tests.numpy.samples_values")
def test_law(case):
    check_law(case)
