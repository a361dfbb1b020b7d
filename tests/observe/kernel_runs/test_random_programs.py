"""Records of random programs: contents end as the results, planted faults are in them, shortest schedules show their races (K86, K93–K96).

`XLAB_KERNEL_RECORDS=200` runs that many of each.
"""

import itertools
import json
import os

import numpy as np
import pytest

from tests.kernels.random_programs import random_kernel, random_tasks
from tests.notebook.views.sample_kernel import signal_edges
from xlab import observe
from xlab.kernels import InterpretParams
from xlab.kernels.machine import Machine, Schedule
from xlab.notebook.views import view_for
from xlab.observe.kernel_runs.recording import KernelSession
from xlab.observe.records import Record
from xlab.observe.records.text import text

SEEDS = range(int(os.environ.get("XLAB_KERNEL_RECORDS", "8")))
pytestmark = pytest.mark.filterwarnings("ignore::xlab.kernels.failures.KernelWarning")


def held(run, name, t=1 << 30):
    """The cells of a buffer of the call after a time."""
    place = next(i for i, b in enumerate(run.buffers) if (b.name, b.owner) == (name, "call"))
    cells = run.buffers[place].cells
    for c in run.changes:
        if c.buffer == place and c.t <= t:
            cells = c.cells
    return cells


def read_back_and_drawn(run):
    """A record is plain JSON, and its page and its text say the same every time."""
    again = Record.from_json(json.loads(json.dumps(run.to_json())))
    assert again.to_json() == run.to_json() and text(again) == text(run)
    assert view_for(run).static_html(run) == view_for(again).static_html(again)


def races_of(tasks, zeros, order, race):
    """Whether so many turns in this order have a race."""
    machine = Machine(
        tasks.call(), zeros, params=InterpretParams(detect_races=True), schedule=Schedule(order)
    )
    machine.run(until=len(order))
    return any(set(r.eqns) == set(race.equations) for r in machine.races)


@pytest.mark.parametrize("seed", SEEDS)
def test_k86_contents_end_as_the_outputs(seed):
    """Blocks of the run are those of the index maps; cells are the outputs, grey where nobody wrote."""
    kernel = random_kernel(seed)
    machine = Machine(kernel.call(), *kernel.args)
    outputs = machine.run()
    run = observe.kernel_run(kernel.call(), *kernel.args)
    assert run.time == machine.count and not run.races
    assert not [f for f in run.faults if f.kind in ("bounds", "error", "deadlock")]
    names = [o.name for o in run.operands if o.role == "output"]
    for name, value in zip(names, outputs, strict=True):
        if value.size <= 64:
            cells = held(run, name)
            assert all(c is None or c == x for c, x in zip(cells, value.reshape(-1), strict=True))
    static = observe.kernels(kernel.call(), *kernel.args)[0]
    if not static.left_out:
        facts = [
            sorted(
                (e.step, e.operand, e.index, e.start, e.shape, e.squeezed, e.clamped, e.visit)
                for e in r.blocks
            )
            for r in (run, static)
        ]
        assert facts[0] == facts[1]
        assert run.cost.movement == static.cost.movement
    read_back_and_drawn(run)


@pytest.mark.parametrize("seed", SEEDS)
def test_k95_planted_faults_are_in_the_record(seed):
    kernel = random_kernel(seed, "bounds")
    run = observe.kernel_run(kernel.call(), *kernel.args)
    assert run.faults[-1].kind == "bounds"
    grid = kernel.grid
    if grid:
        assert np.unravel_index(run.faults[-1].step, grid) == kernel.fault_at
    kernel = random_kernel(seed, "uninitialized")
    run = observe.kernel_run(kernel.call(), *kernel.args)
    name = f"scratch[{sorted(kernel.scratch).index('s8')}]"
    assert [f.kind for f in run.faults if f.ref == name] == ["uninitialized"]
    read_back_and_drawn(run)


@pytest.mark.parametrize("seed", SEEDS)
def test_k93_the_shortest_schedule_shows_its_race(seed):
    """Run, it has the race; with any one turn before the two accesses left out, it has not."""
    tasks = random_tasks(seed, "race")
    zeros = np.zeros(tasks.slots, np.int32)
    session = KernelSession(tasks.call(), zeros)
    if not session.run.races:
        pytest.skip("this order left out makes no race")
    for race in session.run.races:
        assert race.shortest, "the accesses can be made one after the other"
        order = race.shortest
        assert order[-2:] in itertools.permutations(race.cores)
        assert races_of(tasks, zeros, order, race)
        for i in range(len(order) - 2):
            assert not races_of(tasks, zeros, (*order[:i], *order[i + 1 :]), race)
    best = session.schedule("shortest")
    assert best.time == min(len(r.shortest) for r in session.run.races) and best.races
    read_back_and_drawn(session.run)


@pytest.mark.parametrize("seed", SEEDS)
def test_k93_no_race_is_recorded_where_there_is_none(seed):
    tasks = random_tasks(seed)
    zeros = np.zeros(tasks.slots, np.int32)
    run = observe.kernel_run(tasks.call(), zeros)
    assert held(run, "outputs[0]") == tuple(tasks.model().tolist())
    for other in (run, *run.others):
        assert not other.races and not other.faults
        assert held(other, "outputs[0]") == held(run, "outputs[0]")
        signals = {e.t: e.core for e in other.accesses if e.kind == "signal"}
        waits = {(e.until, e.core) for e in other.accesses if e.kind == "wait"}
        for t0, c0, t1, c1, _ in other.edges:
            assert signals[t0] == c0 and (t1, c1) in waits and t0 < t1
        assert set(other.edges) == set(signal_edges(other))


@pytest.mark.parametrize("seed", SEEDS)
def test_k96_a_planted_deadlock_is_recorded(seed):
    tasks = random_tasks(seed, "deadlock")
    if not tasks.deadlocks:
        pytest.skip("this cycle waits for nothing")
    run = observe.kernel_run(tasks.call(), np.zeros(tasks.slots, np.int32))
    assert run.faults[-1].kind == "deadlock"
    assert any(e.kind == "wait" and e.until < 0 for e in run.accesses)
    read_back_and_drawn(run)
