"""Devices of a mesh, and what goes from one to another in a round of a collective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xlab.observe.figures.sizes import Size
from xlab.observe.records import Transfer
from xlab.observe.records.program import MeshInfo
from xlab.observe.records.replay import Replay
from xlab.observe.records.resharding import Resharding
from xlab.observe.records.transfers import transfer_name, transfer_over
from xlab.observe.records.units import plural, size_text

AXES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Hues of mesh axes, apart for the color-blind; those of the page."""
ROW = 0.42
"""Inches of a row of devices, with letters of seven points."""
Round = Sequence[tuple[int, int, int]]


def places_of(mesh: MeshInfo | None, devices: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Where devices stand: the last axis to the right, the others down; without a mesh in a row.

    >>> places_of(MeshInfo(("a", "b"), (2, 2), (0, 1, 2, 3)), ())[3]
    (1.0, 1.0)
    """
    ids = tuple(mesh.device_ids or range(mesh.size)) if mesh is not None else tuple(devices)
    sizes = mesh.axis_sizes if mesh is not None else (len(ids),)
    columns = sizes[-1] if sizes and len(sizes) > 1 else min(8, len(ids)) or 1
    return {d: (float(i % columns), float(i // columns)) for i, d in enumerate(ids)}


def rounds_of(record: Transfer | Replay | Resharding) -> tuple[Round, ...]:
    """The messages of each round."""
    if not isinstance(record, Replay):
        return tuple(record.rounds)
    steps = sorted({e.step for e in record.events})
    found: dict[int, dict[tuple[int, int], int]] = {step: {} for step in steps}
    for e in record.events:
        if e.moves:
            sent = found[e.step]
            sent[e.src, e.dst] = sent.get((e.src, e.dst), 0) + e.bytes
    return tuple(tuple((a, b, n) for (a, b), n in found[step].items()) for step in steps)


def draw_round(
    ax: Any, size: Size, record: Any, number: int, wide: float, progress: float = 1.0
) -> None:
    """One round on axes so many inches wide: devices, an arrow for each message, `progress` of its way, and what each holds, where that is known."""
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    rounds = rounds_of(record)
    messages = rounds[number] if number < len(rounds) else ()
    mesh = record.before.mesh if isinstance(record, Resharding) else record.mesh
    places = places_of(mesh, sorted({d for r in rounds for a, b, _ in r for d in (a, b)}))
    axes = list(getattr(record, "axes", ()))
    at = mesh.axis_names.index(axes[0]) if mesh is not None and axes else 0
    hue = AXES[at % len(AXES)]
    held = _held(record, number if progress < 0.5 else number + 1)
    for d, (x, y) in places.items():
        ax.add_patch(
            FancyBboxPatch(
                (x - 0.2, y - 0.16),
                0.4,
                0.32,
                boxstyle="round,pad=0,rounding_size=0.05",
                facecolor="#f5f7f9",
                edgecolor="#8793a0",
                linewidth=0.06 * size.text,
            )
        )
        words = held.get(d, "")
        ax.text(x, y - (0.04 if words else 0), str(d), ha="center", va="center", weight="bold")
        if words:
            ax.text(x, y + 0.09, words, ha="center", va="center", fontsize=0.62 * size.text)
    both = {(a, b) for a, b, _ in messages}
    right, down = wide / (len({x for x, _ in places.values()}) or 1), ROW * size.text / 7
    for a, b, _ in messages:
        if a not in places or b not in places:
            continue
        (x1, y1), (x2, y2) = places[a], places[b]
        far = math.hypot((x2 - x1) * right, (y2 - y1) * down)
        apart = (b, a) in both or math.hypot(x2 - x1, y2 - y1) > 1.01
        bend = min(0.3, 0.5 * down / far) if apart and far else 0.0
        ax.add_patch(
            FancyArrowPatch(
                (x1, y1),
                (x1 + (x2 - x1) * progress, y1 + (y2 - y1) * progress),
                arrowstyle="-|>",
                mutation_scale=0.9 * size.text,
                connectionstyle=f"arc3,rad={bend}",
                shrinkA=1.7 * size.text,
                shrinkB=1.7 * size.text if progress == 1.0 else 0,
                color=hue,
                linewidth=0.11 * size.text,
            )
        )
    sizes = sorted({n for _, _, n in messages})
    said = f"{plural(len(messages), 'message')}"
    if sizes:
        said += f" of {size_text(sizes[0])}" + (
            f" to {size_text(sizes[-1])}" if len(sizes) > 1 else ""
        )
    name = (
        record.call
        if isinstance(record, Replay)
        else f"{record.name or 'array'}: resharding"
        if isinstance(record, Resharding)
        else transfer_name(record)
    )
    over = (
        ""
        if isinstance(record, Resharding)
        else f" over {transfer_over(record)}"
        if isinstance(record, Transfer)
        else f" over {', '.join(axes)}"
    )
    ax.set_title(f"{name}{over}", loc="left")
    ax.set_xlabel(f"round {min(number + 1, len(rounds))} of {len(rounds)}: {said}")
    xs = [x for x, _ in places.values()] or [0.0]
    ys = [y for _, y in places.values()] or [0.0]
    ax.set_xlim(min(xs) - 0.5, max(xs) + 0.5)
    ax.set_ylim(max(ys) + 0.4, min(ys) - 0.4)
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_visible(False)


def _held(record: Any, frame: int) -> dict[int, str]:
    """What each device holds in a frame of a replay, as far as it is known."""
    if not isinstance(record, Replay) or not record.tiles:
        return {}
    tiles = record.tiles[min(frame, len(record.tiles) - 1)]
    return {
        d: " ".join(entries[:6]) + (" …" if len(entries) > 6 else "")
        for d, entries in zip(record.devices, tiles)
    }


def tall_of(record: Any, size: Size) -> float:
    """Inches that a round needs."""
    mesh = record.before.mesh if isinstance(record, Resharding) else record.mesh
    rounds = rounds_of(record)
    places = places_of(mesh, sorted({d for r in rounds for a, b, _ in r for d in (a, b)}))
    rows = len({y for _, y in places.values()}) or 1
    return min(size.tallest, (rows * ROW + 0.55) * size.text / 7)
