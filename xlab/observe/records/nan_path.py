"""Who made the first NaN, and one variable over all iterations: what a whole run of the stepper tells."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.stepper import Step, Value, value_text
from xlab.observe.records.text import Options, add_form, limited
from xlab.observe.records.units import plural, significant, table


@record_type
class NanPath(Record):
    """The equations from the cause of a NaN to the result that has it, in the order they ran; `words` say of each what it did.

    `maker` is the place in `steps` of the first whose result has a NaN that no operand has; those before it made what it could not take: an infinity,
    a zero; -1 where none did, as an argument came with the NaN. `origin` names the arguments and constants the path begins at.
    `made_by` says who traced and compiled the program, and who stepped, where that was not this package alone. `total` is how many equations the path has
    where `steps` leaves some out; the words of the one behind a gap say how many.
    """

    function: str
    steps: tuple[Step, ...] = ()
    words: tuple[str, ...] = ()
    maker: int = -1
    origin: str = ""
    result: str = ""
    made_by: str = ""
    total: int = 0


@record_type
class SeriesPoint(Record):
    """A variable at one step; `path` says in which iteration."""

    step: int
    path: tuple[str, ...]
    value: Value


@record_type
class Series(Record):
    """One variable in the order of its values over a run: over iterations, and with its shards over devices. `total` may exceed the points kept.

    `made_by` is as of a `NanPath`.
    """

    name: str
    points: tuple[SeriesPoint, ...] = ()
    total: int = 0
    made_by: str = ""


def _nan_path(p: NanPath, o: Options) -> str:
    if not p.steps:
        return f"{p.function}: no NaN" + (f"; {p.origin}" if p.origin else "")
    lines = [
        f"{p.function}: {p.result} has a NaN, along {plural(p.total or len(p.steps), 'equation')} from {p.origin or 'a constant'}"
        + (", which came with it" if p.origin and p.maker < 0 else "")
    ]
    for n, (step, words) in enumerate(zip(p.steps, p.words)):
        where = f"  in {' ▸ '.join(step.path)}" if step.path else ""
        line = f"  line {step.source.line}" if step.source else ""
        mark = " ◀ the first NaN" if n == p.maker else ""
        lines.append(f"  step {step.index}  {step.text}{where}{line}{mark}")
        lines.append(f"    {words}")
    return "\n".join(lines)


def _point(p: SeriesPoint, o: Options) -> str:
    return f"step {p.step}  {' ▸ '.join(p.path)}  {value_text(p.value, o)}"


def _number(x: float | None) -> str:
    return "–" if x is None else significant(x)


def _series(s: Series, o: Options) -> str:
    shown, more = limited(s.points, o, "value")
    rows = [
        (
            str(p.step),
            " ▸ ".join(p.path),
            _number(p.value.min),
            _number(p.value.mean),
            _number(p.value.max),
            str(p.value.nans or ""),
            "  ".join(_number(d.mean) for d in p.value.shards[:8]),
        )
        for p in shown
    ]
    kind = s.points[0].value.type if s.points else ""
    head = ("step", "in", "min", "mean", "max", "NaN", "mean by device")
    return "\n".join(
        [
            f"{s.name}:{kind}, {plural(s.total, 'value')}",
            *([table([head, *rows], "rlrrrrl")] if rows else []),
            *more,
        ]
    )


add_form(NanPath, _nan_path)
add_form(SeriesPoint, _point)
add_form(Series, _series)
