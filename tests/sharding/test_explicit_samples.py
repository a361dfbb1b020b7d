"""Sharding in types against the reference: values, the sharding types state, error classes."""

from tests.reference.harness import cases, check


@cases("tests.sharding.samples_explicit")
def test_reference(case, oracle):
    check(case, oracle)
