"""One process of a run: `python -m tests.benchmarks.measure SIDE QUICK NAME...` prints seconds by name as JSON, and how fast the machine was."""

from __future__ import annotations

import json
import statistics
import sys

from tests.benchmarks import arrays, linen, processes  # noqa: F401  add their rows
from tests.benchmarks.cases import BENCHMARKS, CLOCK
from tests.reference.sample import namespaces


def main(side: str, quick: bool, names: list[str]) -> dict:
    """Of each benchmark on one side: seconds, and how often an empty loop runs in that time; or the text of the error that it raised."""
    n = namespaces(side)
    found: dict[str, tuple[float, float | None] | str] = {}
    for name in names:
        CLOCK.clear()
        try:
            seconds = BENCHMARKS[name].run(n, quick)
            found[name] = seconds, seconds * statistics.median(CLOCK) if CLOCK else None
        except (
            Exception
        ) as error:  # what one side lacks is a row of the table, not the end of the run
            found[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return found


if __name__ == "__main__":
    print("\n" + json.dumps(main(sys.argv[1], sys.argv[2] == "quick", sys.argv[3:])))
