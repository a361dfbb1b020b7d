"""Updates of parts of arrays, against the reference."""

from tests.reference.harness import cases, check


@cases("tests.numpy.samples_updates")
def test_reference(case, oracle):
    check(case, oracle)
