"""What looking costs: a `%%xjit` cell beside the same cell jitted by hand, and a warm call with no recorder.

    python -m tests.benchmarks.cells [--json PATH] [--rounds N]

Cells run in a real kernel, asked as a front end asks; the two kinds alternate. What a cell adds counts from the request to the prompt;
its report follows the result, and that it counts apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.notebook.kernels import ROOT, Kernel, kernel

SETUP = """
%load_ext xlab
import xlab
from xlab import lax
from xlab import numpy as jnp
x = jnp.ones((64, 64)); w = jnp.ones((64, 64))
_ = xlab.block_until_ready(xlab.jit(lambda a: jnp.tanh(a @ w))(x))
"""
SIZES = {"small": 4, "1,000 equations": 1000}

WARM = """
import statistics, sys, time
import xlab
from xlab import numpy as jnp
f = xlab.jit(lambda a, b: a * b + 1)
x = jnp.ones((8, 8))
xlab.block_until_ready(f(x, x))
def batch(n=20000):
    start = time.perf_counter()
    for _ in range(n):
        f(x, x)
    xlab.block_until_ready(f(x, x))
    return (time.perf_counter() - start) / n
batch()
first = [batch() for _ in range(9)]
from xlab import observe
for _ in range(3):
    with observe.record() as session:
        f(x, x)
second = [batch() for _ in range(9)]
print(min(first), min(second), statistics.median(first), statistics.median(second))
"""
"""Warm calls before anything of observation was imported, and after three recordings."""


def body(count: int, number: int) -> str:
    """Lines of a cell of about `count` equations; `number` makes it a program of its own."""
    if count < 10:
        return f"y = jnp.tanh(x @ w) * {number}.5\nz = y.sum()\n"
    return f"y = x * {number}.5\nfor _ in range({count // 4}):\n    y = jnp.sin(y) @ w * 0.01 + x\nz = y.sum()\n"


def plain(count: int, number: int) -> str:
    """The same cell, jitted by hand."""
    inner = "".join(f"    {line}\n" for line in body(count, number).splitlines())
    return f"@xlab.jit\ndef cell_{number}(x, w):\n{inner}    return y, z\ny, z = xlab.block_until_ready(cell_{number}(x, w))\n"


def cell_costs(k: Kernel, rounds: int) -> list[dict]:
    """Per size and run the seconds of both kinds."""
    k.run(SETUP)
    number = 0
    for warm_up in range(2):
        k.run("%%xjit\n" + body(4, 900 + warm_up), "warm up")
    rows = []
    for name, count in SIZES.items():
        found: dict[str, dict[str, list[float]]] = {
            run: {"plain": [], "xjit": []} for run in ("first run", "run again")
        }
        late: dict[str, list[float]] = {run: [] for run in found}
        for turn in range(rounds):
            number += 2
            cells = {"plain": plain(count, number), "xjit": "%%xjit\n" + body(count, number + 1)}
            for kind in sorted(cells, reverse=bool(turn % 2)):
                answer = k.run(cells[kind], kind)
                found["first run"][kind].append(answer.seconds)
                late["first run"] += [answer.followed] * (kind == "xjit")
            again = {
                "plain": f"y, z = xlab.block_until_ready(cell_{number}(x, w))",
                "xjit": cells["xjit"],
            }
            for _ in range(3):
                for kind in again:
                    answer = k.run(again[kind], kind)
                    found["run again"][kind].append(answer.seconds)
                    late["run again"] += [answer.followed] * (kind == "xjit")
        for run, kinds in found.items():
            base, made = (statistics.median(kinds[kind]) for kind in ("plain", "xjit"))
            rows.append(
                {
                    "what": f"%%xjit, {name}, {run}: added",
                    "value": 1000 * (made - base),
                    "goal": 1000 * (0.05 * base + 0.03),
                    "unit": "ms",
                    "plain_ms": 1000 * base,
                    "xjit_ms": 1000 * made,
                }
            )
            rows.append(
                {
                    "what": f"%%xjit, {name}, {run}: its report follows by",
                    "value": 1000 * statistics.median(late[run]),
                    "goal": 200.0,
                    "unit": "ms",
                }
            )
    return rows


def first_cost(pause: float, rounds: int = 3) -> dict:
    """How long the report of the first cell of a kernel is waited for, run so many seconds after `%load_ext xlab`."""
    late = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, kernel(Path(folder)) as k:
            k.run(SETUP.replace("_ =", "#"))
            time.sleep(pause)
            late.append(k.run("%%xjit\n" + body(1000, 1)).followed)
    when = "after a moment" if pause else "at once"
    return {
        "what": f"%%xjit, 1,000 equations, first cell, {when}: its report follows by",
        "value": 1000 * min(late),
        "goal": 300.0,
        "unit": "ms",
    }


def warm_cost() -> dict:
    """How much slower a warm call is after recordings than before observation was imported."""
    found = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", WARM], cwd=ROOT, capture_output=True, text=True, check=True
        )
        before, after, *_ = map(float, done.stdout.split())
        found.append((after / before, before))
    ratio, before = min(found)
    return {
        "what": "a warm call with no recorder: slower by",
        "value": 100 * (ratio - 1),
        "goal": 1.0,
        "unit": "%",
        "call_us": 1e6 * before,
    }


def measure(rounds: int = 5) -> list[dict]:
    """Every number, with its goal."""
    with tempfile.TemporaryDirectory() as folder, kernel(Path(folder)) as k:
        rows = cell_costs(k, rounds)
    return [*rows, first_cost(3), first_cost(0), warm_cost()]


def main(argv: list[str] | None = None) -> int:
    """Prints the table; exit status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cells", description=__doc__)
    parser.add_argument("--json", metavar="PATH", help="also write everything measured to PATH")
    parser.add_argument("--rounds", type=int, default=5, help="cells of each kind (5)")
    given = parser.parse_args(argv)
    rows = measure(given.rounds)
    for row in rows:
        beside = (
            f"   plain {row['plain_ms']:.1f} ms, %%xjit {row['xjit_ms']:.1f} ms"
            if "plain_ms" in row
            else ""
        )
        print(
            f"{row['what']:58} {row['value']:9.3g} {row['unit']:3} goal {row['goal']:.3g}{'' if row['value'] <= row['goal'] else '   missed'}{beside}"
        )
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["value"] > row["goal"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
