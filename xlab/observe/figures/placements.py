"""Layouts and collectives drawn with matplotlib, which is imported when a figure is asked for."""

from __future__ import annotations

from typing import Any

from xlab.observe.records import ArrayLayout, Transfer
from xlab.observe.records.layout import layout_line
from xlab.observe.records.transfers import how_many_run, transfer_name, transfer_over
from xlab.observe.records.units import plural, size_text

_MOST_LABELS = 6


def axes(ax: Any, width: float, height: float) -> Any:
    """The Axes given, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained").add_subplot()


def plot_layout(layout: ArrayLayout, ax: Any = None) -> Any:
    """The last two dimensions of an array as blocks with the devices that hold them; leading dimensions side by side."""
    blocks: dict[tuple, list[int]] = {}
    for block in layout.blocks:
        blocks.setdefault(block.slices, []).append(block.device)
    shape = tuple(map(int, layout.type.shape))  # an array has no symbolic dimensions
    rank = len(shape)
    leading = sorted({slices[:-2] for slices in blocks}) if rank > 2 else [()]
    rows, columns = shape[-2:] if rank > 1 else (1, *(shape or (1,)))
    ax = axes(ax, 5.0, 3.2)
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    hues = colormaps["Blues"]
    last = max(1, len(blocks) - 1)
    for number, (slices, devices) in enumerate(blocks.items()):
        facet = leading.index(slices[:-2]) if rank > 2 else 0
        (top, bottom), (left, right) = slices[-2:] if rank > 1 else ((0, 1), *(slices or ((0, 1),)))
        x, y = left + facet * columns * 1.15, top
        ax.add_patch(
            Rectangle(
                (x, y),
                right - left,
                bottom - top,
                facecolor=hues(0.12 + 0.5 * number / last),
                edgecolor="white",
                linewidth=1.5,
            )
        )
        label = ",".join(map(str, devices[:_MOST_LABELS])) + (
            f" +{len(devices) - _MOST_LABELS}" if len(devices) > _MOST_LABELS else ""
        )
        ax.text(
            x + (right - left) / 2,
            y + (bottom - top) / 2,
            label,
            ha="center",
            va="center",
            fontsize=8,
        )
    ax.set_xlim(0, max(1, columns * (1 + 1.15 * (len(leading) - 1))))
    ax.set_ylim(max(1, rows), 0)
    ax.set_title(layout_line(layout).replace(": shard", "\nshard", 1), fontsize=9)
    ends = sorted({end for slices in blocks for end in (slices[-1] if slices else (0, 1))})
    if len(ends) <= 17:
        ax.set_xticks(ends)
    heights = sorted({end for slices in blocks for end in slices[-2]}) if rank > 1 else []
    if 0 < len(heights) <= 17:
        ax.set_yticks(heights)
    ax.set_xlabel(f"dimension {rank - 1}" if rank else "scalar")
    if rank > 1:
        ax.set_ylabel(f"dimension {rank - 2}")
    else:
        ax.set_yticks([])
    if len(leading) > 1:
        ax.set_xticks(
            [i * columns * 1.15 + columns / 2 for i in range(len(leading))],
            [", ".join(f"{a}:{b}" for a, b in lead) for lead in leading],
        )
    return ax


def plot_transfers(transfers: tuple[Transfer, ...], ax: Any = None) -> Any:
    """A bar per collective in the order they run: bytes a device sends, loop trips multiplied, yours and the partitioner's apart."""
    ax = axes(ax, 6.0, 1.2 + 0.34 * max(1, len(transfers)))
    colors = {"user": "#0f5f9e", "partitioner": "#b8450a"}
    for i, t in enumerate(transfers):
        sent = t.sent_in_run
        ax.barh(i, sent, height=0.7, color=colors.get(t.origin, "#93a0ad"), linewidth=0)
        ax.text(
            sent,
            i,
            f" {size_text(sent)}"
            + (" × ?" if t.times is None else ", removed" if t.removed else ""),
            va="center",
            fontsize=8,
        )
    ax.set_yticks(
        range(len(transfers)),
        [
            f"{transfer_name(t)} over {transfer_over(t)}"
            + (f", line {t.source.line}" if t.source else "")
            for t in transfers
        ],
    )
    ax.invert_yaxis()
    ax.margins(x=0.18)
    ax.set_xlabel("bytes sent per device")
    total = sum(t.sent_in_run for t in transfers)
    ax.set_title(
        f"{plural(how_many_run(transfers), 'collective')}, {size_text(total)} sent per device",
        fontsize=9,
    )
    from matplotlib.patches import Patch

    kinds = [k for k in colors if any(t.origin == k for t in transfers)]
    if kinds:
        ax.legend(
            handles=[
                Patch(
                    color=colors[k],
                    label={"user": "written by you"}.get(k, "added by the partitioner"),
                )
                for k in kinds
            ],
            fontsize=8,
            frameon=False,
            loc="lower right",
        )
    return ax
