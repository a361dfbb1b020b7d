"""Later forms of a program as columns for the page: the entry first, bodies of regions folded, lines joined to equations."""

from __future__ import annotations

import re
from typing import Any

from xlab.notebook.views.draw import clean
from xlab.observe.records import Level

TITLES = {
    "stablehlo": "StableHLO",
    "propagated": "shardings propagated",
    "partitioned": "partitioned",
    "optimized": "compiled HLO",
}

_METADATA = re.compile(r', metadata=\{[^{}"]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^{}"]*)*\}')
"""Where an instruction comes from, as the compiler writes it: the page has it as links to equations and lines."""

_BLOCK = re.compile(r"^(ENTRY )?%?[\w.\-]+ .*\{$")


def level_columns(level: Level) -> dict[str, Any]:
    """Lines, links to equations, measured times, what folds (`[line, how many]`), and which of these are closed at first.

    >>> from xlab.observe.records import Level
    >>> made = level_columns(Level("optimized", "HloModule m\\n\\n%r (a: f32[]) -> f32[] {\\n  %a = f32[]\\n}\\n\\nENTRY %e () -> f32[] {\\n  %x = f32[]\\n}", ((8, (3,)),)))
    >>> made["lines"][0], made["links"], made["fold"], made["closed"]
    ('ENTRY %e () -> f32[] {', [[2, 3]], [[0, 2], [3, 2]], [3])
    """
    lines = level.text.splitlines()
    # This machine's module, or that of a target.
    compiled = level.name == "optimized" or ":" in level.name
    order = _hlo_order(lines) if compiled else [i for i, line in enumerate(lines) if line.strip()]
    place = {old: new for new, old in enumerate(order)}
    shown = [lines[i] for i in order]
    fold = _folds(shown)
    closed = [at for at, _ in fold if _starts_closed(shown[at])]
    return {
        "name": TITLES.get(level.name, clean(level.name)),
        "language": "hlo" if compiled else "mlir",
        "lines": [
            clean(_METADATA.sub("", line) if "metadata={" in line else line) for line in shown
        ],
        "links": [
            [place[line - 1] + 1, *found] for line, found in level.links if line - 1 in place
        ],
        "heat": [[place[line - 1] + 1, us] for line, us in level.heat if line - 1 in place],
        "fold": fold,
        "closed": closed,
        "start": _first_of_compiled(shown)
        if compiled
        else next((i for i, line in enumerate(shown) if "func.func public" in line), 0),
    }


_GIVEN = re.compile(r"= \S+ (?:parameter|constant|partition-id|replica-id)\(")


def _first_of_compiled(lines: list[str]) -> int:
    """Where the reading of a module begins: of many parameters, which come first, the last two are in sight.

    >>> _first_of_compiled(["ENTRY %e {", *[f"  %p.{i} = f32[] parameter({i})" for i in range(30)], "  %x = f32[] add(%p.0, %p.1)"])
    29
    """
    first = next((i for i, line in enumerate(lines[1:], 1) if not _GIVEN.search(line)), 0)
    return first - 2 if first > 12 else 0


def _hlo_order(lines: list[str]) -> list[int]:
    """The entry computation, then those it calls, then the module's own line."""
    blocks: list[tuple[bool, list[int]]] = []
    rest: list[int] = []
    inside = False
    for i, line in enumerate(lines):
        if inside:
            blocks[-1][1].append(i)
            inside = not line.startswith("}")
        elif (found := _BLOCK.match(line)) and not line.startswith("HloModule"):
            blocks.append((found.group(1) is not None, [i]))
            inside = True
        elif line.strip():
            rest.append(i)
    first = [i for entry, block in blocks if entry for i in block]
    return first + [i for entry, block in blocks if not entry for i in block] + rest


def _folds(lines: list[str]) -> list[list[int]]:
    """Lines that open a region, and how many lines follow until it is closed at the same indentation."""
    open_at: list[tuple[int, int]] = []
    found = []
    for i, line in enumerate(lines):
        body = line.lstrip()
        indent = len(line) - len(body)
        if body.startswith("}") and open_at and open_at[-1][0] == indent:
            at = open_at.pop()[1]
            found.append([at, i - at])
            if body.endswith("{"):  # `} do {`: the next region of the same operation
                open_at.append((indent, i))
        elif body.endswith("{"):
            open_at.append((indent, i))
    return sorted(found)


def _starts_closed(line: str) -> bool:
    """Whether lines start folded: computations that the entry calls, and private functions."""
    block = _BLOCK.match(line) and not line.startswith(("ENTRY ", "module "))
    return bool(block) or "func.func private" in line
