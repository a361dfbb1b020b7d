"""Runs both sides in alternating fresh processes and prints ratios of medians against the goals.

A machine that others use too runs everything at half its speed for seconds or minutes, which may be those of one side: beside the ratio
of seconds stands that of work, counted in rounds of an empty loop that the same process ran meanwhile.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.benchmarks import arrays, linen, processes  # noqa: F401  add their rows
from tests.benchmarks.cases import BENCHMARKS, CHAINS, LONG, NEEDS, SIZES

ROOT = Path(__file__).resolve().parent.parent.parent


def main(argv: list[str] | None = None) -> int:
    """Runs the benchmarks that the command line asks for; exit status 1 when a goal is missed with --strict."""
    args = parser().parse_args(argv)
    names = [
        name
        for name in BENCHMARKS
        if not (args.quick and name in LONG)
        and (not args.only or any(word in name for word in args.only))
    ]
    for name in list(names):
        absent = [lib for lib in NEEDS.get(name, ()) if importlib.util.find_spec(lib) is None]
        if absent:
            names.remove(name)
            print(
                f"left out: {name}, without {' and '.join(absent)} (pip install '.[libraries]')",
                file=sys.stderr,
            )
    if not names:
        sys.exit(f"no benchmark contains {args.only}; there are: " + "; ".join(BENCHMARKS))
    rounds = args.rounds or (2 if args.quick else 5)
    sides = {"reference": "jax", "xlab": args.subject}
    samples: dict[str, dict[str, list]] = {side: {name: [] for name in names} for side in sides}
    for number in range(rounds):
        order = list(sides) if number % 2 == 0 else list(sides)[::-1]
        for side in order:
            print(f"round {number + 1} of {rounds}: {side}", file=sys.stderr, flush=True)
            for name, found in one_round(sides[side], names, args.quick).items():
                samples[side][name].append(found)
    results = {name: summary(name, {side: samples[side][name] for side in sides}) for name in names}
    print(table(results))
    plot = flatness(results)
    if plot:
        print("\n" + plot)
    if args.json:
        Path(args.json).write_text(
            json.dumps(
                {
                    "machine": machine(),
                    "rounds": rounds,
                    "quick": args.quick,
                    "subject": args.subject,
                    "results": results,
                },
                indent=1,
            )
            + "\n"
        )
    return int(
        args.strict
        and any(row["ratio"] is None or row["ratio"] > row["goal"] for row in results.values())
    )


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    made.add_argument(
        "--quick", action="store_true", help="two rounds, no 100 000-equation programs"
    )
    made.add_argument(
        "--only", action="append", metavar="WORD", help="benchmarks whose name contains WORD"
    )
    made.add_argument("--rounds", type=int, help="pairs of processes (default 5)")
    made.add_argument("--json", metavar="PATH", help="also write everything measured to PATH")
    made.add_argument("--strict", action="store_true", help="exit with 1 when a goal is missed")
    made.add_argument(
        "--subject", default="xlab", help="what is compared; `jax` measures the noise of the method"
    )
    return made


def one_round(module: str, names: list[str], quick: bool) -> dict:
    """Seconds and rounds of an empty loop, or an error's text, of every benchmark: one process for all, one more for each fresh one."""
    found = {
        name: from_start(module, BENCHMARKS[name].run)
        for name in names
        if isinstance(BENCHMARKS[name].run, str)
    }
    warm = [name for name in names if name not in found]
    if warm:
        command = [
            sys.executable,
            "-m",
            "tests.benchmarks.measure",
            module,
            "quick" if quick else "full",
            *warm,
        ]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(8), capture_output=True, text=True, check=False
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][
                :200
            ]
            found |= dict.fromkeys(warm, reason)
        else:
            found |= json.loads(done.stdout.splitlines()[-1])
    return found


def from_start(module: str, script: str) -> tuple[float, None] | str:
    """Seconds that a script takes in a process of its own, interpreter start excluded."""
    code = (
        f"import time; start = time.perf_counter()\n{script.format(name=module)}\n"
        "print(time.perf_counter() - start)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(1),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["?"])[-1][:200]
    return float(done.stdout.split()[-1]), None


def environment(devices: int) -> dict:
    return dict(
        os.environ,
        JAX_PLATFORMS="cpu",
        XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}",
        XLAB_NUM_CPU_DEVICES=str(devices),
        TF_CPP_MIN_LOG_LEVEL="2",
    )


def summary(name: str, samples: dict[str, list]) -> dict:
    """Medians of both sides and their ratio; `None` and the error where a side failed."""
    row: dict = {
        "goal": BENCHMARKS[name].goal,
        "per": BENCHMARKS[name].per,
        "ratio": None,
        "work": None,
        "samples": samples,
    }
    loops: dict[str, float] = {}
    for side, values in samples.items():
        failed = next((v for v in values if isinstance(v, str)), None)
        row[side] = None if failed else statistics.median([seconds for seconds, _ in values])
        if failed:
            row["error"] = f"{side}: {failed}"
        elif values and None not in (counted := [count for _, count in values]):
            loops[side] = statistics.median(counted)
    if row["reference"] and row["xlab"]:
        row["ratio"] = row["xlab"] / row["reference"]
    # A benchmark that is over before the loop has gone round tells nothing of work.
    if len(loops) == 2 and all(loops.values()) and row["per"] != "bytes":
        row["work"] = loops["xlab"] / loops["reference"]
    return row


def table(results: dict[str, dict]) -> str:
    """The results as aligned text."""
    wide = max(map(len, results))
    out = [
        f"{'benchmark'.ljust(wide)}  {'reference':>10}  {'xlab':>10}  {'ratio':>6}  {'work':>6}  {'goal':>5}  per"
    ]
    for name, row in results.items():
        ratio, work = (
            "     -" if row[what] is None else f"{row[what]:6.2f}" for what in ("ratio", "work")
        )
        mark = "" if row["ratio"] is None else "ok" if row["ratio"] <= row["goal"] else "missed"
        out.append(
            f"{name.ljust(wide)}  {duration(row['reference'], row['per']):>10}  {duration(row['xlab'], row['per']):>10}  {ratio}  {work}  "
            f"{row['goal']:5.2f}  {row['per'].ljust(9)}  {row.get('error', mark)}".rstrip()
        )
    ratios = [row["ratio"] / row["goal"] for row in results.values() if row["ratio"] is not None]
    met = sum(r <= 1 for r in ratios)
    out.append(f"{met} of {len(results)} goals met")
    return "\n".join(out)


def flatness(results: dict[str, dict]) -> str:
    """Time per operation against program size, as bars: equal bars are a flat cost."""
    out = []
    for what in ("trace", "lower"):
        for kind in CHAINS:
            rows = [
                (size, results[name])
                for size in SIZES
                if (name := f"{what} {kind}, {size}") in results
            ]
            values = [row[side] for _, row in rows for side in ("reference", "xlab") if row[side]]
            if len(rows) < 2 or not values:
                continue
            out.append(f"{what} {kind}, per operation")
            for side in ("reference", "xlab"):
                for size, row in rows:
                    if row[side]:
                        bar = "█" * max(1, round(40 * row[side] / max(values)))
                        out.append(f"  {side:<9} {size:>7}  {duration(row[side]):>9}  {bar}")
    return "\n".join(out)


def duration(seconds: float | None, per: str = "") -> str:
    """Seconds (or bytes, where that is the unit of the row) with three digits and a unit."""
    if seconds is None:
        return "-"
    if per == "bytes":
        return f"{seconds / 1e6:.3g} MB"
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def machine() -> dict:
    versions = {}
    for name in ("jaxlib", "jax", "numpy"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.system(),
        **versions,
    }


if __name__ == "__main__":
    sys.exit(main())
