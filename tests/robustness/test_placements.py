"""Whatever way its operands lie, a program is compiled and shown without taking the process down.

`XLAB_PLACEMENTS` takes so many placements of every program (1 of every sixtieth here; a long run takes 3).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.robustness import placements

ROOT = Path(__file__).resolve().parents[2]
COUNT = os.environ.get("XLAB_PLACEMENTS", "")
PARTS = (os.cpu_count() or 1) if COUNT else 60


class Outcome(NamedTuple):
    """How many programs came to which end, and lines about those that should not have."""

    ends: Counter[str]
    wrong: list[str]


def sweep(count: str, part: int, of: int) -> Outcome:
    """Looks at the programs of a part; where one takes its process down, goes on behind it."""
    ends: Counter[str] = Counter()
    wrong, first = [], 0
    while True:
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.robustness.placements",
                count,
                str(part),
                str(of),
                str(first),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "9"},
        )
        begun: dict[str, Any] = {"begin": "nothing", "number": 0}
        open_ = False
        with child:
            for text in child.stdout:
                line = json.loads(text)
                if "begin" in line:
                    begun, open_ = line, True
                    continue
                open_ = False
                ends[line["end"]] += 1
                if line["end"] == "shown" and line["words"]:
                    ends["shown in part"] += 1
                if line["end"] == "not shown" or (
                    line["end"] == "shown" and unexplained(line["words"])
                ):
                    wrong.append(f"{begun['begin']}: {line['end']} {line['words']}")
        if child.returncode == 0:
            return Outcome(ends, wrong)
        ends["deaths"] += 1
        wrong.append(
            f"{begun['begin']}: the process ended with {child.returncode}{'' if open_ else ' after it'}"
        )
        if begun["begin"] == "nothing":
            return Outcome(ends, wrong)
        first = begun["number"] + of


def unexplained(words: str) -> bool:
    """Whether what is not known is more than the text of the partitioned program."""
    return any("its stage `local`" not in sentence for sentence in words.split(" | ") if sentence)


@pytest.mark.slow
def test_every_placement_is_shown():
    with ThreadPoolExecutor(PARTS if COUNT else 1) as pool:
        parts = range(PARTS if COUNT else 1)
        outcomes = list(pool.map(lambda part: sweep(COUNT or "1", part, PARTS), parts))
    ends = sum((o.ends for o in outcomes), Counter())
    print(dict(ends))
    wrong = [line for o in outcomes for line in o.wrong]
    assert not wrong, f"{dict(ends)}\n" + "\n".join(wrong)
    assert ends["shown"] > 100 and ends["shown"] > 5 * ends["not compiled"]


def test_a_death_is_seen(monkeypatch):
    monkeypatch.setenv("PYTHONFAULTHANDLER", "0")
    monkeypatch.setattr(subprocess, "Popen", dying(subprocess.Popen))
    found = sweep("1", 0, 1)
    assert found.ends["deaths"] == 1 and found.ends["shown"] == 2
    assert found.wrong == ["second: the process ended with -11"]


def dying(popen):
    """In place of the programs one that ends its process at the second, and one that begins behind it."""

    def start(command, **options):
        first = int(command[-1])
        code = "import os, json\n" + "".join(
            f"print(json.dumps(dict(number={n}, begin={name!r})), flush=True)\n"
            + (
                "os.kill(os.getpid(), 11)\n"
                if name == "second"
                else "print(json.dumps(dict(end='shown', words='')), flush=True)\n"
            )
            for n, name in enumerate(("first", "second", "third"))
            if n >= first
        )
        return popen([sys.executable, "-c", code], **options)

    return start


def test_placements_are_of_one_and_two_axes():
    found = placements.placements([(4, 2)])
    assert (
        ((("x",), ()),) in found
        and ((("x",), ("y",)),) in found
        and ((("x", "y"), ()),) in found
        and ((("y", "x"), ()),) in found
    )
    two = placements.placements([(4,), (4,)])
    assert ((("x",),), (("y",),)) in two and ((("x",),), (("x",),)) in two
    assert placements.mesh_sizes([(4,)], ((("x",),),)) == (2, 4) and placements.mesh_sizes(
        [(4,)], ((("x", "y"),),)
    ) == (2, 2)
    assert placements.mesh_sizes([(11,)], ((("x",),),)) is None
