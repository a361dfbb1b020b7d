"""The printed form and the primitives of small programs, as the reference gives them."""

from tests.reference.harness import cases, check


@cases("tests.core.samples_jaxprs")
def test_reference(case, oracle):
    check(case, oracle)
