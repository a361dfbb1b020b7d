"""The value interpreter on one core: running, stepping, going back, looking (K80-K86, K95, K98, K104)."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from tests.kernels.machine.examples import SDS, add_one, matmul
from xlab import lax
from xlab import numpy as jnp
from xlab.kernels import (
    BlockSpec,
    InterpretParams,
    MemorySpace,
    kernel_call,
    program_id,
    run_scoped,
)
from xlab.kernels.machine import KernelWarning, Machine, OutOfBoundsError, UninitializedReadError


def same_state(a, b):
    np.testing.assert_equal(a, b)


def test_k81_run_gives_what_the_compiled_kernel_gives():
    call, x, y = matmul(2, 2, 3, interpret=True)
    machine = Machine(call, x, y)
    (out,) = machine.run()
    np.testing.assert_array_equal(out, x @ y)
    np.testing.assert_array_equal(out, call(x, y))
    assert machine.done


def test_k81_step_returns_events_and_outputs_need_the_end():
    call, x = add_one()
    machine = Machine(call, x)
    events = machine.step()
    assert [e.kind for e in events if hasattr(e, "kind")] == ["read"]
    with pytest.raises(RuntimeError, match="no outputs yet"):
        machine.outputs()
    with pytest.raises(ValueError, match="there is no core 1"):
        machine.step_core(1)
    machine.run()
    with pytest.raises(RuntimeError, match="has ended"):
        machine.step()
    with pytest.raises(RuntimeError, match="core 0 has ended"):
        machine.step_core(0)


def test_k81_step_grid_runs_one_grid_point():
    call, x = add_one()
    machine = Machine(call, x)
    for i in range(3):
        events = machine.step_grid()
        assert {e.grid for e in events} == {(i,)}
        assert [e.io for e in events if hasattr(e, "io")] == ["read", "write"]
    np.testing.assert_array_equal(machine.outputs()[0], x + 1)


def test_k81_arguments_do_not_change():
    def kernel(x, o):
        x[...] = x[...] * 0
        o[...] = x[...]

    x = np.ones(3, np.float32)
    machine = Machine(kernel_call(kernel, SDS((3,), "float32")), x)
    with pytest.warns(KernelWarning, match=r"writes to its input args\[0\]"):
        machine.run()
    assert x.tolist() == [1, 1, 1]


def test_k104e_back_restores_every_state():
    call, x, y = matmul(2, 2, 2)
    machine = Machine(call, x, y)
    machine.history.interval = 7
    states = [machine.state()]
    while not machine.done:
        machine.step()
        states.append(machine.state())
    events = machine.events()
    for t in [*range(len(states) - 2, -1, -5), 0]:
        machine.goto(t)
        same_state(machine.state(), states[t])
    machine.run()
    same_state(machine.state(), states[-1])
    assert machine.events() == events
    machine.back()
    same_state(machine.state(), states[-2])
    with pytest.raises(ValueError, match="nothing 1 turns before the first"):
        machine.goto(-1)


def test_k81_back_after_scratch_and_scopes():
    def kernel(x, o, total):
        def body(tmp):
            tmp[...] = x[...] * 2
            total[...] = tmp[...] + 1
            o[...] = total[...]

        run_scoped(body, MemorySpace.LOCAL((2,), "int32"))

    block = BlockSpec((2,), lambda i: (i,))
    call = kernel_call(
        kernel,
        SDS((6,), "int32"),
        grid=3,
        in_specs=[block],
        out_specs=block,
        scratch_shapes=[MemorySpace.LOCAL((2,), "int32")],
    )
    machine = Machine(call, jnp.arange(6))
    states = [machine.state()]
    while not machine.done:
        machine.step()
        states.append(machine.state())
    for t in (11, 3, 7, 0, 15):
        machine.goto(t)
        same_state(machine.state(), states[t])


def test_k81_breakpoints():
    call, x, y = matmul(2, 2, 2)
    machine = Machine(call, x, y)
    b = machine.breakpoint("outputs[0]", slice=[slice(8, 16), slice(0, 8)], kind="write")
    assert machine.run() is None
    assert machine.now.cores[0].coords == (1, 0, 0)
    assert "outputs[0]" in machine.stopped
    machine.clear(b)
    machine.breakpoint(grid=(1, 1, 0))
    assert machine.run() is None
    assert machine.next_equation()["grid"] == (1, 1, 0)
    assert machine.run() is not None
    machine.clear()
    machine.goto(0)
    machine.breakpoint("args[0]", when=lambda v: (v > 1000).any())
    assert machine.run() is not None
    machine.goto(0)
    machine.clear()
    path = machine.now.cores[0].pair.jaxpr.jaxpr.eqns
    machine.breakpoint(eqn=f"body/{len(path) - 1}")
    assert machine.run() is None
    assert machine.next_equation()["eqn"] == f"body/{len(path) - 1}"
    with pytest.raises(ValueError, match="needs something to stop at"):
        machine.breakpoint()
    for given, said in (
        ({"ref": "output[0]"}, r"no reference 'output\[0\]'.*outputs\[0\]"),
        ({"kind": "writes"}, "kind is one of read, write"),
        ({"core": 9}, "no core 9"),
    ):
        with pytest.raises(ValueError, match=said):
            machine.breakpoint(**given)


def test_k81_run_until():
    call, x = add_one()
    machine = Machine(call, x)
    assert machine.run(until=4) is None
    assert machine.count == 4
    assert machine.run(until=lambda m: m.now.cores[0].coords == (2,)) is None
    assert machine.run() is not None


def test_k81_eval_and_fork():
    call, x = add_one()
    machine = Machine(call, x)
    machine.step()
    var = machine.now.cores[0].frames[-1].plan.jaxpr.eqns[0].outvars[0]
    np.testing.assert_array_equal(machine.eval(var), x[:4])
    np.testing.assert_array_equal(machine.eval("c"), x[:4])  # as it is printed
    other = machine.fork()
    other.run()
    assert machine.count == 1
    np.testing.assert_array_equal(machine.run()[0], other.outputs()[0])
    with pytest.raises(KeyError, match="has no value"):
        machine.eval(var)


def test_k81_what_stands_before_the_kernel_is_evaluated():
    call, x = add_one()

    @xlab.jit
    def f(x):
        return call(x * 2) - 7

    machine = Machine(f, x)
    np.testing.assert_array_equal(machine.run()[0], 2 * x + 1)
    with pytest.raises(ValueError, match="calls no kernel"):
        Machine(lambda x: x + 1, x)
    with pytest.raises(ValueError, match="calls 2 kernels"):
        Machine(lambda x: call(call(x)), x)


def test_k85_control_flow_is_entered():
    def kernel(x, o):
        def body(i, c):
            o[i] = x[i] * 2
            return c + 1

        lax.fori_loop(0, 8, body, 0)

        def more(c):
            return c < x[7]

        def grow(c):
            o[0] = o[0] + 1
            return c + 3

        c = lax.while_loop(more, grow, 0)
        o[1] = lax.cond(c > 100, lambda: x[0], lambda: x[3] * 100)
        o[2] = xlab.jit(lambda v: v + 1)(o[2])

    x = np.arange(8, dtype=np.int32)
    call = kernel_call(kernel, SDS((8,), "int32"), interpret=True)
    machine = Machine(call, x)
    depths, paths = set(), set()
    while not machine.done:
        core = machine.state()["cores"][0]
        depths.add(core["depth"])
        paths.add("/".join(p for p in (core["pc"] or "").split("/") if not p.isdigit()))
        machine.step()
    out = machine.outputs()[0]
    want = x * 2
    want[0] += 3
    want[1] = 300
    want[2] += 1
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(out, call(x))
    assert depths >= {1, 2}
    assert {"body", "body/body", "body/condition", "body/branch 0", "body/jit"} <= paths


def test_k84_errors_say_where_and_leave_the_machine():
    def kernel(x, o):
        i = program_id(0) * 3
        o[0] = x[i]

    call = kernel_call(
        kernel, SDS((3,), "int32"), grid=3, out_specs=BlockSpec((1,), lambda i: (i,))
    )
    machine = Machine(call, jnp.arange(4))
    with pytest.raises(OutOfBoundsError) as error:
        machine.run()
    text, place = str(error.value), error.value.place
    assert "args[0] of shape (4,)" in text and "index 6 in dimension 0 of size 4" in text
    assert "grid point (2,)" in text and "test_machine.py" in text
    assert (place["pair"], place["core"], place["grid"]) == (0, 0, (2,))
    assert place["eqn"].startswith("body/") and "<-" in place["text"]
    assert machine.state()["cores"][0]["grid"] == (2,)
    assert machine.state()["buffers"]["outputs[0]"]["values"].tolist()[:2] == [0, 3]
    assert isinstance(error.value, (IndexError, ValueError))


@pytest.mark.parametrize(
    ("policy", "want"), [("clamp", [0, 3, 3]), ("uninitialized", [0, 3, -(2**31)])]
)
def test_k10_out_of_bounds_reads(policy, want):
    def kernel(x, o):
        o[0] = x[program_id(0) * 3]

    call = kernel_call(
        kernel,
        SDS((3,), "int32"),
        grid=3,
        out_specs=BlockSpec((1,), lambda i: (i,)),
        interpret=True,
    )
    params = InterpretParams(out_of_bounds_reads=policy)
    out = Machine(call, jnp.arange(4), params=params).run()[0]
    assert out.tolist() == want
    if policy == "clamp":
        assert call(jnp.arange(4)).tolist() == want


def test_k95_uninitialized_reads_are_remarked():
    call, x = add_one()
    machine = Machine(call, x)
    machine.run()
    (entry,) = machine.lint
    assert entry["kind"] == "uninitialized read"
    assert entry["ref"] == "args[0]" and entry["slice"] == [[8, 12]]
    assert entry["text"].startswith("2 uninitialized elements of args[0][8:12]")
    machine = Machine(call, x, params=InterpretParams(buffer_bounds="padded"))
    machine.run()
    assert machine.lint == []
    machine = Machine(call, x, params=InterpretParams(uninitialized_reads="raise"))
    with pytest.raises(UninitializedReadError, match=r"args\[0\]\[8:12\]"):
        machine.run()

    def kernel(o, s):
        o[0] = s[0]
        o[1] = s[1]

    def call2(o, s):
        s[0] = 1.0
        kernel(o, s)

    call = kernel_call(
        call2, SDS((2,), "float32"), scratch_shapes=[MemorySpace.LOCAL((2,), "float32")]
    )
    machine = Machine(call)
    machine.run()
    assert [(e["ref"], e["slice"]) for e in machine.lint] == [("scratch[0]", [[1, 2]])]


def test_k80_options():
    call, x = add_one()
    assert np.isinf(
        Machine(call, x, params=InterpretParams(skip_floating_point_ops=True)).run()[0]
    ).all()
    seen = []
    params = InterpretParams(grid_point_recorder=lambda grid, core: seen.append((grid, core)))
    Machine(call, x, params=params).run()
    assert seen == [((0,), 0), ((1,), 0), ((2,), 0)]

    def nothing(o):
        pass

    call = kernel_call(nothing, SDS((2,), "float32"))
    assert np.isnan(Machine(call).run()[0]).all()
    zero = InterpretParams(uninitialized_memory="zero")
    assert Machine(call, params=zero).run()[0].tolist() == [0, 0]
    for bad in (
        {"out_of_bounds_reads": "wrap"},
        {"schedule": "fair"},
        {"uninitialized_reads": "ignore"},
        {"on_race": "stop"},
        {"logging_mode": "everything"},
        {"quantum": 0},
        {"detect_races": 3},
        {"skip_floating_point_ops": "yes"},
        {"uninitialized_memory": "one"},
        {"num_cores_or_threads": 1.5},
        {"dma_execution_mode": "later"},
        {"random_seed": "a"},
        {"grid_point_recorder": 3},
        {"buffer_bounds": "none"},
        {"vector_clock_size": -1},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            InterpretParams(**bad)


def test_k80_logging_mode(capsys):
    call, x = add_one()
    Machine(call, x, params=InterpretParams(logging_mode="access"), record=False).run()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "core 0, step (0,): reads args[0][0:4]"
    assert len(lines) == 6


def test_k80_strict_spaces():
    def kernel(x, o):
        o[...] = x[...]

    call = kernel_call(
        kernel, SDS((2,), "int32"), in_specs=[BlockSpec(memory_space=MemorySpace.ANY)]
    )
    assert Machine(call, jnp.arange(2)).run()[0].tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"args\[0\] is in the memory space 'any'"):
        Machine(call, jnp.arange(2), params=InterpretParams(strict_spaces=True)).run()


def test_k56_kernels_in_kernels():
    def double(x, o):
        o[...] = x[...] * 2

    block = BlockSpec((2,), lambda i: (i,))

    def outer(x, o):
        inner = kernel_call(double, SDS((4,), "int32"), grid=2, in_specs=[block], out_specs=block)
        o[...] = inner(x[...]) + 1

    machine = Machine(kernel_call(outer, SDS((4,), "int32")), jnp.arange(4))
    machine.step()
    inside = machine.inner()
    assert inside.run()[0].tolist() == [0, 2, 4, 6]
    assert machine.run()[0].tolist() == [1, 3, 5, 7]


def test_debug_prints_are_not_repeated_when_going_back(capsys):
    def kernel(x, o):
        xlab.debug.print("x is {}", x[0])
        o[...] = x[...]

    machine = Machine(kernel_call(kernel, SDS((2,), "int32")), jnp.arange(2))
    machine.run()
    machine.back(2)
    machine.run()
    xlab.effects_barrier()
    assert capsys.readouterr().out.count("x is 0") == 1


def test_an_interrupted_turn_is_as_if_it_had_not_begun():
    def kernel(x, o):
        o[...] = x[...]
        for _ in range(4):
            xlab.ref.addupdate(o, ..., x[...])

    machine = Machine(kernel_call(kernel, SDS((2,), "int32")), jnp.arange(2))
    calls = []

    def interrupt(value):
        calls.append(value)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return False

    machine.breakpoint("outputs[0]", kind="accum", when=interrupt)
    with pytest.raises(KeyboardInterrupt):
        machine.run()
    assert "interrupted at core 0 of pair 0" in machine.stopped
    before = machine.state()
    assert machine.state()["buffers"]["outputs[0]"]["values"].tolist() == [0, 2]
    assert machine.run()[0].tolist() == [0, 5]
    machine.goto(before["steps"])
    same_state(machine.state(), before)


def test_a_kernel_that_never_ends_can_be_stopped_after_some_time():
    def kernel(o):
        o[0] = 0

        def body(i):
            o[0] = i
            return i

        lax.while_loop(lambda i: i >= 0, body, 0)

    machine = Machine(kernel_call(kernel, SDS((1,), "int32")))
    assert machine.run(seconds=0.05) is None
    assert "seconds are over" in machine.stopped
    assert "body/" in machine.next_equation()["eqn"]


def test_k44_aliases_copied_and_shared():
    def kernel(x, o):
        o[...] = x[...] + 1

    def call(mode):
        block = BlockSpec((2,), lambda i: (0,))
        return kernel_call(
            kernel,
            SDS((4,), "int32"),
            grid=2,
            in_specs=[block],
            out_specs=block,
            input_output_aliases={0: 0},
            alias_mode=mode,
            interpret=True,
        )

    x = jnp.arange(4)
    for mode, want in (("copy", [1, 2, 2, 3]), ("shared", [2, 3, 2, 3])):
        machine = Machine(call(mode), x)
        assert machine.run()[0].tolist() == want
        assert call(mode)(x).tolist() == want
        assert [e["kind"] for e in machine.lint] == []
        machine.goto(1)
        assert machine.run()[0].tolist() == want
    assert x.tolist() == [0, 1, 2, 3]


def test_k34_dynamic_grids():
    def kernel(o):
        o[...] = o[...] * 0 + program_id(0)

    def f(n):
        return kernel_call(
            kernel, SDS((4,), "int32"), grid=(n,), out_specs=BlockSpec((1,), lambda i: (i,))
        )()

    machine = Machine(f, jnp.int32(2))
    assert machine.run()[0].tolist() == [0, 1, -(2**31), -(2**31)]
    assert {e["kind"] for e in machine.lint} == {"uninitialized read", "output not written"}


@pytest.mark.parametrize("policy", ["raise", "clamp"])
def test_k36_blocks_outside(policy):
    def kernel(x, o):
        o[...] = x[...] + 1

    block = BlockSpec((2,), lambda i: (i,))
    call = kernel_call(
        kernel, SDS((4,), "int32"), grid=3, in_specs=[block], out_specs=block, interpret=True
    )
    machine = Machine(call, jnp.arange(4), params=InterpretParams(out_of_bounds_reads=policy))
    if policy == "raise":
        with pytest.raises(OutOfBoundsError, match=r"block of args\[0\] at grid point \(2,\)"):
            machine.run()
        return
    np.testing.assert_array_equal(machine.run()[0], call(jnp.arange(4)))
    clamped = [e for e in machine.events() if getattr(e, "clamped", False)]
    assert [(e.operand, e.start) for e in clamped] == [("args[0]", (2,)), ("outputs[0]", (2,))]


def test_k29_output_blocks_that_are_visited_again_are_remarked():
    def kernel(o):
        o[...] = jnp.full((1,), program_id(0), "int32")

    call = kernel_call(
        kernel, SDS((2,), "int32"), grid=4, out_specs=BlockSpec((1,), lambda i: (i % 2,))
    )
    machine = Machine(call)
    assert machine.run()[0].tolist() == [2, 3]
    assert [e["kind"] for e in machine.lint] == ["output revisited"]


def test_k12_uninitialized_values():
    def nothing(o):
        pass

    for dtype, want in {
        "float32": np.nan,
        "bfloat16": np.nan,
        "int32": -(2**31),
        "uint8": 0,
        "int16": 0,
        "bool": False,
        "complex64": complex(np.nan, np.nan),
    }.items():
        (out,) = Machine(kernel_call(nothing, SDS((2,), dtype))).run()
        np.testing.assert_array_equal(out.astype("complex64"), np.full(2, want, "complex64"))


@pytest.mark.filterwarnings("ignore::xlab.kernels.machine.KernelWarning")
def test_masked_accesses_and_views():
    from xlab.kernels import load, store

    def kernel(x, y, o):
        at = xlab.ds(x[2], 4)  # two of its elements are outside, and masked
        o[0] = load(x, (at,), mask=jnp.arange(4) < 2, other=-1)
        store(o.at[1], (slice(None),), jnp.arange(4) + 10, mask=jnp.arange(4) % 2 == 0)
        o[2] = y.reshape(2, 4).at[1][...]
        o[3] = y.at[1:5].bitcast("uint32")[...].astype("int32")
        y.at[2:6].transpose((0,))[1] = jnp.int32(77)
        o[4] = y[x[...] * 0 + (3 - x[...]) % 4]

    call = kernel_call(kernel, SDS((5, 4), "int32"), interpret=True)
    args = np.arange(4, dtype=np.int32), np.arange(8, dtype=np.int32)
    machine = Machine(call, *args)
    (out,) = machine.run()
    low = -(2**31)
    assert out.tolist() == [
        [2, 3, -1, -1],
        [10, low, 12, low],
        [4, 5, 6, 7],
        [1, 2, 3, 4],
        [77, 2, 1, 0],
    ]
    np.testing.assert_array_equal(out, call(*args))
    assert [e["ref"] for e in machine.lint if e["kind"] == "write to input"] == ["args[1]"]
    masked = [(e.ref, e.kind, e.box, e.masked) for e in machine.accesses() if e.masked]
    assert masked == [
        ("args[0]", "read", ((2, 4),), 2),
        ("outputs[0]", "write", ((1, 2), (0, 3)), 2),
    ]


def test_the_log_is_bounded_and_says_what_it_left_out():
    call, x = add_one(64, 1)
    machine = Machine(call, x)
    machine.log_limit = 100
    machine.run()
    assert len(machine.events()) <= 100
    assert machine.left_out > 0
    assert machine.record().data["left_out"]["events"] == machine.left_out
    machine.goto(3)
    assert machine.count == 3


def test_checkpoints_are_bounded_by_the_operands():
    call, x = add_one(4096, 16)
    machine = Machine(call, x)
    machine.history.limit = 5 * machine.program.nbytes
    machine.history.interval = 4
    machine.run()
    held = {
        id(b.values): b.values.nbytes
        for _, s, _, _ in machine.history.saved
        for b in s.buffers.values()
    }
    assert sum(held.values()) < 10 * machine.program.nbytes
    assert machine.history.thinned > 0
    machine.goto(1)
    assert machine.run() is not None


def test_k98_memory_budget():
    call, x = add_one(1000, 10)
    with pytest.raises(MemoryError, match=r"take \d.* bytes.*The largest: .*args\[0\]"):
        Machine(call, x, params=InterpretParams(max_bytes=5000))

    def kernel(o):
        run_scoped(lambda tmp: None, MemorySpace.LOCAL((1000,), "float32"))
        o[0] = jnp.float32(run_scoped(lambda tmp: tmp[0], MemorySpace.LOCAL((1000,), "float32")))

    machine = Machine(
        kernel_call(kernel, SDS((1,), "float32")), params=InterpretParams(max_bytes=4000)
    )
    with pytest.raises(MemoryError, match=r"scoped\[\d+\] 5,000") as error:
        machine.run()
    assert error.value.place["core"] == 0


def test_k84_errors_of_others_say_where_they_happened():
    def complain(x):
        raise ZeroDivisionError("no")

    def kernel(x, o):
        o[...] = xlab.pure_callback(complain, SDS((2,), "int32"), x[...])

    machine = Machine(kernel_call(kernel, SDS((2,), "int32")), jnp.arange(2))
    with pytest.raises(Exception, match="ZeroDivisionError") as error:
        machine.run()
    assert error.value.place["eqn"].startswith("body/")
    assert any(
        "in the kernel kernel: core 0 of pair 0, equation body/" in n for n in error.value.__notes__
    )
    assert machine.state()["cores"][0]["pc"] == error.value.place["eqn"]


def test_k98_a_loop_without_equations_ends():
    def kernel(x, o):
        o[0] = lax.while_loop(lambda i: True, lambda i: i, x[0])

    machine = Machine(kernel_call(kernel, SDS((1,), "int32")), jnp.arange(2))
    with pytest.raises(
        RuntimeError, match=r"100000 rounds through a loop without a single equation.*while"
    ):
        machine.run()

    def finite(x, o):
        o[...] = lax.scan(lambda c, row: (c, row), 0, x[...])[1]

    machine = Machine(
        kernel_call(finite, SDS((300,), "int32")),
        jnp.arange(300),
        params=InterpretParams(max_equations=50),
    )
    np.testing.assert_array_equal(machine.run()[0], np.arange(300))


def test_what_fails_between_two_equations_fails_again():
    def kernel(o):
        o[0] = jnp.float32(1)

        def body(tmp):
            tmp[0] = jnp.float32(2)
            o[0] = tmp[0]

        run_scoped(body, MemorySpace.LOCAL((1000,), "float32"))

    machine = Machine(
        kernel_call(kernel, SDS((1,), "float32")), params=InterpretParams(max_bytes=4000)
    )
    for _ in range(2):
        with pytest.raises(MemoryError):
            machine.run()
        assert machine.count == 1
        assert machine.state()["buffers"]["outputs[0]"]["values"].tolist() == [1]
    machine.back()
    assert np.isnan(machine.state()["buffers"]["outputs[0]"]["values"]).all()


def test_effects_on_another_way_happen_again(capsys):
    def kernel(x, o):
        o[0] = x[0]
        xlab.debug.print("o is {}", o[0])
        o[0] = o[0] + 1

    machine = Machine(kernel_call(kernel, SDS((1,), "int32")), jnp.arange(1) + 7)
    machine.run()
    machine.goto(0)
    machine.now.buffers[0].values[...] = 9  # what if
    machine.run()
    xlab.effects_barrier()
    assert capsys.readouterr().out.split("\n")[:2] == ["o is 7", "o is 9"]


def test_every_public_name_is_there():
    from xlab.kernels import machine

    assert [name for name in machine.__all__ if not hasattr(machine, name)] == []
