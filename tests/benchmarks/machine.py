"""The value interpreter on a kernel of 10,000 grid steps: how many a second, and how fast it steps, goes back and jumps.

python -m tests.benchmarks.machine [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

import numpy as np

import xlab
from xlab.kernels import BlockSpec, kernel_call
from xlab.kernels.machine import Machine

STEPS = 10_000


def kernel(x_ref, y_ref, o_ref):
    """Five equations on small blocks."""
    o_ref[...] = x_ref[...] * y_ref[...] + np.float32(1)


def call(steps: int):
    """The kernel over so many grid steps, and its operands."""
    block = BlockSpec((8,), lambda i: (i,))
    out = xlab.ShapeDtypeStruct((8 * steps,), "float32")
    made = kernel_call(
        kernel, out, grid=steps, in_specs=[block, block], out_specs=block, interpret="value"
    )
    return made, np.ones(8 * steps, np.float32)


def spent(run) -> float:
    """Milliseconds of one call."""
    begin = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - begin)


def measure() -> list[tuple[str, float, float, str]]:
    """`(what, value, goal, unit)`; rates are the best of three, waits the slowest of many."""
    made, x = call(STEPS)
    made(x, x)
    whole = min(spent(lambda: made(x, x)) for _ in range(3))
    machine = Machine(made, x, x)
    machine.run()
    pick = random.Random(1)
    last = machine.count
    jumps, backs, steps = [], [], []
    for _ in range(20):
        fork = machine.fork()
        jumps.append(spent(lambda fork=fork: fork.goto(pick.randrange(last))))
        backs.append(spent(fork.back) if fork.count else 0.0)
        steps.append(spent(fork.step))
    return [
        ("grid steps a second", STEPS / whole * 1000, 10_000, "steps"),
        ("one equation", max(steps), 50, "ms"),
        ("one equation back", max(backs), 50, "ms"),
        ("a jump to any equation", max(jumps), 50, "ms"),
    ]


def main(argv: list[str] | None = None) -> int:
    """Prints the table; exit status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.machine", description=__doc__)
    parser.add_argument("--json", metavar="PATH", help="also write everything measured to PATH")
    given = parser.parse_args(argv)
    found = measure()
    missed = [v < goal if unit == "steps" else v > goal for _, v, goal, unit in found]
    for (what, value, goal, unit), bad in zip(found, missed):
        print(f"{what:24} {value:10,.2f} {unit}  goal {goal:,} {unit}{'   missed' if bad else ''}")
    if given.json:
        rows = [dict(zip(("what", "value", "goal", "unit"), row)) for row in found]
        Path(given.json).write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
