"""Everything one cell did."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.cost import StepCost
from xlab.observe.records.finding import Finding, Pattern, surprise_text
from xlab.observe.records.kernel import KernelRun
from xlab.observe.records.layout import ArrayLayout, layout_lines
from xlab.observe.records.ledger import Ledger, ledger_text
from xlab.observe.records.log import LogLine, log_line
from xlab.observe.records.memory import Memory, memory_text
from xlab.observe.records.passes import Pass
from xlab.observe.records.phases import Phase, Timing, phases_table, timing_text
from xlab.observe.records.processes import Processes
from xlab.observe.records.program import MeshInfo, Program
from xlab.observe.records.source import Source, line_text, source_text
from xlab.observe.records.stepper import StepTrace
from xlab.observe.records.targets import Scheduled
from xlab.observe.records.text import Options, add_form, indented, limited, text
from xlab.observe.records.timeline import Timeline
from xlab.observe.records.transfers import CAUTION, Transfer, how_many_run, transfers_table
from xlab.observe.records.units import plural, size_text


@record_type
class Notice(Record):
    """Something wrong or worth knowing. `severity` is `info`, `warning` or `error`; `tab` is the tab that shows it."""

    severity: str
    text: str
    tab: str = "program"
    fix: str = ""
    equation: int = -1
    program: int = 0
    source: Source | None = None


MOST_STRIP = 64
"""Devices of a strip that is drawn."""


@record_type
class Failure(Record):
    """The exception that ended a cell: class name, message, the user's line, and the short traceback.

    `sides` are of values on devices that do not agree: what each is, and the ids of its devices in order.
    """

    kind: str
    message: str
    source: Source | None = None
    traceback: str = ""
    sides: tuple[tuple[str, tuple[int, ...]], ...] = ()


@record_type
class Report(Record):
    """Everything one cell did. `title` is the function or cell name; `versions` are `(package, version)`; `opens` names a tab.

    `counted` says that collectives were looked for: without it, none in `transfers` says nothing. `costs` have no equations of their own: what
    each costs is asked of `observe.cost`.
    """

    title: str
    programs: tuple[Program, ...] = ()
    layouts: tuple[ArrayLayout, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    phases: tuple[Phase, ...] = ()
    timings: tuple[Timing, ...] = ()
    memory: tuple[Memory, ...] = ()
    passes: tuple[Pass, ...] = ()
    ledger: Ledger | None = None
    trace: StepTrace | None = None
    mesh: MeshInfo | None = None
    notices: tuple[Notice, ...] = ()
    error: Failure | None = None
    versions: tuple[tuple[str, str], ...] = ()
    opens: str = ""
    targets: tuple[Scheduled, ...] = ()
    counted: bool = False
    kernels: tuple[KernelRun, ...] = ()
    log: tuple[LogLine, ...] = ()
    costs: tuple[StepCost, ...] = ()
    findings: tuple[Finding, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    processes: Processes | None = None


def report_header(
    report: Report, *, times: bool = True, caution: str = CAUTION
) -> tuple[str, tuple[str, ...]]:
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
            timing_text(t, Options(True, None)).removeprefix(f"{t.function}: ") for t in best[:1]
        ]
    added = sum(t.origin == "partitioner" for t in report.transfers)
    moved = sum(t.sent_in_run for t in report.transfers)
    running = how_many_run(report.transfers)
    collectives = plural(running, "collective")
    if running:
        least = "≥ " if any(t.times is None for t in report.transfers) else ""
        collectives += f" · {least}{size_text(moved)} sent per device" + (
            f" · {added:,} added by the partitioner"
            + (f" {caution}" if any(t.reshards for t in report.transfers) else "")
            if added
            else ""
        )
    if removed := len(report.transfers) - running:
        collectives += f" · {removed:,} removed by the compiler"
    if report.transfers or (report.programs and report.counted):
        numbers.append(collectives)
    if any(m.peak for m in report.memory):
        numbers.append(f"peak {size_text(max(m.peak for m in report.memory))} per device")
    return "   ".join(words), tuple(numbers)


def _report(report: Report, o: Options) -> str:
    sentence, numbers = report_header(report, times=o.times)
    lines = [sentence, *filter(None, ["   ".join(numbers)])]
    if report.error:
        lines += ["", _failure(report.error, o)]
    lines += [_notice(n, o) for n in report.notices]
    layouts, more = limited(report.layouts, o, "array")
    lines_of_log, more_lines = limited(report.log, o, "line")

    def shown(record: Record) -> str:
        return indented(text(record, times=o.times, limit=o.limit))

    sections = [
        # Predictions are times, and as different from machine to machine.
        *(_predicted(report, times=True) if o.times else ()),
        ("Shardings", [*map(indented, layout_lines(layouts)), *more]),
        ("Collectives", [transfers_table(report.transfers, o)] if report.transfers else []),
        ("Phases", [phases_table(report.phases, o)] if report.phases else []),
        ("Log", [*(indented(log_line(line, o)) for line in lines_of_log), *more_lines]),
        ("Timings", [indented(timing_text(t, o)) for t in report.timings if o.times or t.note]),
        ("Memory", [indented(memory_text(m, o)) for m in report.memory]),
        (
            "Passes",
            [
                indented(text(p, times=o.times, limit=0).splitlines()[0])
                for p in report.passes
                if p.changed
            ],
        ),
        ("Targets", list(map(shown, report.targets))),
        ("Processes", [shown(report.processes)] if report.processes else []),
        ("Kernels", list(map(shown, report.kernels))),
        (
            "Ledger",
            [
                indented(ledger_text(x, o.times, o.limit))
                for x in (report.ledger,)
                if x and x.entries
            ],
        ),
    ]
    if not any(body for _, body in sections):  # then the amounts say what there is to say
        sections = _predicted(report, times=False)
    for title, body in sections:
        if body:
            lines += ["", title, *body]
    return "\n".join(lines)


def _predicted(report: Report, *, times: bool) -> list[tuple[str, list[str]]]:
    """What steps cost and what stands out in them; the amounts alone, or how long they take too."""
    costs = [indented(text(c.replace(made_by=""), times=times)) for c in report.costs]
    found = [*report.findings, *(report.patterns if times else ())]
    lines = [indented(text(x, times=times)) for x in found]
    if times and report.transfers and report.counted:
        surprises = sum(t.surprises for t in report.transfers)
        lines.append(indented(surprise_text(how_many_run(report.transfers), surprises)))
    return [("Overview", costs), ("Findings", lines)]


def _notice(n: Notice, o: Options) -> str:
    return (
        f"{n.severity}: {n.text}"
        + (f" ({line_text(n.source)})" if n.source else "")
        + (f" Fix: {n.fix}" if n.fix else "")
    )


def strips(f: Failure) -> tuple[tuple[int, ...], list[tuple[str, list[int | None]]]]:
    """The devices of all sides in order of their ids, and per side which place each device has in it, None for none."""
    devices = tuple(sorted({d for _, ids in f.sides for d in ids}))
    return devices, [
        (who, [ids.index(d) if d in ids else None for d in devices]) for who, ids in f.sides
    ]


def strips_lines(f: Failure) -> list[str]:
    """Who has which devices, below one another.

    >>> made = Failure("E", "", sides=(("`x`", (0, 1)), ("`y`", (1, 2))))
    >>> print("\\n".join(strips_lines(made)))
      device   0  1  2
      `x`      ■  ■  ·
      `y`      ·  ■  ■
    """
    devices, rows = strips(f)
    if not devices or len(devices) > MOST_STRIP:
        return []
    left = max(len("device"), *(len(who) for who, _ in rows)) + 2
    width = max(len(str(d)) for d in devices) + 2
    lines = [f"  {'device':{left}}" + "".join(f"{d:>{width}}" for d in devices).removeprefix(" ")]
    lines += [
        f"  {who:{left}}"
        + "".join(f"{'·' if at is None else '■':>{width}}" for at in places).removeprefix(" ")
        for who, places in rows
    ]
    return lines


def _failure(f: Failure, o: Options) -> str:
    lines = [f"{f.kind}: {f.message}"]
    if f.source:
        lines.append(f"  at {source_text(f.source, o)}")
    lines += strips_lines(f)
    return "\n".join(lines)


add_form(Notice, _notice)
add_form(Failure, _failure)
add_form(Report, _report)
