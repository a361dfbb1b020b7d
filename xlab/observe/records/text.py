"""The text form of every record: its `repr`, the terminal's answer, a notebook's `text/plain`, what tests compare.

Calm, aligned and deterministic: no measured time appears unless asked for, and a cut says what was cut.

>>> from xlab.observe.records import Layout, MeshInfo, Type
>>> mesh = MeshInfo(("data", "model"), (4, 2))
>>> print(text(Layout("", Type("f32", (8, 4), (("data",), ("model",))), mesh, shard_shape=(2, 2))))
f32[8@data,4@model] over data=4 model=2: shard f32[2,2], 1 copy
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xlab.observe.records import nouns as r
from xlab.observe.records.base import set_text_form
from xlab.observe.records.ledger_text import compilation_text, difference_text, ledger_text
from xlab.observe.records.live_bytes import alive_at
from xlab.observe.records.transfer_words import (
    CAUTION,
    advice_word,
    sentences,
    transfer_name,
    transfer_origin,
    transfer_over,
)
from xlab.observe.records.units import plural, significant, size_text, table, time_text

LIMIT = 200


@dataclass(frozen=True)
class _Options:
    times: bool
    limit: int | None


_forms: dict[type, Callable[[Any, _Options], str]] = {}


def text(record: Any, *, times: bool = False, limit: int | None = LIMIT) -> str:
    """Return the text form of a record, or of a tuple of records of one kind.

    Args:
        record: any record, or a tuple of them (a tuple of transfers or phases becomes one table).
        times: include measured times, which differ from run to run.
        limit: how many rows of one list to show; None shows all.

    >>> print(text(r.Source("cell", 3, function="f", text="  y = sin(x)")))
    cell:3 (f)  y = sin(x)
    """
    options = _Options(times, limit)
    if isinstance(record, tuple):
        if not record:
            return "nothing recorded"
        if isinstance(record[0], r.Transfer):
            return transfers_table(record, options)
        if isinstance(record[0], r.Phase):
            return _phases(record, options)
        return "\n".join(text(item, times=times, limit=limit) for item in record)
    form = _forms.get(type(record))
    if form is None:
        raise TypeError(
            f"text() takes a record of xlab.observe or a tuple of them; given {type(record).__name__}."
        )
    return form(record, options)


def add_form(kind: type, form: Callable[[Any, Any], str]) -> None:
    """Gives a record of another file its text form."""
    _forms[kind] = form


def _cut(
    items: Sequence[Any], o: _Options, noun: str, indent: str = "  "
) -> tuple[Sequence[Any], list[str]]:
    if o.limit is None or len(items) <= o.limit:
        return items, []
    more = len(items) - o.limit
    return items[: o.limit], [
        f"{indent}… {plural(more, 'more ' + noun)}: text(record, limit=None) shows all"
    ]


def _place(source: r.Source | None) -> str:
    return f"{source.file.rsplit('/', 1)[-1]}:{source.line}" if source else ""


# ------------------------------------------------------------------------------------------------------- programs


def _source(s: r.Source, o: _Options) -> str:
    function = f" ({s.function})" if s.function else ""
    return f"{s.file}:{s.line}{function}" + (f"  {s.text.strip()}" if s.text else "")


def equation_text(e: r.Equation) -> str:
    """The equation's own line: its `text`, or one put together from the fields.

    >>> equation_text(r.Equation(0, "sin", ("a",), (r.Variable("b", r.Type("f32", (8,))),)))
    'b:f32[8] = sin a'
    """
    if e.text:
        return e.text
    outputs = " ".join(f"{v.name}:{v.type.text}" for v in e.outputs)
    params = f"[{e.params}]" if e.params else ""
    return " ".join(
        part
        for part in (f"{outputs} =" if outputs else "", e.primitive + params, *e.inputs)
        if part
    )


def _program(p: r.Program, o: _Options) -> str:
    counts = p.counts
    total = sum(n for _, n in counts)
    listed = ", ".join(f"{name} {n}" for name, n in counts[:6]) + (", …" if len(counts) > 6 else "")
    head = f"{p.name}   {plural(total, 'equation')}" + (f" ({listed})" if listed else "")
    if p.mesh:
        head += f"   mesh {p.mesh.text}"
    lines = [head]
    for word, names in (("in", p.inputs), ("const", p.constants)):
        if names:
            lines.append(f"  {word}  " + "  ".join(_variable(v, o) for v in names))
    rows = list(_program_rows(p, 0))
    shown, more = _cut(rows, o, "line")
    width = max((len(body) for _, body, _ in shown), default=0)
    digits = max((len(i) for i, _, _ in shown), default=0)
    for number, body, where in shown:
        lines.append(f"  {number.rjust(digits)}  {body.ljust(min(width, 100))}  {where}".rstrip())
    lines += more
    if p.outputs:
        lines.append("  out  " + "  ".join(p.outputs))
    return "\n".join(lines)


def _program_rows(p: r.Program, depth: int) -> Any:
    for e in p.equations:
        yield str(e.id), "  " * depth + equation_text(e), _place(e.source)
        for label, inner in zip(e.nested_labels or ("",) * len(e.nested), e.nested, strict=False):
            names = " ".join(f"{v.name}:{v.type.text}" for v in inner.inputs)
            yield "", "  " * (depth + 1) + f"{label or inner.name}: {names}".rstrip(), ""
            yield from _program_rows(inner, depth + 2)
            yield "", "  " * (depth + 2) + "→ " + " ".join(inner.outputs), ""


def _variable(v: r.Variable, o: _Options) -> str:
    return f"{v.name}:{v.type.text}" + (f" ({v.note})" if v.note and v.note != v.name else "")


def _level(level: r.Level, o: _Options) -> str:
    lines = level.text.splitlines()
    shown, more = _cut(lines, o, "line", "")
    return "\n".join(
        [f"{level.name}: {plural(len(lines), 'line')}, {len(level.links)} linked", *shown, *more]
    )


# -------------------------------------------------------------------------------------------- layouts and communication


def _mesh(m: r.MeshInfo, o: _Options) -> str:
    hosts = len(set(m.hosts)) or 1
    head = f"mesh {m.text}   {plural(m.size, m.platform + ' device')}" + (
        f" on {hosts} hosts" if hosts > 1 else ""
    )
    if not m.axis_sizes or not m.device_ids or m.size > 64:
        return head
    columns = m.axis_sizes[-1]
    rows = [m.device_ids[i : i + columns] for i in range(0, m.size, columns)]
    width = max(len(str(d)) for d in m.device_ids)
    return "\n".join([head, *("  " + " ".join(str(d).rjust(width) for d in row) for row in rows)])


def places(
    layout: r.Layout,
) -> tuple[list[list[tuple[int, int]]], dict[tuple[int, ...], list[int]]]:
    """Return the distinct `(start, stop)` cuts per dimension, and the devices at each index of cuts.

    >>> l = r.Layout("x", r.Type("f32", (4,)), blocks=(r.Block(0, ((0, 2),)), r.Block(1, ((2, 4),))))
    >>> places(l)
    ([[(0, 2), (2, 4)]], {(0,): [0], (1,): [1]})
    """
    rank = len(layout.type.shape)
    cuts = [sorted({b.slices[d] for b in layout.blocks}) for d in range(rank)]
    where = [{cut: i for i, cut in enumerate(c)} for c in cuts]
    cells: dict[tuple[int, ...], list[int]] = {}
    for block in layout.blocks:
        cells.setdefault(tuple(where[d][s] for d, s in enumerate(block.slices)), []).append(
            block.device
        )
    return cuts, cells


def layout_line(layout: r.Layout) -> str:
    """One sentence: type, mesh, shard, copies, bytes.

    >>> layout_line(r.Layout("x", r.Type("f32", (8,)), bytes_per_device=32, bytes_total=32))
    'x: f32[8] on one device, 32 B'
    """
    head = f"{layout.name}: " if layout.name else ""
    head += layout.type.text
    mesh = layout.mesh
    if mesh is None or mesh.size == 1:
        tail = " on one device"
        return head + tail + (f", {size_text(layout.bytes_total)}" if layout.bytes_total else "")
    shard = f"{layout.type.dtype}[{','.join(map(str, layout.shard_shape))}]"
    line = f"{head} over {mesh.text}: shard {shard}, {plural(layout.copies, 'copy')}"
    if layout.bytes_per_device:
        line += f", {size_text(layout.bytes_per_device)} per device, {size_text(layout.bytes_total)} in all"
    if layout.memory_kind not in ("", "device", "unpinned_host"):
        line += f", in {layout.memory_kind}"
    return line


def _layout(layout: r.Layout, o: _Options) -> str:
    lines = [layout_line(layout)]
    if len(layout.blocks) > 1:
        lines += _block_drawing(layout)
    if layout.why:
        lines += [("       " if i else "  why: ") + chain for i, chain in enumerate(layout.why)]
    lines += [f"  warning: {w}" for w in layout.warnings]
    return "\n".join(lines)


def _block_drawing(layout: r.Layout) -> list[str]:
    cuts, cells = places(layout)
    if len(cells) == 1 or len(cells) > 256:
        devices = next(iter(cells.values())) if len(cells) == 1 else []
        return (
            [f"  whole on each of {plural(len(devices), 'device')}"]
            if devices
            else [f"  {len(cells)} different blocks"]
        )
    rank = len(cuts)
    rows_cuts = cuts[-2] if rank > 1 else [(0, 1)]
    columns = len(cuts[-1])
    leading = sorted({key[:-2] for key in cells}) if rank > 2 else [()]
    width = max(len(",".join(map(str, d))) for d in cells.values()) + 2
    lines = []
    for lead in leading:
        if rank > 2:
            spans = ", ".join("{}:{}".format(*cuts[d][i]) for d, i in enumerate(lead))
            lines.append(f"  [{spans}, …]")
        for row in range(len(rows_cuts)):
            lines.append(
                "  "
                + ("┌" if row == 0 else "├")
                + ("┬" if row == 0 else "┼").join(["─" * width] * columns)
                + ("┐" if row == 0 else "┤")
            )
            held = [cells.get((*lead, row, c) if rank > 1 else (c,), []) for c in range(columns)]
            lines.append("  │" + "│".join(",".join(map(str, h)).center(width) for h in held) + "│")
        lines.append("  └" + "┴".join(["─" * width] * columns) + "┘")
    return lines


def transfers_table(transfers: Sequence[r.Transfer], o: _Options) -> str:
    shown, more = _cut(transfers, o, "collective")
    rows = [
        (
            "op",
            "over",
            "in → out per device",
            "× times",
            "predicted",
            *(("measured", "wait") if o.times else ()),
            "origin",
            "line",
        )
    ]
    for t in shown:
        measured = (time_text(t.measured_us), time_text(t.wait_us)) if o.times else ()
        rows.append(
            (
                transfer_name(t),
                transfer_over(t),
                f"{size_text(t.bytes_in)} → {size_text(t.bytes_out)}",
                str(t.times) if t.times is not None else f"? ({t.runs} measured)" if o.times and t.runs else "?",
                time_text(t.predicted_us),
                *measured,
                transfer_origin(t),
                _place(t.source),
            )
        )
    lines = [table(rows, "llrrr" + ("rr" if o.times else "") + "ll")]
    reasons = list(dict.fromkeys((transfer_name(t), t.reason, t.fix, t.tried) for t in shown if t.reason))
    for name, reason, fix, tried in reasons:
        lines.append(f"  {name}: " + sentences(reason, fix, tried))
    if len(transfers) > 1:
        lines.append("  in one run: " + run_line(transfers))
    if o.times and any(t.measured_us is not None for t in shown):
        lines.append("  measured: each time it ran, on its slowest device, waiting for the others included")
    return "\n".join(lines + more)


def run_line(transfers: Sequence[r.Transfer]) -> str:
    """What one run of a program sends over each axis, and what all of it should take; trips of loops multiplied.

    >>> run_line([r.Transfer("all_gather", axes=("a",), groups=((0, 1),), bytes_in=8, times=3, predicted_us=2.0)])
    'each device sends 24 B over a; 6.00 µs predicted'
    """
    sent: dict[str, int] = {}
    us = 0.0
    for t in transfers:
        times = 1 if t.times is None else t.times
        sent[transfer_over(t)] = sent.get(transfer_over(t), 0) + t.sent_in_run
        us += (t.predicted_us or 0.0) * times
    parts = [f"{size_text(n)} over {name}" for name, n in sorted(sent.items())]
    unknown = " (loops of unknown length counted once)" * any(t.times is None for t in transfers)
    return f"each device sends {', '.join(parts)}; {time_text(us)} predicted{unknown}"


def _transfer(t: r.Transfer, o: _Options) -> str:
    times = f" × {t.times}" if t.times is not None else " × ?"
    line = (
        f"{transfer_name(t)} over {transfer_over(t)}: {size_text(t.bytes_in)} → {size_text(t.bytes_out)} per device"
        f"{times}, {transfer_origin(t)}" + (f", {_place(t.source)}" if t.source else "")
    )
    extra = [
        t.reason,
        f"{advice_word(t.tried)}{t.fix}" if t.fix else "",
        f"t = {t.formula}" if t.formula else "",
    ]
    return "\n".join([line, *("  " + e for e in extra if e)])


# ------------------------------------------------------------------------------------------------ time and memory


def _phase(p: r.Phase, o: _Options) -> str:
    outcome = f" {p.cache} ({p.where})" if p.cache and p.where else f" {p.cache}" if p.cache else ""
    return (
        f"{p.kind} {p.function}{outcome}"
        + (f" {time_text(p.duration_us)}" if o.times else "")
        + (f": {p.reason}" if p.reason else "")
        + (f" failed: {p.error}" if p.error else "")
    )


def _phases(phases: Sequence[r.Phase], o: _Options) -> str:
    shown, more = _cut(phases, o, "phase")
    return "\n".join(["  " + "  " * p.depth + _phase(p, o) for p in shown] + more)


def warm_text(t: r.Timing) -> str:
    """`12.0 μs ± 1.0 μs (20 runs)`: median and spread of the steady runs; empty where there were none."""
    if t.warm_us is None:
        return ""
    spread = f" ± {time_text(t.spread_us)}" if t.spread_us is not None else ""
    return f"{time_text(t.warm_us)}{spread} ({plural(t.runs, 'run')})"


def _timing(t: r.Timing, o: _Options) -> str:
    if not o.times:
        runs = plural(t.runs, "steady run") if t.runs else "no steady run"
        return f"{t.function}: {runs}" + (f" (no cold time: {t.note})" if t.note else "")
    parts = []
    if t.cold_us is not None:
        parts.append(f"cold {time_text(t.cold_us)}")
    if t.warm_us is not None:
        parts.append(f"warm {warm_text(t)}")
    if t.note:
        parts.append(f"(no cold time: {t.note})")
    return f"{t.function}: " + ("   ".join(parts) or "not run")


def _buffer(b: r.Buffer, o: _Options) -> str:
    return f"{b.name} {size_text(b.size)} {b.kind}, alive {b.start}–{b.end}" + (
        f", {_place(b.source)}" if b.source else ""
    )


def _memory(m: r.Memory, o: _Options) -> str:
    rows = [
        ("arguments", m.arguments),
        ("outputs", m.outputs),
        ("temporaries", m.temporaries),
        ("aliased", m.aliased),
        ("code", m.code),
        *([("peak", m.peak)] if m.peak else []),
    ]
    lines = [
        f"{m.function}: peak {size_text(m.peak) + ' per device' if m.peak else 'not known'}",
        table([(n, size_text(v)) for n, v in rows], "lr"),
    ]
    alive = [(b, own) for b, own in alive_at(m.buffers, m.peak_step) if own]
    if alive:
        shown = ", ".join(f"{b.name} {size_text(own)}" for b, own in alive[:6]) + (
            f" and {len(alive) - 6} more, {size_text(sum(own for _, own in alive[6:]))}" if len(alive) > 6 else "")
        lines.append(f"  alive at the peak: {shown}")
    if m.donated:
        lines.append("  donated and used: " + ", ".join(m.donated))
    lines += [f"  donated, not used: {name}: {why}" for name, why in m.refused]
    return "\n".join(lines)


# -------------------------------------------------------------------------------------------- stepping and report


def _shard(s: r.ShardSummary, o: _Options) -> str:
    return f"device {s.device}: {_range(s)}"


def _range(v: r.Value | r.ShardSummary) -> str:
    parts = []
    if v.min is not None and v.max is not None:
        parts.append(f"{significant(v.min)} … {significant(v.max)}" if v.min != v.max else significant(v.min))
    if v.mean is not None and v.min != v.max:
        parts.append(f"mean {significant(v.mean)}")
    parts += [f"{n} {word}" for n, word in ((v.nans, "NaN"), (v.infs, "Inf")) if n]
    return "  ".join(parts)


def _value(v: r.Value, o: _Options) -> str:
    entries = ", ".join(
        significant(x, trim=True) if isinstance(x, float) else str(x) for x in v.preview
    )
    return "  ".join(
        part
        for part in (
            f"{v.name}:{v.type}",
            "" if v.type.endswith("[]") and entries else _range(v),          # one entry says it all
            f"[{entries}, …]" if entries and v.type[-2:] != "[]" else entries,
        )
        if part
    )


def _step(s: r.Step, o: _Options) -> str:
    where = " ▸ ".join(s.path)
    lines = [
        f"step {s.index}  {s.text or 'equation ' + str(s.equation)}"
        + (f"  in {where}" if where else "")
    ]
    lines += ["  in   " + _value(v, o) for v in s.inputs] + [
        "  out  " + _value(v, o) for v in s.outputs
    ]
    return "\n".join(lines + ([f"  last use of {', '.join(s.dead)}"] if s.dead else []))


def _trace(t: r.StepTrace, o: _Options) -> str:
    shown, more = _cut(t.steps, o, "step")
    cut = f" of {t.total}" if t.total > len(t.steps) else ""
    return "\n".join(
        [
            f"{t.program.name}: {plural(len(t.steps), 'step')}{cut} recorded",
            *("  " + _step(s, o).replace("\n", "\n  ") for s in shown),
            *more,
        ]
    )


def _notice(n: r.Notice, o: _Options) -> str:
    return (
        f"{n.severity}: {n.text}"
        + (f" ({_place(n.source)})" if n.source else "")
        + (f" Fix: {n.fix}" if n.fix else "")
    )


def _failure(f: r.Failure, o: _Options) -> str:
    lines = [f"{f.kind}: {f.message}"]
    if f.source:
        lines.append(f"  at {_source(f.source, o)}")
    return "\n".join(lines)


def report_header(report: r.Report, *, times: bool = True, caution: str = CAUTION) -> tuple[str, tuple[str, ...]]:
    """Return the report's sentence and its three numbers: time, collectives, peak memory."""
    mesh = report.mesh or next((p.mesh for p in report.programs if p.mesh), None)
    words = [report.title]
    if mesh:
        words.append("×".join(map(str, mesh.axis_sizes)) + " mesh " + "·".join(mesh.axis_names))
    if report.programs:
        words.append(plural(sum(n for p in report.programs for _, n in p.counts), "equation"))
    numbers = []
    if times:
        best = [t for t in report.timings if t.function == report.title] or sorted(
            report.timings, key=lambda t: -(t.cold_us or 0)
        )
        numbers += [
            _timing(t, _Options(True, None)).removeprefix(f"{t.function}: ") for t in best[:1]
        ]
    added = sum(t.origin == "partitioner" for t in report.transfers)
    moved = sum(t.sent_in_run for t in report.transfers)
    collectives = plural(len(report.transfers), "collective")
    if report.transfers:
        least = "≥ " if any(t.times is None for t in report.transfers) else ""
        collectives += f" · {least}{size_text(moved)} sent per device" + (
            f" · {added} added by the partitioner" + (f" {caution}" if any(t.reshards for t in report.transfers) else "")
            if added
            else ""
        )
    if report.transfers or (report.programs and report.counted):
        numbers.append(collectives)
    if any(m.peak for m in report.memory):
        numbers.append(f"peak {size_text(max(m.peak for m in report.memory))} per device")
    return "   ".join(words), tuple(numbers)


def _report(report: r.Report, o: _Options) -> str:
    sentence, numbers = report_header(report, times=o.times)
    lines = [sentence, *filter(None, ["   ".join(numbers)])]
    if report.error:
        lines += ["", _failure(report.error, o)]
    lines += [_notice(n, o) for n in report.notices]
    layouts, more = _cut(report.layouts, o, "array")
    sections = [
        ("Shardings", ["  " + layout_line(x) for x in layouts] + more),
        ("Collectives", [transfers_table(report.transfers, o)] if report.transfers else []),
        ("Phases", [_phases(report.phases, o)] if report.phases else []),
        ("Timings", ["  " + _timing(t, o) for t in report.timings if o.times or t.note]),
        ("Memory", ["  " + _memory(m, o).replace("\n", "\n  ") for m in report.memory]),
        ("Passes", ["  " + text(p, times=o.times, limit=0).splitlines()[0] for p in report.passes if p.changed]),
        ("Targets", ["  " + text(t, times=o.times, limit=o.limit).replace("\n", "\n  ") for t in report.targets]),
        (
            "Ledger",
            ["  " + ledger_text(report.ledger, o.times, o.limit).replace("\n", "\n  ")]
            if report.ledger and report.ledger.entries
            else [],
        ),
    ]
    for title, body in sections:
        if body:
            lines += ["", title, *body]
    return "\n".join(lines)


def _listing(record: r.Listing, o: _Options) -> str:
    digits = len(str(record.first + len(record.lines)))
    return "\n".join(
        [
            record.name or record.file,
            *(
                f"  {str(record.first + i).rjust(digits)}  {line}"
                for i, line in enumerate(record.lines)
            ),
        ]
    )


_forms.update(
    {
        r.Source: _source,
        r.Listing: _listing,
        r.Type: lambda t, o: t.text,
        r.Variable: _variable,
        r.Equation: lambda e, o: equation_text(e),
        r.Program: _program,
        r.Level: _level,
        r.MeshInfo: _mesh,
        r.Block: lambda b, o: (
            f"device {b.device}: [{', '.join(f'{s}:{e}' for s, e in b.slices)}]"
            + (f" copy {b.copy}" if b.copy else "")
        ),
        r.Layout: _layout,
        r.Transfer: _transfer,
        r.Phase: _phase,
        r.Timing: _timing,
        r.Difference: lambda d, o: difference_text(d),
        r.Compilation: lambda c, o: compilation_text(c, o.times),
        r.Ledger: lambda ledger, o: ledger_text(ledger, o.times, o.limit),
        r.Buffer: _buffer,
        r.Memory: _memory,
        r.ShardSummary: _shard,
        r.Value: _value,
        r.Step: _step,
        r.StepTrace: _trace,
        r.Notice: _notice,
        r.Failure: _failure,
        r.Report: _report,
    }
)
set_text_form(text)
