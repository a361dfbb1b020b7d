"""The passes of the compiler: how much each changed, and the lines; the page shows the whole module as each pass left it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from xlab.notebook.views.draw import Node, clean, decimal, finite, h, panel
from xlab.notebook.views.tabs import add_tab
from xlab.observe.records.passes import STAGES, Pass, modules
from xlab.observe.records.units import plural, time_text

MOST_DIFF = 40
"""Lines of each pass's difference that the page shows without a script."""

MOST_STATIC = 100
"""Lines of all differences together that it shows."""

MOST_CHARACTERS = 240
"""Characters of one line that it shows."""


_TAGS = {"+": "ins", "-": "del"}


def passes_data(passes: tuple[Pass, ...], programs: int) -> dict[str, Any] | None:
    """What the page makes the modules from: the first one of each stage, and edits; lines that went are known from what was there.

    Modules repeat their lines, so each text is written once in `lines` and named by its number: an edit is
    `[line, how many went, how many came, those that came, those that went where no module before is known]`.
    """
    if not passes:
        return None
    lines: dict[str, int] = {}

    def numbers(texts: Iterable[str]) -> list[int]:
        return [lines.setdefault(text, len(lines)) for text in texts]

    made = [
        {
            "name": clean(p.name),
            "stage": clean(p.stage),
            "pipeline": clean(p.pipeline),
            "added": p.added,
            "removed": p.removed,
            "changed": p.changed,
            "us": finite(p.duration_us),
            "runs": p.runs,
            "cut": clean(p.cut),
            "before": numbers(p.before.split("\n")) if p.before else [],
            "edits": [
                [at, len(gone), len(new), *numbers(new), *(numbers(gone) if before is None else [])]
                for at, gone, new in p.edits
            ],
        }
        for p, before, _ in modules(passes)
    ]
    return {
        "stages": STAGES,
        "program": 0 if programs == 1 else -1,
        "passes": made,
        "lines": [clean(text) for text in lines],
    }


def passes_panel(passes: tuple[Pass, ...]) -> Node:
    """The Passes tab: those that changed something, with their lines; the others are counted."""
    changed = [p for p in passes if p.changed]
    idle = [p for p in passes if not p.changed]
    most = max((p.changed for p in changed), default=1)
    left = MOST_STATIC
    rows: list[Node | None] = []
    for p in changed:
        lines = p.diff.splitlines()
        shown = lines[: min(MOST_DIFF, max(0, left))]
        left -= len(shown)
        rows.append(
            h(
                "details",
                {"class": "xl-pass xl-pass-static"},
                _summary(p, most),
                h("pre", {"class": "xl-code xl-diff"}, *_lines(shown)),
                _note(
                    f"{plural(len(lines) - len(shown), 'more line')}: with scripts on, all of it is here"
                    if len(lines) > len(shown)
                    else ""
                ),
                _note(p.cut),
            )
        )
    if idle:
        runs, names = sum(p.runs for p in idle), len({p.name for p in idle})
        rows.append(
            _note(
                f"{plural(runs, 'run')} of {names} {'pass' if names == 1 else 'passes'} changed nothing, or only write code"
            )
        )
    return panel("passes", "Passes", h("div", {"class": "xl-passes-static"}, *rows))


def _summary(p: Pass, most: int) -> Node:
    bar = h(
        "span",
        {
            "class": "xl-bar xl-compile-bar",
            "style": f"left:0;width:{decimal(100 * p.changed / most)}%",
        },
    )
    return h(
        "summary",
        None,
        h("code", None, p.name),
        h(
            "small",
            None,
            f" {STAGES.get(p.stage, p.stage)} {p.pipeline if p.pipeline != p.stage else ''}",
        ),
        h(
            "span",
            {"class": "xl-pass-n"},
            h("span", {"class": "xl-came-n"}, f"+{p.added:,}"),
            " ",
            h("span", {"class": "xl-went-n"}, f"−{p.removed:,}"),
            f" · {time_text(p.duration_us)}" if p.duration_us is not None else "",
        ),
        h("span", {"class": "xl-track"}, bar),
    )


def _note(text: str) -> Node | None:
    return h("p", {"class": "xl-dim"}, text) if text else None


def _lines(lines: list[str]) -> Iterator[Node | str]:
    """Lines that stand together and have one sign are one element."""
    for sign, found in groupby(lines, lambda line: line[:1]):
        texts = [f"{clean(line, MOST_CHARACTERS)}\n" for line in found]
        if sign in _TAGS:
            yield h(_TAGS[sign], None, *texts)
        else:
            yield from texts


add_tab(
    "passes",
    "Passes",
    60,
    lambda report: passes_panel(report.passes) if report.passes else None,
    lambda report: {"passes": passes_data(report.passes, len(report.programs))},
)
