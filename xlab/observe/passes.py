"""`passes`: what each pass of the compiler changed and how long it took. Compiles the program a second time to see."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xlab.backend import compiling as _compiling
from xlab.backend import profiling as _profiling
from xlab.observe.edits import Pass, edits
from xlab.observe.looking import looking
from xlab.observe.recorder import paused
from xlab.observe.subject import Subject, subject

MOST_LINES = 8_000
"""Lines of a module that is kept whole; of a longer one the changed lines are."""

BUDGET = 1_500_000
"""Characters of modules and changes that are kept in all."""

_DUMP = re.compile(r"^module_\d+\..*?\.(\d{4})\.(.+?)\.after_(.+?)\.before_(.+?)\.txt$")
_STAGES = re.compile(r"^(\d\d)\.(.+)\.mlir$")
_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')
_EQUATION = re.compile(r'op_name="(?:[^"\\]|\\.)*?;e(\d+)(?:["/.])')
_TABLES = re.compile(r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)$")
_WRAPPER = re.compile(r"::|RunInvariantCheckers|^PjRt|\bCompile\b|^Codegen$")


def passes(what: Any, *args: Any, all: bool = False, budget: int | None = BUDGET, **kwargs: Any) -> tuple[Pass, ...]:
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
        about = subject(what, args, kwargs)
        about.lowered  # noqa: B018  (lowered before the profile begins)
    with tempfile.TemporaryDirectory(prefix="xlab_passes") as folder:
        with _profiling.profile(detail=3) as taken:
            _compile(about, folder)
        keeper = _Keeper(budget)
        shardy = list(keeper.passes("shardy", _shardy(Path(folder))))
        found = list(keeper.passes("xla", _xla(Path(folder))))
    timed = _timed(found, list(taken.compiler_passes()))
    # The profiler sees the partitioner's stages as one pass, `shardy-xla`.
    return tuple(p for p in (*shardy, *timed) if all or p.changed)


def _compile(about: Subject, folder: str) -> None:
    low = about.lowered
    options = {**low.compiler_options, "xla_dump_to": folder, "xla_dump_hlo_pass_re": ".*"}
    with looking():
        _compiling.compile_text(low.module.text, low.devices, partitions=len(low.devices),
                                allow_propagation_to_outputs=[s is None for s in low.out_shardings], options=options,
                                host_callbacks=low.module.callbacks)


# ------------------------------------------------------------------------------------------------------ what was written


class _Written(NamedTuple):
    """A module that the compiler wrote after a pass."""

    name: str
    pipeline: str
    following: str
    lines: list[str]


def _xla(folder: Path) -> Iterator[_Written]:
    """One file is written after each pass over HLO that changed the module, and at the start of each pipeline."""
    dumps = []
    for path in folder.iterdir():
        match = _DUMP.match(path.name)
        if match:
            dumps.append((int(match[1]), match[2], match[3], match[4], path))
    for _, pipeline, name, following, path in sorted(dumps, key=lambda d: d[0]):
        yield _Written("" if name == "pipeline-start" else name, pipeline.replace("_", " "), following, hlo_lines(path.read_text(errors="replace")))


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


def _shardy(folder: Path) -> Iterator[_Written]:
    """The stages of the partitioner, the first being its input."""
    stages = []
    for path in folder.glob("shardy/*/*.mlir"):
        match = _STAGES.match(path.name)
        if match:
            stages.append((match[1], match[2], path))
    for n, (_, name, path) in enumerate(sorted(stages)):
        lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
        yield _Written(name.replace("_", " ") if n else "", "shardy", "", lines)


class _Keeper:
    """Makes passes of modules, and keeps within the budget."""

    def __init__(self, budget: int | None):
        self.left = budget if budget is not None else 1 << 60
        self.budget = budget

    def passes(self, stage: str, written: Iterator[_Written]) -> Iterator[Pass]:
        before: list[str] | None = None
        joined = False          # whether the reader has the module before this pass
        for made in written:
            if before is not None and made.lines != before:
                # A pass without a name is what happened between two pipelines.
                change = edits(before, made.lines)
                added, removed = sum(len(new) for *_, new in change), sum(len(gone) for _, gone, _ in change)
                found = Pass(made.name or f"before {made.pipeline}", stage, added, removed, pipeline=made.pipeline)
                found, joined = self._kept(found, change, before, joined)
                yield found
            before = made.lines

    def _kept(self, found: Pass, change: Any, before: list[str], joined: bool) -> tuple[Pass, bool]:
        size = sum(len(line) + 1 for _, gone, new in change for line in (*gone, *new))
        whole = 0 if joined else sum(len(line) + 1 for line in before)
        if size > self.left:
            return found.replace(cut=f"{size:,} characters of changes are not kept, beyond the {self.budget:,} that are; "
                                     "observe.passes(…, budget=None) keeps all"), False
        self.left -= size
        if joined:
            return found.replace(edits=change), True
        if len(before) > MOST_LINES or whole > self.left:
            return found.replace(edits=change, cut=f"the module has {len(before):,} lines: only those that change are kept"), False
        self.left -= whole
        return found.replace(edits=change, before="\n".join(before)), True


# ---------------------------------------------------------------------------------------------------------- what it took


def _timed(found: list[Pass], events: Sequence[Any]) -> list[Pass]:
    """Passes with their times, those that changed nothing between them in the order they ran, and last what writes code."""
    pipelines = [e for e in events if re.search(r" \(.*\)$", e.name)]
    spans = [(e.start_ns, e.end_ns) for e in pipelines]
    inside = [e for e in events if e not in pipelines and not _WRAPPER.search(e.name)
              and any(a <= e.start_ns and e.end_ns <= b for a, b in spans)]
    took = _own_times(inside)
    out: list[Pass] = []
    waiting = [_until(p, pipelines, inside) for p in found]
    inside.sort(key=lambda e: e.end_ns)         # as modules are written: when a pass ends
    left = Counter(e.name for e in inside)
    for event in inside:
        at = next((n for n, p in enumerate(waiting[:_AHEAD]) if p.name == event.name), None)
        unseen = next((n for n, p in enumerate(waiting) if p.pipeline not in p.name), 0)
        if at is None or (at > unseen and sum(p.name == event.name for p in waiting) < left[event.name]):
            _idle(out, event.name, took[id(event)])
        else:
            out += [*waiting[:at], waiting[at].replace(duration_us=took[id(event)])]
            del waiting[:at + 1]
        left[event.name] -= 1
    out += waiting
    rest: dict[str, list[float]] = {}
    for event in events:
        if event not in pipelines and event not in inside and (not _WRAPPER.search(event.name) or event.name == "Codegen"):
            rest.setdefault(event.name, []).append(event.duration_ns / 1e3)
    return out + [Pass(name, "codegen", duration_us=sum(us), runs=len(us)) for name, us in sorted(rest.items(), key=lambda kv: -sum(kv[1]))]


def _own_times(events: Sequence[Any]) -> dict[int, float]:
    """Microseconds of each event without those of the events inside it."""
    took: dict[int, float] = {}
    open_now: list[Any] = []
    for event in sorted(events, key=lambda e: (e.start_ns, -e.end_ns)):
        while open_now and open_now[-1].end_ns < event.end_ns:
            open_now.pop()
        if open_now:
            took[id(open_now[-1])] -= event.duration_ns / 1e3
        took[id(event)] = event.duration_ns / 1e3
        open_now.append(event)
    return {key: max(0.0, us) for key, us in took.items()}


def _until(p: Pass, pipelines: Sequence[Any], inside: Sequence[Any]) -> Pass:
    """What a pass did before a pipeline of its own began bears its name, where the profiler saw it."""
    if p.name == f"before {p.pipeline}":
        began = next((e for e in pipelines if e.name.startswith(f"{p.pipeline} (")), None)
        around = [e for e in inside if began is not None and e.start_ns <= began.start_ns and began.end_ns <= e.end_ns]
        if around:
            return p.replace(name=f"{min(around, key=lambda e: e.duration_ns).name} until {p.pipeline}")
    return p


_AHEAD = 3
"""How many changes ahead a pass is looked for: a name that is seen there has skipped what the profiler did not see."""


def _idle(out: list[Pass], name: str, us: float) -> None:
    """Adds a run that changed nothing; runs of one pass between two changes are one."""
    for n in range(len(out) - 1, -1, -1):
        if out[n].changed:
            break
        if out[n].name == name:
            out[n] = out[n].replace(duration_us=(out[n].duration_us or 0.0) + us, runs=out[n].runs + 1)
            return
    out.append(Pass(name, "xla", duration_us=us))
