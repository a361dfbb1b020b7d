"""Programs drawn at random whose cores wait for one another: compiled, interpreted under any schedule, and in NumPy they agree.

Each program is a list of steps, `buffer[target] = buffer[source] * a + b`, each on some core of some mesh. Where two steps on different
cores touch the same element and one writes it, the later one waits for a semaphore that the earlier one signals. So every order
that keeps to the semaphores gives what the steps give one after the other (K86, K88, K89, K93, K104).
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab.kernels import (
    CoreMesh,
    InterpretParams,
    SemaphoreType,
    mpmd_map,
    semaphore_signal,
    semaphore_wait,
    when,
)
from xlab.kernels.machine import DeadlockError, Machine

PROGRAMS = int(os.environ.get("XLAB_KERNEL_PROGRAMS", "12"))
TYPES = ("scalar", "vector", "matrix")


class Step(NamedTuple):
    pair: int
    core: int
    source: int
    target: int
    a: int
    b: int


class Drawn(NamedTuple):
    meshes: list
    steps: list[Step]
    waits: list[list[int]]  # per step the semaphores it waits for
    signals: list[list[int]]  # per step the semaphores it signals
    size: int


def drawn(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    count, size = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    meshes = [CoreMesh(f"axis{i}", int(rng.integers(1, 4)), TYPES[i]) for i in range(count)]
    steps = []
    for _ in range(int(rng.integers(3, 9))):
        pair = int(rng.integers(count))
        core = int(rng.integers(meshes[pair].num_cores))
        steps.append(Step(pair, core, *(int(i) for i in rng.integers(size, size=2)), *(int(i) for i in rng.integers(-3, 4, size=2))))  # fmt: skip
    waits: list[list[int]] = [[] for _ in steps]
    signals: list[list[int]] = [[] for _ in steps]
    number = 0
    for later, s in enumerate(steps):
        for earlier, e in enumerate(steps[:later]):
            meet = e.target in (s.source, s.target) or s.target == e.source
            if meet and (e.pair, e.core) != (s.pair, s.core):
                signals[earlier].append(number)
                waits[later].append(number)
                number += 1
    return Drawn(meshes, steps, waits, signals, size)


def kernel_of(program: Drawn, pair: int, synchronized: bool = True):
    def kernel(x, o, semaphores):
        mine = lax.axis_index(f"axis{pair}")
        for core in range(program.meshes[pair].num_cores):

            @when(mine == core)
            def _(core=core):
                for number, s in enumerate(program.steps):
                    if (s.pair, s.core) == (pair, core):
                        for k in program.waits[number] if synchronized else ():
                            semaphore_wait(semaphores.at[k])
                        o[s.target] = o[s.source] * s.a + s.b
                        for k in program.signals[number] if synchronized else ():
                            semaphore_signal(semaphores.at[k])

    return kernel


def call_of(program: Drawn, **options):
    number = sum(map(len, program.waits))
    return mpmd_map(
        [(m, kernel_of(program, i)) for i, m in enumerate(program.meshes)],
        xlab.ShapeDtypeStruct((program.size,), "int32"),
        scratch_types=[SemaphoreType.REGULAR((max(number, 1),))],
        input_output_aliases={0: 0},
        **options,
    )


def in_numpy(program: Drawn, x):
    out = np.array(x)
    for s in program.steps:
        out[s.target] = out[s.source] * s.a + s.b
    return out


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_k86_compiled_and_interpreted_are_what_numpy_says(seed):
    program = drawn(seed)
    x = np.random.default_rng(seed).integers(-5, 6, program.size).astype("int32")
    want = in_numpy(program, x)
    np.testing.assert_array_equal(call_of(program, interpret=True)(x), want)
    schedule = ("sequential", "round_robin", "random")[seed % 3]
    params = InterpretParams(schedule=schedule, random_seed=seed, detect_races=True)
    machine = Machine(call_of(program, interpret=params), x)
    (got,) = machine.run()
    np.testing.assert_array_equal(got, want)
    assert not machine.races


@pytest.mark.parametrize("seed", range(min(PROGRAMS, 4)))
def test_k104_under_every_schedule(seed):
    program = drawn(1000 + seed)
    x = np.arange(program.size, dtype=np.int32)
    want = in_numpy(program, x)
    cores = sum(m.num_cores for m in program.meshes)
    rng = np.random.default_rng(seed)
    for schedule in ("sequential", "round_robin", "threads", rng.integers(cores, size=50).tolist()):
        machine = Machine(call_of(program, interpret=InterpretParams(schedule=schedule)), x)
        np.testing.assert_array_equal(machine.run()[0], want)


@pytest.mark.parametrize("seed", range(min(PROGRAMS, 40)))
def test_k96_a_signal_that_is_missing_is_found(seed):
    program = drawn(2000 + seed)
    giving = [i for i, signals in enumerate(program.signals) if signals]
    if not giving:
        return
    missing = giving[seed % len(giving)]
    signals = [s[1:] if i == missing else s for i, s in enumerate(program.signals)]
    program = program._replace(signals=signals)
    x = np.zeros(program.size, np.int32)
    with pytest.raises(DeadlockError) as compiled:
        call_of(program, interpret=True)(x)
    with pytest.raises(DeadlockError) as interpreted:
        call_of(program, interpret="value")(x)
    found = [
        [(w["core"], w["semaphore"]) for w in e.value.waiting] for e in (compiled, interpreted)
    ]
    assert found[0]
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(min(PROGRAMS, 40)))
def test_k93_an_order_that_is_missing_is_a_race(seed):
    """Without any semaphore, what two cores do to one element is unordered, and reported exactly then."""
    program = drawn(3000 + seed)
    conflicts = sum(map(len, program.waits)) > 0
    params = InterpretParams(detect_races=True)
    pairs = [(m, kernel_of(program, i, synchronized=False)) for i, m in enumerate(program.meshes)]
    call = mpmd_map(
        pairs,
        xlab.ShapeDtypeStruct((program.size,), "int32"),
        scratch_types=[SemaphoreType.REGULAR((1,))],
        input_output_aliases={0: 0},
        interpret=params,
    )
    machine = Machine(call, np.zeros(program.size, np.int32))
    machine.run()
    assert bool(machine.races) == conflicts
