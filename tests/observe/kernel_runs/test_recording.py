"""K81–K84, K89–K96, K100–K102, K104: runs of the machine as records, with contents, edges, races and their shortest schedules."""

import json

import numpy as np
import pytest

import xlab
from tests.kernels.machine import examples
from xlab import kernels, observe
from xlab import numpy as jnp
from xlab.kernels import BlockSpec, InterpretParams, MemorySpace, kernel_call
from xlab.kernels.machine import Machine
from xlab.observe.kernel_runs.contents import coarse, coarse_cells, exact_cells
from xlab.observe.kernel_runs.recording import KernelSession
from xlab.observe.records import Record
from xlab.observe.records.text import text


def out(shape, dtype="float32"):
    return xlab.ShapeDtypeStruct(shape, dtype)


def accumulating(m=2, n=2, k=3, b=4):
    """A tiled matmul with a scratch accumulator, and its operands."""

    def kernel(a_ref, b_ref, o_ref, acc):
        p = kernels.program_id(2)

        @kernels.when(p == 0)
        def _():
            acc[...] = jnp.zeros(acc.shape)

        acc[...] += a_ref[...] @ b_ref[...]

        @kernels.when(p == kernels.num_programs(2) - 1)
        def _():
            o_ref[...] = acc[...]

    x = np.arange(m * b * k * b, dtype=np.float32).reshape(m * b, k * b)
    y = np.ones((k * b, n * b), np.float32)
    call = kernel_call(
        kernel,
        out((m * b, n * b)),
        grid=(m, n, k),
        in_specs=[
            BlockSpec((b, b), lambda i, j, p: (i, p)),
            BlockSpec((b, b), lambda i, j, p: (p, j)),
        ],
        out_specs=BlockSpec((b, b), lambda i, j, p: (i, j)),
        scratch_shapes=[MemorySpace.LOCAL((b, b), "float32")],
    )
    return call, x, y


def after(run, name, owner, t=1 << 30):
    """The cells of a buffer after a time."""
    place = next(i for i, b in enumerate(run.buffers) if (b.name, b.owner) == (name, owner))
    cells = run.buffers[place].cells
    for c in run.changes:
        if c.buffer == place and c.t <= t:
            cells = c.cells
    return cells


def test_k100_a_run_has_the_blocks_that_the_index_maps_say():
    """K86, K104g: block events of a run equal those worked out without running."""
    call, x, y = accumulating()
    run, static = observe.kernel_run(call, x, y), observe.kernels(call, x, y)[0]

    def facts(r):
        return [
            (e.step, e.grid, e.operand, e.io, e.index, e.start, e.shape, e.pad, e.visit)
            for e in r.blocks
        ]

    assert sorted(facts(run)) == sorted(facts(static))
    assert run.cost.movement == static.cost.movement
    assert [o.replace(source=None) for o in run.operands] == [
        o.replace(source=None) for o in static.operands
    ]
    assert run.made == "simulated by the value interpreter"
    assert not run.faults and not run.races and not run.left_out


def test_contents_end_as_the_outputs():
    """K101: contents of blocks, scratch and arrays over time; cells that nobody wrote are None."""
    call, x, y = accumulating()
    run = observe.kernel_run(call, x, y)
    assert after(run, "outputs[0]", "call") == tuple((x @ y).reshape(-1).tolist())
    assert after(run, "outputs[0]", "call", -1) == (None,) * 64
    assert after(run, "scratch[0]", "core 0", -1) == (None,) * 16
    middle = [e for e in run.accesses if e.step == 1 and e.ref == "scratch[0]"][-1]
    assert middle.kind in ("write", "accum")
    assert after(run, "scratch[0]", "core 0", middle.t) == tuple(
        (x[:4, :8] @ y[:8, :4]).reshape(-1).tolist()
    )
    times = [c.t for c in run.changes]
    assert times == sorted(times) and times[-1] < run.time


def test_k82_accesses_carry_step_equation_and_line():
    call, x, y = accumulating()
    run = observe.kernel_run(call, x, y)
    first = next(run.accesses)
    assert (first.core, first.step, first.grid) == (0, 0, (0, 0, 0))
    lines = {(e.pair, e.path): e for e in run.equations}
    assert all((e.pair, e.eqn) in lines for e in run.accesses)
    functions = {lines[e.pair, e.eqn].source.function for e in run.accesses}
    assert any(name.endswith("kernel") for name in functions)
    assert [e.t for e in run.accesses] == sorted(e.t for e in run.accesses)


def test_k102_the_json_is_the_contract():
    """K102: operands, grid, pairs, events, schedule, races and cost, as plain JSON that reads back."""
    run = observe.kernel_run(examples.worked(False), schedule="round_robin")
    data = json.loads(json.dumps(run.to_json()))
    assert {"operands", "pairs", "events", "schedule", "races"} <= set(data)
    assert {"name", "shape", "dtype", "space"} <= set(data["operands"][0])
    assert {"mesh", "core_type", "fn"} <= set(data["pairs"][0])
    event = next(e for e in data["events"] if e["kind"] == "read")
    assert (event["ref"], event["slice"]) == ("scratch[0]", [[0, 1]])
    assert Record.from_json(data) == run
    blocks = observe.kernel_run(*accumulating()).to_json()
    assert blocks["grid"] == [2, 2, 3] and blocks["cost"]["movement"]
    sample = next(e for e in blocks["events"] if e["record"] == "BlockVisit")
    assert {"step", "grid", "operand", "io", "index", "start", "shape"} <= set(sample)
    assert Record.from_json(json.loads(json.dumps(blocks))).to_json() == blocks


def test_k102_text_fallback():
    """K102: one line per step, deterministic."""
    run = observe.kernel_run(*examples.add_one(8, 4))
    lines = text(run).splitlines()
    assert "  core 0, step (0): reads args[0][0:4], writes outputs[0][0:4]" in lines
    assert "  core 0, step (1): reads args[0][4:8], writes outputs[0][4:8]" in lines
    assert text(observe.kernel_run(*examples.add_one(8, 4))) == text(run)
    assert "1 more line" in text(run, limit=1)


def test_k89_the_worked_schedule_with_its_edges():
    """K89, K101: waits from where they block to where they go on, an edge from each signal to its wait."""
    run = observe.kernel_run(examples.worked(True), schedule="round_robin")
    waits = {e.core: (e.t, e.until) for e in run.accesses if e.kind == "wait"}
    signals = {e.t: e.core for e in run.accesses if e.kind == "signal"}
    assert waits[1][0] < waits[1][1] and waits[2][0] < waits[2][1]
    for t0, c0, t1, c1, ref in run.edges:
        assert signals[t0] == c0 == 0 and waits[c1][1] == t1 > t0 and ref == "scratch[1]"
    assert {c1 for *_, c1, _ in run.edges} == {1, 2}
    assert [(p.fn, p.core_type, p.cores) for p in run.pairs] == [
        ("p", "scalar", (0,)),
        ("q", "vector", (1, 2)),
    ]
    assert after(run, "outputs[0]", "call") == (11.0, 21.0)
    assert not run.races and run.scheduled_by == "round robin"
    assert "core 1 waits" in text(run)


def test_other_schedules_are_recorded_and_end_alike():
    run = observe.kernel_run(examples.worked(True))
    assert [o.scheduled_by for o in run.others] == [
        "round robin",
        "random, seed 1",
        "random, seed 2",
    ]
    assert all(after(o, "outputs[0]", "call") == (11.0, 21.0) for o in run.others)
    assert not observe.kernel_run(examples.worked(True), others=()).others


def test_k93_a_race_and_the_shortest_schedule_that_shows_it():
    """K93, K104b: both slices named; each shortest schedule, run, has that race, and none shorter could."""
    run = observe.kernel_run(examples.worked(False), schedule="round_robin")
    assert {(r.ref, frozenset(r.cores), r.slices[0]) for r in run.races} == {
        ("scratch[0]", frozenset((0, 1)), ((0, 1),)),
        ("scratch[0]", frozenset((0, 2)), ((1, 2),)),
    }
    assert sorted(r.shortest for r in run.races) == [(0, 1), (0, 2, 0)]
    for r in run.races:
        again = observe.kernel_run(
            examples.worked(False), schedule=list(r.shortest), others=(), most=1000
        )
        assert any(set(x.equations) == set(r.equations) for x in again.races)
        assert r.sources[0].file.endswith("examples.py")
    words = text(run)
    assert "core 0 writes scratch[0][0]" in words and "in no order" in words
    assert {f.kind for f in run.faults} == {"uninitialized"}


def test_a_shortest_schedule_goes_past_the_waits_before_the_race():
    """The signal that a wait needs is in it, and the turn in which a core only finds that it has to wait is not."""

    def p(o, b, sem):
        b[0] = jnp.int32(1)
        kernels.semaphore_signal(sem)
        b[1] = jnp.int32(2)

    def q(o, b, sem):
        kernels.semaphore_wait(sem)
        o[0] = b[0] + b[1]

    call = kernels.mpmd_map(
        [
            (kernels.CoreMesh("p", 1, core_type="scalar"), p),
            (kernels.CoreMesh("q", 1, core_type="vector"), q),
        ],
        out((1,), "int32"),
        scratch_shapes=[MemorySpace.SHARED((2,), "int32"), kernels.SemaphoreType.REGULAR],
    )
    run = observe.kernel_run(call, schedule="round_robin")
    (race,) = run.races
    assert race.slices == (((1, 2),), ((1, 2),))
    # b[0] = 1, signal, wait, read b[0], then b[1] from both sides
    assert sorted(race.shortest) == [0, 0, 0, 1, 1, 1] and race.shortest[:3] == (0, 0, 1)


def test_k96_a_deadlock_is_the_last_thing_recorded():
    def one(sems):
        kernels.semaphore_wait(sems.at[0])
        kernels.semaphore_signal(sems.at[1])

    def two(sems):
        kernels.semaphore_wait(sems.at[1])
        kernels.semaphore_signal(sems.at[0])

    call = kernels.mpmd_map(
        [
            (kernels.CoreMesh("p", 1, core_type="scalar"), one),
            (kernels.CoreMesh("q", 1, core_type="vector"), two),
        ],
        scratch_shapes=[kernels.SemaphoreType.REGULAR((2,))],
    )
    run = observe.kernel_run(call)
    assert [f.kind for f in run.faults] == ["deadlock"]
    assert {(e.core, e.until) for e in run.accesses} == {(0, -1), (1, -1)}
    assert "deadlock" in text(run) and "waits for scratch[0][0] (1)" in text(run)
    assert all(o.faults[0].kind == "deadlock" for o in run.others)


def test_k84_k95_out_of_bounds_uninitialized_and_nan():
    def kernel(x_ref, o_ref):
        i = kernels.program_id(0)
        o_ref[0] = jnp.log(x_ref[i] - 1)
        o_ref[1] = o_ref[2]

    x = np.arange(3, dtype=np.float32)
    call = kernel_call(kernel, out((3,)), grid=4)
    run = observe.kernel_run(call, x)
    kinds = {f.kind: f for f in reversed(run.faults)}
    assert sorted(kinds) == ["bounds", "nan", "uninitialized"] and run.faults[-1].kind == "bounds"
    assert kinds["nan"].step == 0 and kinds["nan"].source.text.strip().startswith("o_ref[0]")
    assert kinds["uninitialized"].ref == "outputs[0]"
    assert kinds["bounds"].step == 3 and "reaches outside" in kinds["bounds"].text
    assert "x_ref[i]" in kinds["bounds"].source.text
    assert after(run, "outputs[0]", "call")[2] is None
    moved = observe.kernel_run(
        *examples.add_one(8, 4)[:1],
        np.arange(8, dtype=np.float32),
        params=InterpretParams(out_of_bounds_reads="clamp"),
    )
    assert not moved.faults


def test_k35_padding_that_is_read_is_called_so():
    call, x = examples.add_one(10, 4)
    run = observe.kernel_run(call, x)
    assert [(f.kind, f.step) for f in run.faults] == [("uninitialized", 2), ("nan", 2)]
    assert run.faults[0].text == (
        "2 elements of padding in args[0][8:12] read: what padding holds is undefined"
    )
    assert after(run, "outputs[0]", "call") == tuple(range(1, 11))
    assert [line for line in text(run).splitlines() if "  error" in line] == []


def test_copies_are_drawn_from_start_to_end():
    """K25, K101: a copy is complete where it is waited for, or at once."""

    def kernel(x_ref, o_ref, sem):
        kernels.async_copy(x_ref, o_ref, sem).wait()

    call = kernel_call(
        kernel,
        out((4,)),
        scratch_shapes=[kernels.SemaphoreType.DMA],
    )
    x = np.arange(4, dtype=np.float32)
    run = observe.kernel_run(call, x)
    (copy,) = [e for e in run.accesses if e.kind == "copy"]
    assert (copy.ref, copy.slice, copy.of) == ("outputs[0]", ((0, 4),), "args[0][0:4]")
    assert copy.until > copy.t and "copies args[0][0:4] to outputs[0][0:4]" in text(copy)
    assert after(run, "outputs[0]", "call", copy.t) == (None,) * 4
    assert after(run, "outputs[0]", "call", copy.until) == (0.0, 1.0, 2.0, 3.0)
    eager = observe.kernel_run(call, x, params=InterpretParams(dma_execution_mode="eager"))
    (copy,) = [e for e in eager.accesses if e.kind == "copy"]
    assert copy.until == copy.t


def test_k30_k34_k48_prefetch_dynamic_and_mapped_grids():
    """What is known only in a run is recorded as it was: prefetched order, dynamic sizes, the axis that vmap adds."""

    def copy(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = kernels.PrefetchGridSpec(
        1,
        grid=2,
        in_specs=[BlockSpec((4,), lambda i, order: (order[i],))],
        out_specs=BlockSpec((4,), lambda i, order: (i,)),
    )
    call = kernel_call(copy, out((8,)), grid_spec=spec)
    x = np.arange(8, dtype=np.float32)
    run = observe.kernel_run(call, np.asarray([1, 0], np.int32), x)
    assert [e.start for e in run.blocks if e.operand == "args[1]"] == [(4,), (0,)]
    assert [(m.operand, m.moves) for m in run.cost.movement] == [("args[1]", 2), ("outputs[0]", 2)]

    block = BlockSpec((4,), lambda i: (i,))

    def some(n, x):
        return kernel_call(
            lambda x_ref, o_ref: copy(None, x_ref, o_ref),
            out((16,)),
            grid=n,
            in_specs=[block],
            out_specs=block,
        )(x)

    run = observe.kernel_run(some, jnp.int32(2), np.arange(16, dtype=np.float32))
    assert (
        run.grid == (2,) and run.steps == 2 and after(run, "outputs[0]", "call")[8:] == (None,) * 8
    )

    call, _ = examples.add_one(8, 4)
    run = observe.kernel_run(xlab.vmap(call), np.zeros((3, 8), np.float32))
    assert run.grid == (3, 2) and len([e for e in run.blocks if e.operand == "args[0]"]) == 6
    assert {e.squeezed for e in run.blocks} == {(0,)}


def test_kernels_over_several_cores():
    """K80, K90: grid steps dealt out to cores; each block knows its core."""
    call, x = examples.add_one(16, 4, compiler_params={"dimension_semantics": ("parallel",)})
    run = observe.kernel_run(call, x, params=InterpretParams(num_cores_or_threads=2))
    assert {(e.step, e.core) for e in run.blocks} == {(0, 0), (1, 0), (2, 1), (3, 1)}
    assert run.pairs[0].cores == (0, 1) and not run.races


def test_a_machine_that_has_run_is_recorded_as_it_went():
    """K81, K83: the same turns again; the machine itself stays where it is."""
    machine = Machine(examples.worked(True), schedule=[0, 1, 2, 0])
    machine.run(until=6)
    before = machine.state()["buffers"]["scratch[0]"]["values"].copy()
    run = observe.kernel_run(machine, others=())
    assert run.time == machine.count == 6
    assert [t.core for t in run.schedule for _ in range(t.equations)] == machine.schedule.cores()
    assert (machine.state()["buffers"]["scratch[0]"]["values"] == before).all()
    whole = observe.kernel_run(Machine(examples.worked(True)), others=())
    assert after(whole, "outputs[0]", "call") == (11.0, 21.0)


def test_a_session_answers_with_other_schedules_and_contents():
    session = KernelSession(examples.worked(False), params=InterpretParams(schedule="round_robin"))
    by_seed = session.schedule("random", 5)
    assert by_seed.scheduled_by == "random, seed 5" and by_seed.schedule != session.run.schedule
    shortest = session.schedule("shortest")
    assert shortest.time == 2 and shortest.races and "shortest" in shortest.scheduled_by
    moment = session.contents(3)
    held = {b.name: b.cells for b in moment.buffers}
    assert held["scratch[0]"] == (10.0, 20.0)
    assert {b.name: b.cells for b in session.contents(0).buffers}["scratch[0]"] == (10.0, None)
    with pytest.raises(ValueError, match="no race was found"):
        KernelSession(examples.worked(True)).schedule("shortest")


def test_what_does_not_fit_is_said():
    run = observe.kernel_run(*examples.add_one(400, 4), most=50)
    assert len(run.events) < 80
    assert run.left_out[0].startswith("what came after 5") and "not kept:" in text(run)


def test_k98_a_loop_without_an_end_is_left(monkeypatch):
    from xlab.observe.kernel_runs import recording

    monkeypatch.setattr(recording, "MOST_TURNS", 300)

    def kernel(o_ref):
        o_ref[...] = xlab.lax.while_loop(lambda x: x >= 0, lambda x: x + 1.0, jnp.float32(1))

    run = observe.kernel_run(kernel_call(kernel, out(())))
    assert run.time == 300 and run.left_out == ("what came after 300 equations",)


def test_k18_an_error_of_the_kernel_itself_is_recorded():
    """What a check in a kernel raises ends the run and is its last fault."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        xlab.debug.callback(boom, x_ref[0])

    def boom(x):
        raise RuntimeError("no more")

    run = observe.kernel_run(kernel_call(kernel, out((2,))), np.zeros(2, np.float32))
    assert [f.kind for f in run.faults] == ["error"] and "no more" in run.faults[0].text
    assert after(run, "outputs[0]", "call") == (0.0, 0.0)


def test_cells_of_buffers():
    """K101: elements up to 64, else the means of a coarse grid; None where nobody wrote, NaN where a part holds one."""
    assert exact_cells(np.asarray([True, False]), None) == (1.0, 0.0)
    assert exact_cells(np.asarray([3 + 4j]), None) == (5.0,)
    values = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    cells = coarse_cells(values, None, coarse(values.shape))
    assert (
        len(cells) == 256
        and cells[0] == values[:2, :2].mean()
        and cells[-1] == values[-2:, -2:].mean()
    )
    written = np.zeros(values.shape, bool)
    written[:2, :3] = True
    cells = coarse_cells(values, written, (16, 16))
    assert cells[:3] == (values[:2, :2].mean(), values[:2, 2].mean(), None)
    values[0, 0] = np.nan
    assert np.isnan(coarse_cells(values, None, (16, 16))[0])
    flat = np.arange(100.0)
    cells = coarse_cells(flat, None, coarse(flat.shape))
    assert cells[0] == 0.0 and cells[99] == 99.0 and cells[100] is None
