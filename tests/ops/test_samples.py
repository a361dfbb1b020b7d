"""`ops` against the reference."""

from tests.reference.harness import cases, check


@cases("tests.ops.samples")
def test_reference(case, oracle):
    check(case, oracle)
