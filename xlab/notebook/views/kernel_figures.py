"""A kernel's run as pictures that need no script: blocks on operands, cores over time, the roofline."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

from xlab.notebook.views.draw import Node, decimal, h, unshown
from xlab.notebook.views.mesh import svg
from xlab.observe.records.kernel import (
    WRITES,
    BlockVisit,
    CorePair,
    KernelCost,
    KernelOperand,
    KernelRun,
    Roofline,
)
from xlab.observe.records.kernel_text import access_text, bound, operand_type
from xlab.observe.records.units import plural, significant

WIDEST, TALLEST = 232.0, 168.0
MOST_BLOCKS = 256
"""Blocks of one operand that a picture draws one by one."""
MOST_TIME = 120
"""Time that the static picture of the cores shows."""
MOST_LANES = 64
LANE, LEFT = 26, 190


def block_title(o: KernelOperand, e: BlockVisit) -> str:
    """What hovering a block says: index map values, start, shape, padding, clamped, the index map."""
    io = {"read": "read", "write": "written", "both": "read and written"}.get(e.io, e.io)
    lines = [
        f"{o.name} block {_tuple(e.index)}: {io}",
        f"start {_tuple(e.start)}, shape {_tuple(e.shape)}"
        + (f", squeezed {_tuple(e.squeezed)}" if e.squeezed else ""),
        f"padding {_tuple(e.pad)}" if any(e.pad) else "",
        "clamped: its start was moved to keep it inside" if e.clamped else "",
        f"visit {e.visit}",
        f"index map {o.index_map}" if o.index_map else "",
        f"{o.source.file}:{o.source.line}" if o.source else "",
    ]
    return "\n".join(filter(None, lines))


def _tuple(values: Any) -> str:
    return f"({', '.join(map(str, values))})"


class Plane:
    """How the last two dimensions of an array lie on the page; the others are those of the block that is shown."""

    def __init__(self, o: KernelOperand, blocks: list[BlockVisit]):
        shape = o.shape
        self.rank = len(shape)
        rows, cols = (1, 1, *shape)[-2:]
        low, high = [0, 0], [rows, cols]
        for e in blocks:
            at, size = (0, 0, *e.start)[-2:], (1, 1, *e.shape)[-2:]
            low = [min(a, b) for a, b in zip(low, at)]
            high = [max(a, b + n) for a, b, n in zip(high, at, size)]
        tall, wide = (max(1, b - a) for a, b in zip(low, high))
        scale = min(26.0, WIDEST / wide, TALLEST / tall)
        self.low = low
        self.width, self.height = max(26.0, wide * scale), max(18.0, tall * scale)
        self.sx, self.sy = self.width / wide, self.height / tall
        self.rows, self.cols = rows, cols

    def box(self, start: Any, size: Any) -> dict[str, str]:
        """The rectangle of a part of the array."""
        (y, x), (tall, wide) = (0, 0, *start)[-2:], (1, 1, *size)[-2:]
        return {
            "x": decimal((x - self.low[1]) * self.sx),
            "y": decimal((y - self.low[0]) * self.sy),
            "width": decimal(max(1.0, wide * self.sx)),
            "height": decimal(max(1.0, tall * self.sy)),
        }


def outside(o: KernelOperand, e: BlockVisit) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The parts of a block that lie outside of its array, as start and size."""
    out = []
    start, size = list(e.start), list(e.shape)
    for d in reversed(range(len(o.shape))):
        before = min(size[d], max(0, -start[d]))
        if before:
            out.append((tuple(start), (*size[:d], before, *size[d + 1 :])))
            start[d], size[d] = 0, size[d] - before
        after = min(size[d], max(0, start[d] + size[d] - o.shape[d]))
        if after:
            size[d] -= after
            out.append(
                (
                    (*start[:d], start[d] + size[d], *start[d + 1 :]),
                    (*size[:d], after, *size[d + 1 :]),
                )
            )
    return out


def operand_figure(o: KernelOperand, events: list[BlockVisit], step: int) -> Node:
    """One operand: its blocks, shaded by how often all steps visit them, and those of one step on top."""
    distinct = list({(e.start, e.shape): e for e in events}.values())
    plane = Plane(o, distinct)
    now = [e for e in events if e.step == step]
    lead = now[0].start[:-2] if now else tuple(0 for _ in o.shape[:-2])
    total = Counter((e.start, e.shape) for e in events)
    most = max(total.values(), default=1)
    parts: list[Any] = [h("rect", {**plane.box((0,) * plane.rank, o.shape), "class": "xl-cell"})]
    here = [e for e in distinct if all(a <= b < a + n for a, b, n in zip(e.start, lead, e.shape))]
    for e in here[:MOST_BLOCKS]:
        n = total[e.start, e.shape]
        parts.append(
            h(
                "rect",
                {
                    **plane.box(e.start, e.shape),
                    "class": "xl-kernel-block xl-kernel-heat",
                    "data-visits": n,
                    "style": f"fill-opacity:{0.06 + 0.36 * n / most:.2f}",
                },
                h("title", None, f"{o.name} from {_tuple(e.start)}: {plural(n, 'visit')}"),
            )
        )
    for e in now:
        io = "both" if e.io == "both" else "write" if e.io in WRITES else "read"
        parts.append(
            h(
                "g",
                {
                    "class": f"xl-kernel-now xl-kernel-{io}"
                    + (" xl-kernel-clamped" if e.clamped else "")
                },
                h("title", None, block_title(o, e)),
                h("rect", {**plane.box(e.start, e.shape), "class": "xl-kernel-face"}),
                *(
                    h("rect", {**plane.box(a, n), "class": "xl-kernel-pad xl-hatch"})
                    for a, n in outside(o, e)
                ),
            )
        )
    return h(
        "div",
        {"class": "xl-kernel-operand", "data-operand": o.name},
        h(
            "div",
            {"class": "xl-kernel-name"},
            h("b", None, o.name),
            " ",
            h("code", None, operand_type(o)),
            h("small", None, f" {o.role}" + (f", {o.space}" if o.space != "any" else "")),
        ),
        h(
            "figure",
            None,
            h("figcaption", None, f"[{', '.join(map(str, lead))}, :, :]") if lead else None,
            svg(
                round(plane.width + 4, 1),
                round(plane.height + 4, 1),
                f"blocks of {o.name}",
                [h("g", {"transform": "translate(2 2)"}, parts)],
            ),
        ),
        h(
            "div",
            {"class": "xl-dim xl-kernel-index"},
            f"{plural(len(distinct), 'block')}, {plural(len(events), 'visit')}"
            + (f"; {len(distinct) - len(here):,} not drawn" if len(here) < len(distinct) else "")
            if events
            else "whole",
        ),
    )


def lanes_figure(run: KernelRun) -> Node | None:
    """One lane per core over the first of the time: accesses, waits hatched, an arrow from each signal to the wait it lets go on."""
    events = [e for e in run.accesses if 0 <= e.t < MOST_TIME]
    if not events:
        return None
    cores: list[tuple[int, CorePair | None]] = [(c, p) for p in run.pairs for c in p.cores]
    cores = cores[:MOST_LANES] or [(0, None)]
    row = {c: i for i, (c, _) in enumerate(cores)}
    end = min(MOST_TIME, max(run.time, *(e.t + 1 for e in events), *(e.until + 1 for e in events)))
    px = 760 / max(1, end)

    def x(t: float) -> float:
        return LEFT + px * min(t, end)

    def y(core: int) -> float:
        return 16 + LANE * row.get(core, 0)

    parts: list[Any] = []
    for core, pair in cores:
        named = pair is not None and pair.cores[:1] == (core,) and len(cores) > 1
        name = f"{pair.fn[:14]} ({pair.core_type[:10]}) · " if pair is not None and named else ""
        parts += [
            h(
                "text",
                {"x": LEFT - 8, "y": y(core) + 17, "class": "xl-axis xl-end"},
                f"{name}core {core}",
            ),
            _line(LEFT, y(core) + LANE, x(end), y(core) + LANE, "xl-kernel-rule"),
        ]
    for e in events:
        title = h("title", None, f"t={e.t} core {e.core} {access_text(e)}")
        until = end if e.kind == "wait" and e.until < 0 else e.until
        if e.kind == "wait" and until > e.t:
            parts.append(
                _box(
                    x(e.t),
                    y(e.core) + 5,
                    x(until) - x(e.t),
                    LANE - 10,
                    "xl-kernel-waiting xl-hatch",
                    title,
                )
            )
        elif e.kind == "copy" and until > e.t:
            parts.append(
                _box(x(e.t), y(e.core) + LANE - 6, x(until) - x(e.t), 4, "xl-kernel-ribbon", title)
            )
        kind = e.kind if e.kind in ("read", "write", "accum", "signal", "wait", "copy") else "read"
        parts.append(
            _box(
                x(e.t),
                y(e.core) + 6,
                max(2.5, 0.86 * px),
                LANE - 12,
                f"xl-kernel-event xl-k-{kind}",
                title,
            )
        )
    for t0, c0, t1, c1, ref in run.edges:
        if max(t0, t1) < end:
            ax, ay, bx, by = x(t0 + 0.5), y(c0) + LANE / 2, x(t1 + 0.2), y(c1) + LANE / 2
            tip = -8 if by >= ay else 8
            parts.append(
                h(
                    "g",
                    {"class": "xl-kernel-signal"},
                    h("title", None, f"{ref}: core {c0} at t={t0} lets core {c1} go on at t={t1}"),
                    h("path", {"d": f"M{decimal(ax)} {ay:g}L{decimal(bx)} {by + tip:g}"}),
                    h(
                        "path",
                        {
                            "class": "xl-tip",
                            "d": f"M{decimal(bx - 3.5)} {by + tip:g}L{decimal(bx + 3.5)} {by + tip:g}L{decimal(bx)} {by:g}Z",
                        },
                    ),
                )
            )
    for r in run.races:
        (a, b), (c, d) = r.times, r.cores
        if 0 <= a < end and 0 <= b < end:
            parts.append(
                _line(x(a + 0.5), y(c) + LANE / 2, x(b + 0.5), y(d) + LANE / 2, "xl-kernel-race")
            )
    picture = svg(LEFT + 768, 20 + LANE * len(cores), "cores over time", parts)
    cut = run.time - end
    return h(
        "div",
        {"class": "xl-scroll"},
        picture,
        unshown(cut, "equation", " more: with scripts on, all can be scrubbed"),
    )


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> Node:
    return h(
        "line",
        {"x1": decimal(x1), "y1": f"{y1:g}", "x2": decimal(x2), "y2": f"{y2:g}", "class": name},
    )


def _box(x: float, y: float, w: float, tall: float, name: str, title: Node) -> Node:
    return h(
        "rect",
        {
            "x": decimal(x),
            "y": f"{y:g}",
            "width": decimal(max(1.0, w)),
            "height": f"{tall:g}",
            "class": name,
        },
        title,
    )


def roofline_figure(cost: KernelCost) -> Node | None:
    """Operations per second over operations per byte, both in powers of ten; a dot where the kernel stands under each roof."""
    roofs = [r for r in cost.rooflines if 0 < r.flops < math.inf and 0 < r.bandwidth < math.inf]
    here = cost.intensity
    if not roofs or here is None or here <= 0:
        return None
    low = math.floor(min(-1.0, math.log10(here)))
    high = math.ceil(max(4.0, math.log10(here)))
    top = math.ceil(max(math.log10(r.flops) for r in roofs))
    bottom = top - 5
    wide, tall, left = 360.0, 190.0, 52.0

    def x(intensity: float) -> float:
        return left + wide * (math.log10(intensity) - low) / (high - low)

    def y(flops: float) -> float:
        return 10 + tall * (top - max(bottom, math.log10(max(flops, 1e-300)))) / (top - bottom)

    parts: list[Any] = []
    for n in range(low, high + 1):
        parts.append(
            h(
                "text",
                {"x": decimal(x(10.0**n)), "y": tall + 26, "class": "xl-axis xl-mid"},
                f"{10.0**n:g}",
            )
        )
    for n in range(bottom, top + 1):
        parts += [
            h(
                "text",
                {"x": left - 6, "y": decimal(y(10.0**n) + 4), "class": "xl-axis xl-end"},
                f"{10.0 ** (n - 12):g}",
            ),
            _line(left, y(10.0**n), left + wide, y(10.0**n), "xl-kernel-rule"),
        ]
    parts.append(_line(x(here), 10, x(here), 10 + tall, "xl-kernel-here"))
    below = 0.0  # labels keep their distance from the one above
    for r in sorted(roofs, key=lambda r: -r.flops):
        below = max(y(r.flops) + 4, below + 12)
        ridge = r.flops / r.bandwidth
        reach, by = bound(cost, r)
        start = 10.0**low
        bend = min(max(ridge, start), 10.0**high)
        parts += [
            h(
                "path",
                {
                    "class": "xl-kernel-line",
                    "d": f"M{decimal(x(start))} {decimal(y(min(r.flops, start * r.bandwidth)))}L{decimal(x(bend))} "
                    f"{decimal(y(min(r.flops, bend * r.bandwidth)))}L{decimal(left + wide)} {decimal(y(min(r.flops, 10.0**high * r.bandwidth)))}",
                },
                h("title", None, f"{r.target}: {_roof_title(r)}"),
            ),
            h(
                "text",
                {"x": left + wide + 6, "y": decimal(below), "class": "xl-axis"},
                r.target,
            ),
            h(
                "circle",
                {
                    "cx": decimal(x(here)),
                    "cy": decimal(y(reach)),
                    "r": 3.5,
                    "class": "xl-kernel-dot",
                },
                h(
                    "title",
                    None,
                    f"{r.target}: at most {significant(reach / 1e12)} TFLOP/s, bound by {by}",
                ),
            ),
        ]
    return h(
        "figure",
        {"class": "xl-kernel-roof"},
        h("figcaption", None, "TFLOP/s that each target could reach, over flops per byte moved"),
        svg(left + wide + 84, tall + 32, "roofline", parts),
    )


def _roof_title(r: Roofline) -> str:
    return f"{significant(r.flops / 1e12)} TFLOP/s, {significant(r.bandwidth / 1e9)} GB/s" + (
        f" ({r.note})" if r.note else ""
    )


def first_shown(run: KernelRun) -> int:
    """The step whose blocks a picture without a script shows: the first."""
    return next((e.step for e in run.blocks), 0)


def operand_figures(run: KernelRun, most: int = 12) -> list[Node]:
    """A picture per operand, inputs first."""
    by_name: dict[str, list[BlockVisit]] = {}
    for e in run.blocks:
        by_name.setdefault(e.operand, []).append(e)
    step = first_shown(run)
    return [
        operand_figure(o, by_name.get(o.name, []), step)
        for o in itertools.islice(run.operands, most)
    ]
