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


class _Counting(core.Trace):
    """Written as for JAX's public API: it names the operations and drops rules of derivatives."""

    def __init__(self, outer):
        super().__init__()
        self.outer, self.seen = outer, []

    def process_primitive(self, primitive, tracers, params):
        self.seen.append(primitive.name)
        avals = [xlab.typeof(x) for x in tracers]
        return primitive.bind_with_trace(self.outer, tracers, avals, params)

    def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
        self.seen.append(fun.f.__name__)
        return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(self, primitive, fun, fwd, bwd, tracers, out_trees, symbolic_zeros):
        self.seen.append(fwd.f.__name__)
        out = fwd.call_wrapped(*tracers)
        assert [tree.num_leaves for tree in out_trees()] == [1, 1]
        return out[:1]


def test_traces_of_libraries_see_calls_with_rules():
    @xlab.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda primals, tangents: (cube(*primals), tangents[0]))

    @xlab.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (double.fun(x), x), lambda res, ct: (ct,))

    with core.take_current_trace() as outer:
        trace = _Counting(outer)
        with core.set_current_trace(trace):
            out = double(xlab.nn.relu(cube(2.0)))
    assert float(out) == 16.0
    assert trace.seen == ["cube", "_relu", "max", "<lambda>", "mul"]


def test_a_trace_says_what_it_does_not_define():
    with core.take_current_trace(), core.set_current_trace(_Failing()):
        with pytest.raises(
            NotImplementedError, match="_Failing does not define process_custom_jvp_call"
        ):
            xlab.nn.relu(1.0)
