"""One process of a run: `python -m tests.benchmarks.measure SIDE QUICK NAME...` prints seconds by name as JSON."""

from __future__ import annotations

import json
import sys

from tests.benchmarks import arrays, linen, processes  # noqa: F401  add their rows
from tests.benchmarks.cases import BENCHMARKS
from tests.reference.sample import namespaces


def main(side: str, quick: bool, names: list[str]) -> dict:
    """Seconds of each benchmark on one side, or the text of the error that it raised."""
    n = namespaces(side)
    found: dict[str, float | str] = {}
    for name in names:
        try:
            found[name] = BENCHMARKS[name].run(n, quick)
        except (
            Exception
        ) as error:  # what one side lacks is a row of the table, not the end of the run
            found[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return found


if __name__ == "__main__":
    print("\n" + json.dumps(main(sys.argv[1], sys.argv[2] == "quick", sys.argv[3:])))
