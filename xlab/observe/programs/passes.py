"""`passes`: what each pass of the compiler changed and how long it took. Compiles the program a second time to see: who compiled it first does."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from xlab.backend import compiling as _compiling
from xlab.backend import profiling as _profiling
from xlab.compile.executable import require_static
from xlab.observe.beside.calls import readable
from xlab.observe.programs.analysis_only import analysis_only
from xlab.observe.programs.pass_times import PassPlace, timed
from xlab.observe.programs.recorder import paused
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.records.passes import Pass, line_edits
from xlab.observe.records.text import OneProgram

MOST_LINES = 8_000
"""Lines of a module that is kept whole; of a longer one the changed lines are."""

BUDGET = 1_500_000
"""Characters of modules and changes that are kept in all."""

_DUMP = re.compile(r"^module_\d+\..*?\.(\d{4})\.(.+?)\.after_(.+?)\.before_(.+?)\.txt$")
_STAGES = re.compile(r"^(\d\d)\.(.+)\.mlir$")
_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')
_EQUATION = re.compile(r'op_name="(?:[^"\\]|\\.)*?;e(\d+)(?:["/.])')
_TABLES = re.compile(r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)$")


def passes(
    what: Any, *args: Any, all: bool = False, budget: int | None = BUDGET, **kwargs: Any
) -> tuple[Pass, ...]:
    """The compiler's passes in order: lines added and removed, the edits themselves, and time where the profiler saw them.

    Args:
        what: a function with its arguments, or a stage of `jit`.
        all: also the passes that changed nothing, where they ran, and those that write code, of which no module is known.
        budget: characters of modules and edits to keep; None keeps all. What is cut says so in its `cut`.

    Example:
        >>> import numpy as np, xlab
        >>> found = passes(lambda x: xlab.lax.sin(x), np.ones(3, np.float32))
        >>> all(p.changed for p in found), {p.stage for p in found} <= {"xla", "shardy"}
        (True, True)
    """
    with paused():
        stages = program_stages(what, args, kwargs)
        stages.lowered  # noqa: B018  (lowered before the profile begins)
    with tempfile.TemporaryDirectory(prefix="xlab_passes") as folder:
        with _profiling.profile(detail=3) as taken:
            _compile(stages, folder)
        keeper = _Keeper(budget)
        named = readable if stages.beside is not None else str
        shardy = list(keeper.passes("shardy", _shardy(Path(folder), named)))
        found = list(keeper.passes("xla", _xla(Path(folder), named)))
    every = timed(found, keeper.places[len(shardy) :], list(taken.compiler_passes()))
    # The profiler sees the partitioner's stages as one pass, `shardy-xla`.
    by = stages.made_by and f"{stages.made_by}, a second time for these passes"
    return OneProgram((p for p in (*shardy, *every) if all or p.changed), by)


def _compile(stages: ProgramStages, folder: str) -> None:
    low = stages.lowered
    require_static(low)
    asked = {"xla_dump_to": folder, "xla_dump_hlo_pass_re": ".*"}
    if stages.beside is not None:
        with analysis_only():
            stages.beside.compile_again(asked)
        return
    options = {**low.compiler_options, **asked}
    with analysis_only():
        _compiling.compile_text(
            low.module.text,
            low.devices,
            partitions=len(low.devices),
            allow_propagation_to_outputs=[s is None for s in low.out_shardings],
            options=options,
            host_callbacks=low.module.callbacks,
        )


# ------------------------------------------------------------------------------------------------------ what was written


class _Written(NamedTuple):
    """A module that the compiler wrote after a pass."""

    name: str
    pipeline: str
    following: str
    lines: list[str]
    run: int = 0


def _xla(folder: Path, named: Callable[[str], str]) -> Iterator[_Written]:
    """One file is written after each pass over HLO that changed the module, and at the start of each pipeline."""
    dumps = []
    for path in folder.iterdir():
        match = _DUMP.match(path.name)
        if match:
            dumps.append((int(match[1]), match[2], match[3], match[4], path))
    runs: Counter[str] = Counter()
    for _, pipeline, name, following, path in sorted(dumps, key=lambda d: d[0]):
        begins = name == "pipeline-start"
        runs[pipeline] += begins
        yield _Written(
            "" if begins else name,
            pipeline.replace("_", " "),
            following,
            hlo_lines(named(path.read_text(errors="replace"))),
            runs[pipeline] - 1,
        )


def hlo_lines(text: str) -> list[str]:
    """A module's lines without the tables of its locations; a line that comes from an equation says so at its end.

    >>> hlo_lines('HloModule m\\n\\nFileNames\\n1 "a"\\n\\n\\nENTRY %e {\\n  %x = f32[] add(), metadata={op_name="f/add;e3"}\\n}')
    ['HloModule m', 'ENTRY %e {', '  %x = f32[] add()  # e3', '}']
    """
    out = []
    inside = False
    for line in text.splitlines():
        if inside or not line.strip():
            inside = inside and bool(line.strip())
        elif _TABLES.match(line):
            inside = True
        else:
            came = _EQUATION.search(line)
            out.append(_METADATA.sub("", line) + (f"  # e{came[1]}" if came else ""))
    return out


def _shardy(folder: Path, named: Callable[[str], str]) -> Iterator[_Written]:
    """The stages of the partitioner, the first being its input."""
    stages = []
    for path in folder.glob("shardy/*/*.mlir"):
        match = _STAGES.match(path.name)
        if match:
            stages.append((match[1], match[2], path))
    for n, (_, name, path) in enumerate(sorted(stages)):
        text = named(path.read_text(errors="replace"))
        lines = [line for line in text.splitlines() if line.strip()]
        yield _Written(name.replace("_", " ") if n else "", "shardy", "", lines)


class _Keeper:
    """Makes passes of modules, and keeps within the budget."""

    def __init__(self, budget: int | None):
        self.left = budget if budget is not None else 1 << 60
        self.budget = budget
        self.places: list[PassPlace] = []  # where each pass ran

    def passes(self, stage: str, written: Iterator[_Written]) -> Iterator[Pass]:
        before: list[str] | None = None
        joined = False  # whether the reader has the module before this pass
        for made in written:
            if before is not None and made.lines != before:
                # A pass without a name is what happened between two pipelines.
                change = line_edits(before, made.lines)
                added, removed = (
                    sum(len(new) for *_, new in change),
                    sum(len(gone) for _, gone, _ in change),
                )
                found = Pass(
                    made.name or f"before {made.pipeline}",
                    stage,
                    added,
                    removed,
                    pipeline=made.pipeline,
                )
                found, joined = self._kept(found, change, before, joined)
                self.places.append(PassPlace(made.pipeline, made.run, made.following))
                yield found
            before = made.lines

    def _kept(self, found: Pass, change: Any, before: list[str], joined: bool) -> tuple[Pass, bool]:
        size = sum(len(line) + 1 for _, gone, new in change for line in (*gone, *new))
        whole = 0 if joined else sum(len(line) + 1 for line in before)
        if size > self.left:
            return found.replace(
                cut=f"{size:,} characters of changes are not kept, beyond the {self.budget:,} that are; "
                "observe.passes(…, budget=None) keeps all"
            ), False
        self.left -= size
        if joined:
            return found.replace(edits=change), True
        if len(before) > MOST_LINES or whole > self.left:
            return found.replace(
                edits=change,
                cut=f"the module has {len(before):,} lines: only those that change are kept",
            ), False
        self.left -= whole
        return found.replace(edits=change, before="\n".join(before)), True
