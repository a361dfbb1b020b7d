"""`passes`: what each pass of the compiler changed and how long it took. Compiles the program a second time to see."""

from __future__ import annotations

import difflib
import re
import tempfile
from pathlib import Path
from typing import Any

from xlab.backend import compiling as _compiling
from xlab.backend import profiling as _profiling
from xlab.observe.recorder import paused
from xlab.observe.records import Pass
from xlab.observe.subject import Subject, subject

_DUMP = re.compile(r"^module_\d+\..*?\.(\d{4})\.(.+?)\.after_(.+?)\.before_(.+?)\.txt$")
_STAGES = re.compile(r"^(\d\d)\.(.+)\.mlir$")
DIFF_LINES = 400


def passes(what: Any, *args: Any, all: bool = False, **kwargs: Any) -> tuple[Pass, ...]:
    """The compiler's passes in order: changed lines, unified diff, milliseconds where the profiler saw them.

    Args:
        what: a function with its arguments, or a stage of `jit`.
        all: also the passes that changed nothing.

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
        found = [*_shardy(Path(folder)), *_xla(Path(folder))]
    times: dict[str, list[float]] = {}
    for event in taken.compiler_passes():
        times.setdefault(event.name, []).append(event.duration_ns / 1e3)
    out = []
    for made in found:
        spent = times.get(made.name)
        out.append(made.replace(duration_us=spent.pop(0) if spent else None))
    if all:
        shown = {p.name for p in out}
        out += [Pass(name, "xla", 0, sum(us)) for name, us in times.items() if us and name not in shown]
    return tuple(p for p in out if all or p.changed)


def _compile(about: Subject, folder: str) -> None:
    low = about.lowered
    options = {**low.compiler_options, "xla_dump_to": folder, "xla_dump_hlo_pass_re": ".*"}
    _compiling.compile_text(low.module.text, low.devices, partitions=len(low.devices),
                            allow_propagation_to_outputs=[s is None for s in low.out_shardings], options=options,
                            host_callbacks=low.module.callbacks)


def _xla(folder: Path) -> list[Pass]:
    """Passes over HLO: one file is written after each that changed the module."""
    dumps = []
    for path in folder.iterdir():
        match = _DUMP.match(path.name)
        if match:
            dumps.append((int(match.group(1)), match.group(2), match.group(3), path))
    out = []
    before: list[str] | None = None
    for _, pipeline, name, path in sorted(dumps, key=lambda d: d[0]):
        after = path.read_text(errors="replace").splitlines()
        if before is not None and name != "pipeline-start":
            changed, diff = _difference(before, after, f"before {name}", f"after {name}")
            out.append(Pass(name, "xla", changed, diff=f"# {pipeline}\n{diff}" if diff else ""))
        before = after
    return out


def _shardy(folder: Path) -> list[Pass]:
    """The stages of the partitioner."""
    stages = []
    for path in folder.glob("shardy/*/*.mlir"):
        match = _STAGES.match(path.name)
        if match:
            stages.append((match.group(1), match.group(2), path))
    out = []
    before: list[str] | None = None
    for _, name, path in sorted(stages):
        after = path.read_text(errors="replace").splitlines()
        if before is not None:
            changed, diff = _difference(before, after, "before", name)
            out.append(Pass(name, "shardy", changed, diff=diff))
        before = after
    return out


def _difference(before: list[str], after: list[str], a: str, b: str) -> tuple[int, str]:
    """How many lines changed, and the diff; a long one is cut and says so."""
    lines = list(difflib.unified_diff(before, after, a, b, n=2, lineterm=""))
    changed = sum(line[:1] in "+-" and not line.startswith(("+++", "---")) for line in lines)
    if len(lines) > DIFF_LINES:
        lines = [*lines[:DIFF_LINES], f"… {len(lines) - DIFF_LINES} more lines of this diff"]
    return changed, "\n".join(lines)
