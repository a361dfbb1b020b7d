"""N7, N15: the stepper walks through kernels grid step by grid step, forwards and backwards, and ends with the eager result."""

import numpy as np

import xlab
from tests.kernels.machine import examples
from tests.observe.kernel_runs.test_recording import accumulating
from xlab import lax, observe
from xlab import numpy as jnp
from xlab.kernels import BlockSpec, kernel_call, program_id
from xlab.observe.records import Record


def call_and_program():
    call, x, y = accumulating(2, 1, 2)
    call = observed(call)
    return lambda a, b: jnp.sum(call(a, b)) * 2, x, y


def observed(call):
    """A call that runs compiled, as programs around it do."""
    from xlab.kernels import interpret_mode

    def run(*args):
        with interpret_mode():
            return call(*args)

    return run


def test_a_kernel_is_entered_per_grid_step():
    f, x, y = call_and_program()
    s = observe.Stepper(f, x, y)
    steps = list(s)
    inside = [step for step in steps if step.path and step.path[-1].startswith("kernel ")]
    assert [step.point for step in inside] == [0, 1, 2, 3] and {step.kernel for step in inside} == {
        0
    }
    assert inside[0].path[-1] == "kernel kernel 1/4"
    assert "reads args[0][0:4, 0:4], args[1][0:4, 0:4]" in inside[0].text
    assert "writes" in inside[1].text and "outputs[0][0:4, 0:4]" in inside[1].text
    held = {v.name: v for v in inside[1].outputs}
    assert held["outputs[0]"].max == (x[:4] @ y).max() and held["outputs[0]"].note == "[0:4, 0:4]"
    # The call itself is a step, with the results that it has without stepping.
    whole = steps[steps.index(inside[-1]) + 1]
    assert whole.path == () and whole.equation == inside[0].equation
    assert float(s.result()) == float(f(x, y))


def test_backwards_and_again_shows_the_same():
    f, x, y = call_and_program()
    s = observe.Stepper(f, x, y)
    forwards = [s.goto(i) for i in range(1, 7)]
    assert [s.goto(i) for i in reversed(range(1, 7))] == forwards[::-1]
    assert s.goto(2) == forwards[1] and s.next() == forwards[2]
    s.goto(1)
    assert s.out().path == () and float(s.result()) == float(f(x, y))
    s.goto(0)
    assert s.over().text.split()[2].startswith("kernel_call")


def test_what_nobody_has_written_is_no_nan():
    """K95: the first step of an accumulation writes scratch only; its output's block holds nothing yet."""
    f, x, y = call_and_program()
    s = observe.Stepper(f, x, y)
    first = s.next()
    assert {v.name for v in first.outputs} == {"scratch[0]"} and not any(
        v.nans for v in first.outputs
    )
    assert s.run_to_nan() is None

    def spoil(x_ref, o_ref):
        o_ref[...] = jnp.log(x_ref[...])

    spec = BlockSpec((2,), lambda i: (i,))
    call = kernel_call(
        spoil,
        xlab.ShapeDtypeStruct((4,), "float32"),
        grid=2,
        in_specs=[spec],
        out_specs=spec,
        interpret=True,
    )
    s = observe.Stepper(call, np.asarray([1, 2, 3, -1], np.float32))
    found = s.run_to_nan()
    assert found.point == 1 and found.outputs[0].nans == 1


def test_a_recorded_trace_has_the_runs_of_its_kernels():
    f, x, y = call_and_program()
    trace = observe.trace(lambda a, b: f(a, b) + f(a + 1, b), x, y)
    assert [len(k.grid) for k in trace.kernels] == [3, 3]
    assert {s.kernel for s in trace.steps} == {-1, 0, 1}
    assert trace.kernels[0].equation == next(s.equation for s in trace.steps if s.kernel == 0)
    assert trace.kernels[0].changes and trace.kernels[0].made.startswith("simulated")
    assert Record.from_json(trace.to_json()) == trace


def test_kernels_in_loops_and_with_several_cores():
    call, x = examples.add_one(8, 4, interpret=True)
    s = observe.Stepper(lambda x: lax.fori_loop(0, 2, lambda i, x: call(x), x), x)
    paths = [step.path for step in s if step.kernel >= 0]
    assert len(paths) == 4 and all(len(p) >= 2 for p in paths)
    assert [p[-1].rsplit(" ", 1)[-1] for p in paths] == ["1/2", "2/2"] * 2
    worked = examples.worked(True, interpret="value")
    s = observe.Stepper(lambda: worked() + 1)
    steps = list(s)
    assert len([step for step in steps if step.kernel >= 0]) == 3
    assert s.result().tolist() == [12, 22]


def test_long_kernels_are_one_step():
    spec = BlockSpec((1,), lambda i: (i,))

    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = np.zeros(5000, np.float32)
    call = kernel_call(
        copy,
        xlab.ShapeDtypeStruct(x.shape, "float32"),
        grid=5000,
        in_specs=[spec],
        out_specs=spec,
        interpret=True,
    )
    assert len(list(observe.Stepper(call, x))) == 1


def test_a_report_has_the_kernels_of_its_programs():
    """N15: from the index maps, without running; remarks become warnings that lead to the tab."""
    spec = BlockSpec((4,), lambda i: (i,))

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    call = kernel_call(
        kernel,
        xlab.ShapeDtypeStruct((16,), "float32"),
        grid=2,
        in_specs=[spec],
        out_specs=spec,
        interpret=True,
        name="half",
    )
    with observe.record() as session:
        xlab.jit(lambda x: call(x) * 2, name="f")(np.zeros(16, np.float32))
    report = observe.report(session)
    (run,) = report.kernels
    assert run.name == "half" and run.made.endswith("nothing was run")
    assert run.program == 0 and run.equation in [e.id for e in report.programs[0].equations]
    (notice,) = [n for n in report.notices if n.tab == "kernels"]
    assert "2 blocks of 4 of outputs[0] belong to no step" in notice.text
    assert "Kernels" in repr(report) and "reads args[0][0:4]" in repr(report)
    assert not observe.report(session, parts=("programs",)).kernels


def test_a_kernel_that_stops_with_an_error_ends_the_recording_and_says_so():
    def outside(x_ref, o_ref):
        o_ref[...] = x_ref[xlab.ds(program_id(0) * 3, 4)]

    call = kernel_call(outside, xlab.ShapeDtypeStruct((4,), np.float32), grid=3, interpret="value")
    stepper = observe.Stepper(call, np.arange(8, dtype=np.float32))
    trace = stepper.trace()
    assert len(trace.steps) == 2
    assert trace.failure.startswith(
        "OutOfBoundsError: equation body/2 of core 0 at grid point (2,)"
    )
    assert "ended with OutOfBoundsError" in str(trace)
    assert [f.kind for run in trace.kernels for f in run.faults] == ["bounds"]
    stepper.goto(0)
    assert stepper.next().text == trace.steps[0].text
