"""Functions that are wrapped step by step: what a step enters is left when the function fails."""

from __future__ import annotations

import pytest

import xlab
from xlab.extend import core, linear_util


class _Failing(core.Trace):
    def process_primitive(self, primitive, tracers, params):
        raise ValueError("no rule here")


@linear_util.transformation
def _under_a_trace(*args):
    with core.take_current_trace() as outer, core.set_current_trace(_Failing()):
        results = yield args, {}
        yield results, outer


def test_a_failing_function_leaves_no_trace_behind():
    wrapped = _under_a_trace(linear_util.wrap_init(xlab.numpy.sin))
    with pytest.raises(ValueError, match="no rule here") as caught:
        wrapped.call_wrapped(1.0)
    # The error and with it the frames are alive here, as they are in a debugger or a test runner.
    assert float(xlab.numpy.cos(0.0)) == 1.0 and caught
    assert float(xlab.jit(xlab.numpy.cos)(0.0)) == 1.0
