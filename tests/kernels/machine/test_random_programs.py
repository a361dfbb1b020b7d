"""Random programs: faults that were planted are found, and none where there is none (K86, K93, K95, K96, K104)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.random_programs import PROGRAMS, random_kernel, random_tasks
from xlab.kernels import InterpretParams
from xlab.kernels.machine import DeadlockError, Machine, OutOfBoundsError, Schedule, trace_blocks
from xlab.kernels.machine.events import BlockEvent

pytestmark = pytest.mark.filterwarnings("ignore::xlab.kernels.machine.KernelWarning")
SEEDS = range(PROGRAMS)
RACES = InterpretParams(detect_races=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_k86_value_is_the_model(seed):
    kernel = random_kernel(seed)
    machine = Machine(kernel.call(), *kernel.args)
    for got, want in zip(machine.run(), kernel.model(), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    blocks = [e for e in machine.events() if isinstance(e, BlockEvent)]
    assert blocks == trace_blocks(kernel.call(), *kernel.args)


@pytest.mark.parametrize("seed", range(PROGRAMS // 3))
def test_k86_value_is_compiled(seed):
    kernel = random_kernel(seed)
    value = Machine(kernel.call(), *kernel.args, record=False).run()
    for got, want in zip(value, kernel.call(interpret=True)(*kernel.args), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("seed", SEEDS)
def test_k10_planted_bounds_errors_are_found(seed):
    kernel = random_kernel(seed, "bounds")
    machine = Machine(kernel.call(), *kernel.args)
    with pytest.raises(OutOfBoundsError) as error:
        machine.run()
    assert error.value.place["grid"] == kernel.fault_at


@pytest.mark.parametrize("seed", SEEDS)
def test_k95_planted_uninitialized_reads_are_found(seed):
    kernel = random_kernel(seed, "uninitialized")
    machine = Machine(kernel.call(), *kernel.args)
    machine.run()
    found = [
        e for e in machine.lint if e["kind"] == "uninitialized read" and e["ref"] == _name(kernel)
    ]
    assert [(e["slice"], tuple(e["grid"]), e["count"]) for e in found] == [
        ([[0, 2]], kernel.fault_at, 1)
    ]


def _name(kernel):
    return f"scratch[{sorted(kernel.scratch).index('s8')}]"


@pytest.mark.parametrize("seed", SEEDS)
def test_k93_no_race_where_there_is_none(seed):
    tasks = random_tasks(seed)
    assert not tasks.races and not tasks.deadlocks
    want = tasks.model()
    zeros = np.zeros(tasks.slots, np.int32)
    for schedule in (
        Schedule("sequential"),
        Schedule("round_robin"),
        Schedule("random", seed=seed),
    ):
        machine = Machine(tasks.call(), zeros, params=RACES, schedule=schedule)
        np.testing.assert_array_equal(machine.run()[0], want)
        assert machine.races == []


@pytest.mark.parametrize("seed", SEEDS)
def test_k93_planted_races_are_found(seed):
    tasks = random_tasks(seed, "race")
    for schedule in ("sequential", Schedule("random", seed=seed)):
        machine = Machine(
            tasks.call(), np.zeros(tasks.slots, np.int32), params=RACES, schedule=schedule
        )
        machine.run()
        assert machine.races_found == bool(tasks.races)
        # What is reported lies between cores that do race, on the slot they share.
        clashes = {
            frozenset((tasks.tasks[a].core, tasks.tasks[b].core))
            for a, b in map(sorted, tasks.races)
        }
        assert {frozenset(r.cores) for r in machine.races} <= clashes


@pytest.mark.parametrize("seed", SEEDS)
def test_k96_planted_deadlocks_are_found(seed):
    tasks = random_tasks(seed, "deadlock")
    assert tasks.deadlocks
    for schedule in ("sequential", Schedule("random", seed=seed)):
        machine = Machine(tasks.call(), np.zeros(tasks.slots, np.int32), schedule=schedule)
        with pytest.raises(DeadlockError) as error:
            machine.run()
        assert {0, 1} & {w["core"] for w in error.value.waiting}
