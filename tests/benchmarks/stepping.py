"""The stepper on a program of 20,000 equations: one step, a jump to any equation, the run, against the goals of the view.

python -m tests.benchmarks.stepping [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

import numpy as np

from xlab import lax, observe
from xlab import numpy as jnp
from xlab.notebook.magics.xstep import handlers

EQUATIONS = 20_000


def long(x):
    """A chain of 20,000 equations."""
    for _ in range(EQUATIONS // 2):
        x = lax.mul(lax.sin(x), np.float32(1.001))
    return x


def spent(run) -> float:
    """Milliseconds of one call."""
    begin = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - begin)


def measure() -> list[tuple[str, float, float]]:
    """`(what, the slowest of many in ms, goal in ms)`, as the page asks the kernel."""
    stepper = observe.Stepper(long, jnp.ones((64, 64)))
    ask = handlers(stepper)
    ask["move"](how="last", index=0, equation=-1)
    pick = random.Random(1)
    places = [pick.randrange(EQUATIONS - 60) for _ in range(40)]
    jumps = [spent(lambda i=i: ask["move"](how="goto", index=i, equation=-1)) for i in places]
    start = places[-1]
    steps = [
        spent(lambda i=i: ask["move"](how="next", index=start + i, equation=-1)) for i in range(50)
    ]
    backs = [
        spent(lambda i=i: ask["move"](how="back", index=start + 50 - i, equation=-1))
        for i in range(50)
    ]
    return [
        ("one step on", max(steps), 50),
        ("one step back", max(backs), 50),
        ("a jump to any equation", max(jumps), 500),
    ]


def main(argv: list[str] | None = None) -> int:
    """Prints the table; exit status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.stepping", description=__doc__
    )
    parser.add_argument("--json", metavar="PATH", help="also write everything measured to PATH")
    given = parser.parse_args(argv)
    found = measure()
    for what, value, goal in found:
        print(
            f"{EQUATIONS:,} equations: {what:24} {value:8.2f} ms  goal {goal} ms{'' if value <= goal else '   missed'}"
        )
    if given.json:
        rows = [
            {"what": what, "value": value, "goal": goal, "unit": "ms"}
            for what, value, goal in found
        ]
        Path(given.json).write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(value > goal for _, value, goal in found))


if __name__ == "__main__":
    sys.exit(main())
