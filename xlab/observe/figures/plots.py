"""Phases and memory drawn with matplotlib, which is imported when a figure is asked for."""

from __future__ import annotations

from typing import Any

from xlab.observe.figures.placements import plot_layout, plot_transfers
from xlab.observe.pictures import set_picture
from xlab.observe.records import ArrayLayout, Memory, Phase, Report, Transfer
from xlab.observe.records.units import size_text, time_text

# Those of the notebook's views.
COLORS = {
    "trace": "#b9c6d3",
    "lower": "#8fb0cd",
    "compile": "#4a8cc2",
    "execute": "#0f5f9e",
    "gate": "#d9c27a",
    "transfer": "#b8450a",
    "argument": "#b9c6d3",
    "output": "#8fb0cd",
    "temporary": "#4a8cc2",
    "constant": "#dde2e8",
}
_OTHER = "#93a0ad"
MOST_BUFFERS = 30


def plot(record: Any, ax: Any = None) -> Any:
    """Draws the phases of a report, the memory of a program, a layout or a collective on the Axes given or new ones; returns the Axes.

    Raises:
        TypeError: there is no drawing of this record.
    """
    if isinstance(record, Memory):
        return plot_memory(record, ax)
    if isinstance(record, Report):
        return plot_phases(record.phases, ax, record.title)
    if isinstance(record, ArrayLayout):
        return plot_layout(record, ax)
    if isinstance(record, Transfer):
        return plot_transfers((record,), ax)
    raise TypeError(
        f"a report (its phases), the memory of a program, a layout and a collective can be drawn; given {type(record).__name__}"
    )


def plot_phases(phases: tuple[Phase, ...], ax: Any = None, title: str = "phases") -> Any:
    """A waterfall: time in milliseconds to the right, a row per function and depth. Steady runs are paler than first ones."""
    shown = [p for p in phases if p.duration_us > 0]
    rows: dict[tuple[int, str], int] = {}
    for p in shown:
        rows.setdefault((p.depth, p.function), len(rows))
    ax = _axes(ax, len(rows))
    for p in shown:
        ax.barh(
            rows[p.depth, p.function],
            p.duration_us / 1e3,
            left=p.start_us / 1e3,
            height=0.7,
            linewidth=0,
            color=COLORS.get(p.kind, _OTHER),
            alpha=0.45 if p.steady else 1.0,
        )
    ax.set_yticks(range(len(rows)), [f"{'  ' * depth}{function}" for depth, function in rows])
    ax.invert_yaxis()
    ax.set_xlabel("ms")
    ax.set_title(
        f"{title}: {time_text(max((p.start_us + p.duration_us for p in shown), default=0.0))}"
    )
    _legend(ax, dict.fromkeys(p.kind for p in shown))
    return ax


def plot_memory(memory: Memory, ax: Any = None) -> Any:
    """The largest buffers over the schedule, each from its birth to its last use, with the step of the peak."""
    largest = sorted(
        sorted(memory.buffers, key=lambda b: -b.size)[:MOST_BUFFERS],
        key=lambda b: (b.start, -b.size),
    )
    ax = _axes(ax, len(largest))
    for row, b in enumerate(largest):
        ax.barh(
            row,
            b.end - b.start + 1,
            left=b.start,
            height=0.7,
            linewidth=0,
            color=COLORS.get(b.kind, _OTHER),
        )
    ax.set_yticks(range(len(largest)), [f"{b.name}  {size_text(b.size)}" for b in largest])
    ax.invert_yaxis()
    if memory.peak_step >= 0:
        ax.axvline(memory.peak_step + 0.5, color="#b8450a", linewidth=1, linestyle="--")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("step of the schedule")
    ax.set_title(f"{memory.function}: peak {size_text(memory.peak)} per device")
    _legend(ax, dict.fromkeys(b.kind for b in largest))
    return ax


def _axes(ax: Any, rows: int) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(
            "drawing needs matplotlib, which is not installed: pip install matplotlib"
        ) from None
    return pyplot.subplots(figsize=(9, 1.2 + 0.26 * max(rows, 2)), layout="constrained")[1]


def _legend(ax: Any, kinds: Any) -> None:
    from matplotlib.patches import Patch

    if kinds:
        ax.legend(
            handles=[
                Patch(color=COLORS.get(k, _OTHER), label="run" if k == "execute" else k)
                for k in kinds
            ],
            fontsize="small",
            loc="upper left",
            bbox_to_anchor=(1, 1),
            frameon=False,
        )


set_picture("axes", plot)
