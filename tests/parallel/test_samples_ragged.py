"""Types, programs and errors of `ragged_all_to_all`, `psend` and `precv` against the reference."""

from tests.reference.harness import cases, check


@cases("tests.parallel.samples_ragged")
def test_reference(case, oracle):
    check(case, oracle)
