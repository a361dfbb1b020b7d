"""Functions made into ufuncs, and fits, against the reference."""

from tests.reference.harness import cases, check


@cases("tests.numpy.samples_ufunc")
def test_reference(case, oracle):
    check(case, oracle)
