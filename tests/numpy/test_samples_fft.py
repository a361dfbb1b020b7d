"""Fourier transforms against the reference, and against their laws."""

from tests.reference.harness import cases, check, check_law, law_cases


@law_cases("tests.numpy.samples_fft")
def test_laws(case):
    check_law(case)


@cases("tests.numpy.samples_fft")
def test_reference(case, oracle):
    check(case, oracle)
