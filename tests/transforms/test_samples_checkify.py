"""Checked programs against the reference."""

from tests.reference.harness import cases, check


@cases("tests.transforms.samples_checkify")
def test_reference(case, oracle):
    check(case, oracle)
