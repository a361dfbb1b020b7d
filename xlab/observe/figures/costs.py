"""Where a step goes, and what other placements cost, drawn with matplotlib."""

from __future__ import annotations

from typing import Any

from xlab.observe.figures.sizes import Size
from xlab.observe.records.call_tree import Call
from xlab.observe.records.cost import StepCost, bound_text
from xlab.observe.records.units import size_text, time_text
from xlab.observe.records.whatif import Placement, Ranking, WhatIf, cost_rows

PARTS = (
    ("compute", "compute_us", "#0f5f9e"),
    ("communication", "communication_us", "#D55E00"),
    ("dispatch", "dispatch_us", "#b9c6d3"),
)
ROWS = 14
"""Calls that a figure shows."""


def plot_cost(cost: StepCost, ax: Any, size: Size) -> None:
    """The call tree, a bar each as long as its predicted time, forward and backward apart; the parts of the step above them."""
    rows: list[tuple[Call, int]] = []
    if cost.tree is not None:
        rows = [(c, d) for c, d in cost.tree.walk() if c.us >= 0.01 * cost.us][:ROWS]
    left = 0.0
    for name, field, color in PARTS:
        us = getattr(cost, field)
        if us:
            ax.barh(0, us, left=left, height=0.7, color=color, linewidth=0, label=name)
            left += us
    for at, (call, _) in enumerate(rows, 1):
        ax.barh(at, call.forward_us, height=0.55, color="#4a8cc2", linewidth=0)
        ax.barh(
            at, call.backward_us, left=call.forward_us, height=0.55, color="#b9c6d3", linewidth=0
        )
        share = f" {100 * call.us / cost.us:.0f} %" if cost.us else ""
        ax.text(call.us, at, share, va="center", fontsize=size.text - 1)
    ax.set_yticks(
        range(len(rows) + 1), ["step", *(f"{'  ' * depth}{call.label}" for call, depth in rows)]
    )
    ax.tick_params(axis="y", length=0)
    for label in ax.get_yticklabels():
        label.set_horizontalalignment("left")
    ax.invert_yaxis()
    ax.margins(x=0.14)
    _micros(ax)
    ax.set_title(
        f"{cost.title}: {time_text(cost.us)} predicted, {bound_text(cost)}", loc="left", wrap=True
    )
    _pad_labels(ax, size, [f"{'  ' * d}{c.label}" for c, d in rows])
    if left:
        ax.figure.legend(frameon=False, ncols=3, loc="outside lower left")


def _pad_labels(ax: Any, size: Size, labels: list[str]) -> None:
    """Moves labels that begin at one line left of the bars."""
    longest = max(map(len, [*labels, "step"]))
    ax.tick_params(axis="y", pad=0.56 * longest * (size.text - 1) + 4)


def _micros(ax: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda us, _: time_text(us) if us else "0"))


def plot_ranking(ranking: Ranking, ax: Any, size: Size) -> None:
    """Placements by time and memory; those that no other beats in both are joined."""
    found = ranking.found
    ax.scatter(
        [p.predicted_us for p in found], [p.peak for p in found], s=2 * size.text, color="#93a0ad"
    )
    front: list[Placement] = []
    for p in sorted(found, key=lambda p: (p.predicted_us, p.peak)):
        if not front or p.peak < front[-1].peak:
            front.append(p)
    ax.plot(
        [p.predicted_us for p in front],
        [p.peak for p in front],
        marker="o",
        markersize=0.5 * size.text,
        color="#0f5f9e",
        linewidth=0.12 * size.text,
    )
    for number, p in enumerate(front[:8], 1):
        ax.annotate(
            str(number), (p.predicted_us, p.peak), xytext=(3, 3), textcoords="offset points"
        )
    _micros(ax)
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ax.yaxis.set_major_locator(MaxNLocator(4))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda n, _: size_text(n)))
    names = "\n".join(f"{n} {p.title[:60]}" for n, p in enumerate(front[:8], 1))
    ax.set_xlabel(f"predicted time of all collectives\n{names}", loc="left")
    ax.set_ylabel("peak per device")
    ax.set_title(f"{ranking.function}: {len(found)} placements", loc="left")


def plot_whatif(record: WhatIf, ax: Any, size: Size) -> None:
    """Every number of two placements, as bars relative to the larger."""
    rows = cost_rows(record)
    for at, (_, before, after, a, b) in enumerate(rows):
        most = max(a, b) or 1
        for shift, words, value, color in (
            (-0.2, before, a, "#b9c6d3"),
            (0.2, after, b, "#0f5f9e"),
        ):
            ax.barh(at + shift, value / most, height=0.36, color=color, linewidth=0)
            ax.text(value / most, at + shift, f" {words}", va="center", fontsize=size.text - 1)
    ax.set_yticks(range(len(rows)), [row[0] for row in rows])
    ax.invert_yaxis()
    ax.set_xticks([])
    ax.set_xlim(0, 1.3)
    ax.spines["bottom"].set_visible(False)
    ax.set_title(f"{record.function}: {record.before.title}, {record.after.title}", loc="left")
