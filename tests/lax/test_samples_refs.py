"""Mutable references against the reference implementation, and against their laws."""

from tests.reference.harness import cases, check, check_law, law_cases


@law_cases("tests.lax.samples_refs")
def test_laws(case):
    check_law(case)


@cases("tests.lax.samples_refs")
def test_reference(case, oracle):
    check(case, oracle)
