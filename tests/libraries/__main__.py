"""`python -m tests.libraries LIBRARY[:PATH,...]...`: see the package."""

from __future__ import annotations

import sys
import time

from tests.libraries.suites import Suite, compare, missed, names


def main(argv: list[str]) -> int:
    split = next((i for i, word in enumerate(argv) if word.startswith("-")), len(argv))
    wanted, given = argv[:split], tuple(argv[split:])
    unknown = [word for word in wanted if word.partition(":")[0] not in (*names(), "all")]
    if unknown or not wanted:
        print(
            f"python -m tests.libraries LIBRARY[:PATH,...]... [options of pytest]; libraries: all, {', '.join(names())}"
        )
        return 2
    bad = 0
    for name in names() if "all" in wanted else wanted:
        suite, began = Suite.of(*name.split(":", 1)), time.perf_counter()
        try:
            ours = suite.run("xlab", (*suite.tests, *suite.apart), given)
            unsure = missed(ours)
            theirs = suite.run("jax", unsure) if unsure else {}
        except RuntimeError as error:  # of one library; the others are run
            print(error, flush=True)
            bad += 1
            continue
        found = compare(suite, ours, theirs)
        print(f"{found}\n  {time.perf_counter() - began:.0f} s", flush=True)
        bad += not found.good
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
