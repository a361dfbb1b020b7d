"""Fixtures of the tests of kernels."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["compiled", "value"])
def both(request):
    """Runs the test's kernels as compiled programs, and by the value interpreter with copies that happen when they start."""
    from xlab.kernels import InterpretParams, interpret_mode

    value = InterpretParams(dma_execution_mode="eager", out_of_bounds_reads="uninitialized")
    with interpret_mode(value if request.param == "value" else "compiled"):
        yield request.param
