"""The first tab of a report: where a step goes, the program by its own structure, what it needs, and what could be otherwise.

It has one screen. Each line leads to the tab that shows it.
"""

from __future__ import annotations

from xlab.notebook.views.base import Field, Request, View
from xlab.notebook.views.draw import Node, decimal, h, key, panel, table, unshown
from xlab.notebook.views.tabs import add_tab, ended_before_a_program
from xlab.observe.records import Program, Report, Transfer
from xlab.observe.records.call_tree import Call
from xlab.observe.records.cost import BOUNDS, CostSum, StepCost, bound_text, count_text
from xlab.observe.records.finding import Finding, Pattern, pattern_text, surprise_text
from xlab.observe.records.structure import structure_of
from xlab.observe.records.timeline import Timeline
from xlab.observe.records.transfers import how_many_run
from xlab.observe.records.units import plural, size_text, time_text

MOST_CALLS = 8
MOST_LINES = 5
MOST_FINDINGS = 5
DEEPEST = 7
LEAST = 0.005
"""Part of the step that a call must have to be listed."""

PROVE = Request(
    "prove",
    {"finding": Field(int, low=0, high=1 << 20)},
    Finding,
    "compile the change of a finding, by its number in the report, and run the program with and without it",
)

PARTS = ("compute", "communication", "waiting", "dispatch")


def parts_of(
    cost: StepCost,
    program: Program | None,
    transfers: tuple[Transfer, ...],
    warm: float | None,
    line: Timeline | None = None,
) -> tuple[dict[str, float], str]:
    """Where a step goes, in microseconds, and whether that was measured or predicted.

    A timeline has what became of each device's time in one step: the mean of the devices is the bar, and its parts add up to that step. Without one, a
    profile gives the time of every equation and how long collectives waited; what is left of a measured call was spent around them. What was measured
    here says nothing of another machine.

    >>> from xlab.observe.records.machine import Machine
    >>> parts_of(StepCost("f", Machine("m"), compute_us=3.0, dispatch_us=1.0), None, (), None)
    ({'compute': 3.0, 'communication': 0.0, 'waiting': 0.0, 'dispatch': 1.0}, 'predicted')
    """
    elsewhere = cost.machine.name != "cpu"
    if line is not None and line.shares and not elsewhere:
        mean = lambda part: sum(getattr(s, part) for s in line.shares) / len(line.shares)
        taken = map(mean, ("compute_us", "communication_us", "waiting_us", "idle_us"))
        return dict(zip(PARTS, taken)), "measured"
    if program is None or not program.heat or elsewhere:
        found = cost.compute_us, cost.communication_us, 0.0, cost.dispatch_us
        return dict(zip(PARTS, found)), "predicted"
    sends = {t.equation for t in transfers if t.instruction}
    compute = sum(us for number, us in program.heat if number not in sends)
    waiting = sum((t.wait_us or 0.0) * (t.runs or 1) for t in transfers)
    moving = sum((t.measured_us or 0.0) * (t.runs or 1) for t in transfers) - waiting
    rest = max(0.0, warm - compute - moving - waiting) if warm else cost.dispatch_us
    return dict(zip(PARTS, (compute, max(0.0, moving), waiting, rest))), "measured"


def bar_node(parts: dict[str, float], origin: str) -> Node:
    """One bar of all parts."""
    whole = sum(parts.values()) or 1.0
    shown = [(name, us) for name, us in parts.items() if us > 0]
    return h(
        "div",
        {"class": "xl-step-bar", "role": "img", "aria-label": f"where the step goes, {origin}"},
        *(
            h(
                "a",
                {
                    "data-go": {"communication": "collectives", "waiting": "collectives"}.get(
                        name, "timings" if name == "dispatch" else "program"
                    ),
                    "class": f"xl-step-part xl-step-{name}",
                    "style": f"flex:{max(us / whole, 0.004):.4f}",
                    "title": f"{name}: {time_text(us)}, {100 * us / whole:.1f} % of the step, {origin}",
                },
                h("span", None, f"{name} {100 * us / whole:.0f} %") if us > 0.09 * whole else None,
            )
            for name, us in shown
        ),
    )


def legend_node(parts: dict[str, float]) -> Node:
    """The parts with their times."""
    return h(
        "p",
        {"class": "xl-step-legend"},
        *(
            h("span", None, h("i", {"class": f"xl-step-{name}"}), f"{name} ", h("b", None, time_text(us)))
            for name, us in parts.items()
            if us > 0 or name in ("compute", "communication")
        ),
    )  # fmt: skip


def _share(part: float, back: float, whole: float) -> Node:
    """A small bar of a part, the backward pass lighter."""
    whole = whole or 1.0
    return h(
        "td",
        {"class": "xl-cost-share", "title": f"backward {time_text(back)}" if back else None},
        h("i", {"style": f"width:{60 * (part - back) / whole:.0f}px"}),
        h("i", {"class": "xl-backward", "style": f"width:{60 * back / whole:.0f}px"})
        if back
        else None,
        h("b", None, f"{100 * part / whole:.0f} %"),
    )


def _link(text: str, tab: str, program: int, equation: int) -> Node:
    return h("a", {"data-go": tab, "data-key": key(program, equation)}, text)


def tree_node(cost: StepCost, program: Program | None = None) -> Node | None:
    """The calls with their parts of the step; each leads to its headings, in a program that has some."""
    if cost.tree is None:
        return None
    whole = cost.tree.us
    rows: list[Node] = []
    left = 0
    headed = program is not None and structure_of(program) is not None
    numbers = {id(call): n for n, (call, _) in enumerate(cost.tree.walk())}

    def visit(call: Call, depth: int) -> None:
        nonlocal left
        if depth > DEEPEST or call.us < LEAST * whole or len(rows) >= MOST_CALLS:
            left += 1
            return
        times = call.label[len(call.name) :]
        rows.append(
            h(
                "tr",
                {"data-call": f"{cost.program}:{numbers[id(call)]}"} if headed else None,
                h(
                    "td",
                    {"class": "xl-call", "style": f"padding-left:{8 + 12 * depth}px"},
                    "▸ " if depth else "",
                    _link(call.name, "program", cost.program, call.first),
                    h("b", None, times) if times else None,
                ),
                _share(call.us, call.backward_us, whole),
                h("td", {"class": "n"}, call.source.line if call.source else ""),
            )
        )
        for child in call.children:
            visit(child, depth + 1)

    visit(cost.tree, 0)
    return h(
        "div",
        {"class": "xl-tree"},
        table((("the program", ""), ("share", ""), ("line", "n")), rows),
        unshown(left, "smaller call", " not listed"),
        h("p", {"class": "xl-dim"}, "strong: forward, faint: backward")
        if cost.backward_us
        else None,
    )


def _line_row(cost: StepCost, s: CostSum) -> Node:
    place = s.source.text.strip() if s.source else s.name
    return h(
        "tr",
        {"title": f"{count_text(s.flops)}, {size_text(s.nbytes)} moved" + (f", {size_text(s.sent)} sent" if s.sent else "")},
        h("td", {"class": "n"}, s.source.line if s.source else ""),
        h("td", {"class": "xl-line"}, h("code", None, _link(place, "program", cost.program, min(s.equations, default=-1)))),
        _share(s.us, s.backward_us, cost.us),
        h("td", None, BOUNDS.get(s.bound, s.bound)),
    )  # fmt: skip


def lines_node(cost: StepCost) -> Node | None:
    """The most expensive lines, and what bounds each."""
    if not cost.lines:
        return None
    return table(
        (("line", "n"), ("", ""), ("share", ""), ("bound by", "")),
        [_line_row(cost, s) for s in cost.lines[:MOST_LINES]],
    )


def _percent(share: float) -> str:
    """A share of the memory: two digits of what can be seen.

    >>> _percent(0.000012), _percent(3.14), _percent(250)
    ('less than 0.1 %', '3.1 %', '250 %')
    """
    return (
        "less than 0.1 %" if share < 0.1 else f"{share:.2g} %" if share < 10 else f"{share:.0f} %"
    )


def memory_node(cost: StepCost) -> Node | None:
    """Bytes of one device against what it has."""
    if cost.peak is None:
        return None
    has = cost.memory
    if has and cost.machine.shared_memory:
        has //= max(1, cost.devices)
    part = min(1.0, cost.peak / has) if has else 0.0
    of = f" of {size_text(has)}" if has else ""
    share = f", {_percent(100 * cost.peak / has)}" if has else ""
    return h(
        "p",
        {"class": "xl-fit"},
        h("a", {"data-go": "memory"}, "memory"),
        f" {size_text(cost.peak)}{of} per device{share} ",
        h("span", {"class": "xl-fit-bar"}, h("i", {"style": f"width:{decimal(100 * part)}%"}))
        if has
        else None,
        h("b", {"class": "xl-caution"}, "⚠ does not fit") if has and cost.peak > has else None,
    )


def finding_node(f: Finding, number: int = -1) -> Node:
    """What is the case, what it costs, and what to write instead; with its number in the report where a kernel could prove more."""
    return h(
        "li",
        {"data-finding": number} if number >= 0 and f.provable else None,
        _link(f.text, f.tab, f.program, f.equation),
        h("b", None, f"  {f.amount}") if f.amount else None,
        h("span", {"class": "xl-dim"}, f"  {' in '.join(filter(None, (f'line {f.source.line}', f.layer)))}") if f.source else None,
        h("div", None, h("b", None, "Change: "), f.change, h("span", {"class": "xl-dim"}, f"  {'; '.join(filter(None, (f.proof, f.measured)))}") if f.proof else None)
        if f.change
        else None,
    )  # fmt: skip


def findings_node(
    findings: tuple[Finding, ...],
    patterns: tuple[Pattern, ...],
    transfers: tuple[Transfer, ...] = (),
) -> Node | None:
    """The findings, the most expensive first; then what is known by its name."""
    surprises = sum(t.surprises for t in transfers)
    if not (findings or patterns or surprises):
        return None
    left = len(findings) - MOST_FINDINGS
    listed = h(
        "div",
        None,
        h("h3", None, plural(len(findings), "finding")),
        h(
            "ol",
            None,
            *(finding_node(f, n) for n, f in enumerate(findings[:MOST_FINDINGS])),
            h("li", {"class": "xl-dim"}, f"{left} more") if left > 0 else None,
        ),
    )
    return h(
        "div",
        {"class": "xl-findings xl-two"},
        listed if findings else None,
        h(
            "div",
            None,
            h("p", None, surprise_text(how_many_run(transfers), surprises)) if transfers else None,
            *(
                h("p", {"class": "xl-dim"}, "✓ ", _link(pattern_text(p), "collectives", p.program, min(p.equations, default=-1)))
                for p in patterns
            ),
        ),
    )  # fmt: skip


def origin_text(cost: StepCost, origin: str, line: Timeline | None = None) -> str:
    """What the bar is made of, and what the prediction counts with.

    >>> from xlab.observe.records.machine import Machine
    >>> origin_text(StepCost("f", Machine("m", "as the maker states")), "measured")
    'the bar is measured; the prediction counts with: as the maker states'
    """
    if origin != "measured":
        return f"{origin}, counting with: {cost.machine.note}"
    of = (
        f"the bar is a step of {time_text(line.duration_us)} under the profiler, the mean of its devices"
        if line is not None
        else "the bar is measured"
    )
    return f"{of}; the prediction counts with: {cost.machine.note}"


def step_node(cost: StepCost, report: Report | None = None) -> Node:
    """One program: its sentence, its bar, its structure and its lines."""
    program, transfers, warm, line = None, (), None, None
    if report is not None:
        program = report.programs[cost.program] if cost.program < len(report.programs) else None
        transfers = tuple(t for t in report.transfers if t.program == cost.program)
        warm = next((t.warm_us for t in report.timings if t.function == cost.title), None)
        line = next((t for t in report.timelines if t.program == cost.program and t.shares), None)
    parts, origin = parts_of(cost, program, transfers, warm, line)
    predicted = f"{time_text(cost.us)} predicted"
    here = "" if cost.machine.name == "cpu" else " on this machine"
    return h(
        "div",
        {"class": "xl-step"},
        h(
            "p",
            {"class": "xl-step-sentence"},
            h("strong", None, cost.title),
            f"   {predicted} on {plural(cost.devices, 'device')} of {cost.machine.name}, {bound_text(cost)}",
            f"   {time_text(warm)} measured{here}" if warm
            else f"   {time_text(line.duration_us)} under the profiler{here}" if line is not None else None,
        ),
        bar_node(parts, origin),
        legend_node(parts),
        h("p", {"class": "xl-dim"}, origin_text(cost, origin, line), *(f"; {n}" for n in cost.notes)),
        memory_node(cost),
        h(
            "div",
            {"class": "xl-two"},
            tree_node(cost, program),
            h("div", {"class": "xl-lines"}, lines_node(cost)),
        ),
    )  # fmt: skip


def overview_panel(report: Report) -> Node | None:
    """The Overview tab: of several programs the most expensive in full, of the others a line."""
    found = findings_node(report.findings, report.patterns, report.transfers)
    if ended_before_a_program(report) or not (report.costs or report.findings or report.patterns):
        return None
    if not report.costs:
        return panel("overview", "Overview", found)
    first, *others = sorted(report.costs, key=lambda c: -c.us)
    return panel(
        "overview",
        "Overview",
        found,
        step_node(first, report),
        *(
            h(
                "p",
                {"class": "xl-dim"},
                _link(c.title, "program", c.program, c.tree.first if c.tree is not None else -1),
                f"   {time_text(c.us)} predicted, {bound_text(c)}",
            )
            for c in others[:MOST_LINES]
        ),
        h("p", {"class": "xl-dim"}, f"and {plural(len(others) - MOST_LINES, 'more program')}")
        if len(others) > MOST_LINES
        else None,
    )


class OverviewView(View):
    """What a step costs.

    >>> from xlab.observe.records.machine import Machine
    >>> OverviewView().title(StepCost("train", Machine("cpu")))
    'cost of train'
    """

    name = "overview"
    record_type = StepCost
    height = 420
    scripted = False

    def title(self, record: StepCost) -> str:
        """The program's name."""
        return f"cost of {record.title}"

    def tree(self, record: StepCost) -> Node:
        """The same as a tab of its own."""
        return h(
            "article", {"class": "xl xl-report"}, panel("overview", "Overview", step_node(record))
        )


add_tab("overview", "Overview", 5, overview_panel, requests=(PROVE,))
