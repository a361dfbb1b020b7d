"""Parameters given by keyword, or seldom, against the reference."""

from tests.reference.harness import cases, check


@cases("tests.numpy.samples_parameters")
def test_reference(case, oracle):
    check(case, oracle)
