"""The overlap view: each collective that is started, joined to its wait by a dashed edge, with what is computed in between and what that can hide."""

from __future__ import annotations

from collections.abc import Sequence

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, decimal, finite, h, key, panel, unshown
from xlab.notebook.views.tabs import add_tab
from xlab.observe.records import Report, Transfer
from xlab.observe.records.overlap import Overlap, between_text, ideal_text, span_text
from xlab.observe.records.source import Source, line_text
from xlab.observe.records.transfers import transfer_name, transfer_over
from xlab.observe.records.units import plural, time_text

MOST_SPANS = 60
MOST_EQUATIONS = 40
"""Equations drawn between a start and its wait."""


def overlap_node(o: Overlap, name: str, over: str = "", program: int = 0, scale: float = 0) -> Node:
    """One pair; its time line ends at `scale` microseconds."""
    if o.done < 0:
        return h(
            "div",
            {"class": "xl-overlap"},
            h(
                "p",
                {"class": "xl-overlap-line"},
                _end(f"{name} start", o.start_source, program, o.start),
            ),
            h("p", {"class": "xl-warn"}, h("b", None, "⚠ "), span_text(o)),
        )
    shown, more = o.between[:MOST_EQUATIONS], len(o.between) - MOST_EQUATIONS
    return h(
        "div",
        {"class": "xl-overlap"},
        h(
            "div",
            {"class": "xl-overlap-line", "role": "img", "aria-label": span_text(o)},
            _end(f"{name} start", o.start_source, program, o.start),
            h(
                "span",
                {
                    "class": "xl-overlap-edge",
                    "data-tip": f"pending{f' over {over}' if over else ''}",
                },
                h("code", None, o.type),
            ),
            _end("done", o.done_source, program, o.done),
        ),
        h(
            "div",
            {"class": "xl-overlap-between", "aria-label": between_text(o)},
            *(
                h(
                    "span",
                    {
                        "class": "xl-overlappable",
                        "data-eq": key(program, b.equation),
                        "title": f"can run while devices send: {time_text(b.us)} ({o.computed_clock})",
                    },
                    b.primitive,
                )
                for b in shown
            ),
            h("small", None, f"and {plural(more, 'more equation')}") if more > 0 else None,
            None if o.between else h("small", None, between_text(o)),
        ),
        _time_line(o, max(scale, o.serial_us)),
        h("p", {"class": "xl-dim"}, f"{_sentence(ideal_text(o))}{_sentence(o.machine)}"),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'} " if text else ""


def _end(name: str, source: Source | None, program: int, equation: int) -> Node:
    return h(
        "span",
        {"class": "xl-overlap-end", "data-eq": key(program, equation)},
        h("b", None, name),
        h("small", None, f" {line_text(source)}") if source is not None else None,
    )


def _time_line(o: Overlap, scale: float) -> Node:
    """What is sent and what is computed from the start on, as if both went on at once; what is measured is another bar."""
    rows = [
        ("sent", o.sent_us, o.sent_clock, "xl-overlap-sent"),
        ("computed", o.computed_us, o.computed_clock, "xl-overlap-computed"),
        ("at best", o.ideal_us, "max of both", "xl-overlap-best"),
    ]
    if o.overlapped_us is not None:
        clock = "measured" if not o.logical else f"on {o.platform}: the span is logical"
        rows.append(("at once", o.overlapped_us, clock, "xl-overlap-measured"))
    return h(
        "div",
        {"class": "xl-overlap-times"},
        *(
            part
            for word, us, clock, name in rows
            for part in (
                h("span", {"class": "xl-dim"}, word),
                h(
                    "span",
                    {"class": "xl-track"},
                    h(
                        "span",
                        {
                            "class": f"xl-bar {name}",
                            "style": f"left:0;width:{decimal(_share(us, scale), 2)}%",
                        },
                    ),
                ),
                h("span", {"class": "n"}, time_text(us)),
                h("small", None, clock),
            )
        ),
    )


def _share(us: float, scale: float) -> float:
    """A time in percent of the axis."""
    share = finite(100 * us / scale) if scale and finite(us) is not None and finite(scale) else None
    return min(100.0, max(0.0, share or 0.0))


def overlaps_panel(transfers: Sequence[Transfer]) -> Node | None:
    """The Overlap tab; None where nothing is started."""
    found = [t for t in transfers if t.overlap is not None]
    if not found:
        return None
    scale = max((t.overlap.serial_us for t in found if t.overlap), default=0.0)
    more = len(found) - MOST_SPANS
    return panel(
        "overlap",
        "Overlap",
        h(
            "p",
            {"class": "xl-dim"},
            f"{plural(len(found), 'collective')} started and waited for later. The equations in between do not need the result, so a "
            "machine that sends and computes at once can hide the shorter of the two.",
        ),
        *(
            overlap_node(t.overlap, transfer_name(t), transfer_over(t), t.program, scale)
            for t in found[:MOST_SPANS]
            if t.overlap is not None
        ),
        unshown(more, "more collective", " not drawn"),
    )


class OverlapView(View):
    """One collective that is started and waited for later.

    >>> OverlapView().title(Overlap("Todo{f32[8]}", 1, 2))
    'pending Todo{f32[8]}'
    """

    name = "overlap"
    record_type = Overlap
    scripted = False

    def title(self, record: Overlap) -> str:
        """The type of what is pending."""
        return f"pending {record.type}"

    def tree(self, record: Overlap) -> Node:
        """The pair, the equations between, and the time line."""
        return h(
            "article",
            {"class": "xl xl-report"},
            panel("overlap", "Overlap", overlap_node(record, "collective")),
        )


def _panel(report: Report) -> Node | None:
    return overlaps_panel(report.transfers)


add_tab("overlap", "Overlap", 32, _panel)
