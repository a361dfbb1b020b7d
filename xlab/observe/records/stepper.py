"""Values and steps of a program that runs one equation at a time."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.kernel import KernelRun
from xlab.observe.records.program import Program
from xlab.observe.records.source import Source
from xlab.observe.records.text import Options, add_form, indented, limited
from xlab.observe.records.units import listed, plural, significant


@record_type
class ShardSummary(Record):
    """One device's part of a value: statistics and `heat`, a small grid of cell means (rows of floats)."""

    device: int
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    nans: int = 0
    infs: int = 0
    heat: tuple[tuple[float, ...], ...] = ()


@record_type
class Value(Record):
    """A value summarized: `type` as text, statistics over finite entries, first entries, a histogram, per-device shards."""

    name: str
    type: str
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    nans: int = 0
    infs: int = 0
    preview: tuple[float | int | bool | str, ...] = ()
    histogram: tuple[int, ...] = ()
    heat: tuple[tuple[float, ...], ...] = ()
    shards: tuple[ShardSummary, ...] = ()
    note: str = ""


@record_type
class Step(Record):
    """One equation as executed. `index` counts steps from 0; `path` says where: `('jit train_step', 'scan 3/12')`.

    `dead` are names whose last use this step was. A grid step of a kernel has the number of the call, and its own in the grid.
    """

    index: int
    equation: int
    inputs: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()
    path: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    source: Source | None = None
    text: str = ""
    kernel: int = -1
    point: int = -1


@record_type
class StepTrace(Record):
    """A recorded run of one program: its steps in order, for scrubbing. `total` may exceed `len(steps)` when cut.

    `kernels` are the runs of its kernel calls, as far as they were recorded. `failure` is the error that ended the run early.
    `made_by` says who traced and compiled the program, and who stepped, where that was not this package alone.
    """

    program: Program
    inputs: tuple[Value, ...] = ()
    steps: tuple[Step, ...] = ()
    total: int = 0
    kernels: tuple[KernelRun, ...] = ()
    failure: str = ""
    made_by: str = ""


def writes_nan(step: Step) -> bool:
    """Whether the program itself writes the NaN that a step gives, as `where(n > 0, sum / n, nan)` does: nobody has to look for its cause.

    >>> written = Value("nan:f32[]", "f32[]", nans=1)
    >>> writes_nan(Step(0, 0, (written,), (Value("a", "f32[2]", nans=2),)))
    True
    """
    return any(v.name.startswith("nan:") for v in step.inputs)


def _shard(s: ShardSummary, o: Options) -> str:
    return f"device {s.device}: {_range(s)}"


def _range(v: Value | ShardSummary) -> str:
    parts = []
    if v.min is not None and v.max is not None:
        parts.append(
            f"{significant(v.min)} … {significant(v.max)}" if v.min != v.max else significant(v.min)
        )
    if v.mean is not None and v.min != v.max:
        parts.append(f"mean {significant(v.mean)}")
    parts += [f"{n} {word}" for n, word in ((v.nans, "NaN"), (v.infs, "Inf")) if n]
    return "  ".join(parts)


def _by_device(v: Value) -> str:
    """What the devices hold, where they do not hold the same."""
    spans = [
        significant(s.min) if s.min == s.max else f"{significant(s.min)} … {significant(s.max)}"
        for s in v.shards
        if s.min is not None and s.max is not None
    ]
    if len(set(spans)) < 2:
        return ""
    return f"by device: {listed(spans, 8)}"


def value_text(v: Value, o: Options) -> str:
    entries = ", ".join(
        significant(x, trim=True) if isinstance(x, float) else str(x) for x in v.preview
    )
    return "  ".join(
        part
        for part in (
            f"{v.name}:{v.type}",
            "" if v.type.endswith("[]") and entries else _range(v),  # one entry says it all
            f"[{entries}, …]" if entries and v.type[-2:] != "[]" else entries,
            _by_device(v),
        )
        if part
    )


def step_text(s: Step, o: Options) -> str:
    where = " ▸ ".join(s.path)
    lines = [
        f"step {s.index}  {s.text or 'equation ' + str(s.equation)}"
        + (f"  in {where}" if where else "")
    ]
    lines += ["  in   " + value_text(v, o) for v in s.inputs] + [
        "  out  " + value_text(v, o) for v in s.outputs
    ]
    return "\n".join(lines + ([f"  last use of {', '.join(s.dead)}"] if s.dead else []))


def _trace(t: StepTrace, o: Options) -> str:
    shown, more = limited(t.steps, o, "step")
    cut = f" of {t.total}" if t.total > len(t.steps) else ""
    return "\n".join(
        [
            f"{t.program.name}: {plural(len(t.steps), 'step')}{cut} recorded",
            *(indented(step_text(s, o)) for s in shown),
            *more,
            *([indented(f"ended with {t.failure}")] if t.failure else []),
        ]
    )


add_form(ShardSummary, _shard)
add_form(Value, value_text)
add_form(Step, step_text)
add_form(StepTrace, _trace)
