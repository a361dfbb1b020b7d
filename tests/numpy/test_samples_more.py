"""The rest of `numpy` against the reference."""

from tests.reference.harness import cases, check, check_law, law_cases


@cases("tests.numpy.samples_more")
def test_reference(case, oracle):
    check(case, oracle)


@law_cases("tests.numpy.samples_more")
def test_law(case):
    check_law(case)
