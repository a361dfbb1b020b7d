"""Custom calls in derivatives against the reference."""

from tests.reference.harness import cases, check, check_law, law_cases


@law_cases("tests.transforms.samples_custom_calls")
def test_laws(case):
    check_law(case)


@cases("tests.transforms.samples_custom_calls")
def test_reference(case, oracle):
    check(case, oracle)
