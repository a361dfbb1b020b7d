"""Callbacks against the reference."""

from tests.reference.harness import cases, check


@cases("tests.lax.samples_callbacks")
def test_reference(case, oracle):
    check(case, oracle)
