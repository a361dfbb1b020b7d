"""64-bit types on, against the reference."""

from tests.reference.harness import cases, check


@cases("tests.numpy.samples_wide")
def test_reference(case, oracle):
    check(case, oracle)
