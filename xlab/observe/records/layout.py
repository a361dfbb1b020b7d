"""How an array lies on devices."""

from __future__ import annotations

from collections.abc import Iterable

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.program import MeshInfo, Type
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import plural, size_text


@record_type
class Block(Record):
    """What one device holds: `slices` is `(start, stop)` per dimension; equal slices have `copy` 0, 1, 2, …"""

    device: int
    slices: tuple[tuple[int, int], ...]
    copy: int = 0


@record_type
class ArrayLayout(Record):
    """The layout of an array on devices: its type, mesh, and one block per device.

    `blocks` has one entry per device in mesh order; `copies` devices hold each piece. `role` is `argument`, `output`,
    `intermediate` or empty. `order` are its dimensions in memory, from minor to major. `why` has a chain of steps per mesh axis, earliest first. `equation` made the value.
    """

    name: str
    type: Type
    mesh: MeshInfo | None = None
    shard_shape: tuple[int, ...] = ()
    blocks: tuple[Block, ...] = ()
    copies: int = 1
    bytes_per_device: int = 0
    bytes_total: int = 0
    committed: bool = False
    memory_kind: str = ""
    role: str = ""
    why: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    equation: int = -1
    program: int = 0
    order: tuple[int, ...] = ()

    @property
    def transposed(self) -> bool:
        """Whether it lies in memory in another order than row after row."""
        return bool(self.order) and self.order != tuple(reversed(range(len(self.order))))


def places(
    layout: ArrayLayout,
) -> tuple[list[list[tuple[int, int]]], dict[tuple[int, ...], list[int]]]:
    """Return the distinct `(start, stop)` cuts per dimension, and the devices at each index of cuts.

    >>> l = ArrayLayout("x", Type("f32", (4,)), blocks=(Block(0, ((0, 2),)), Block(1, ((2, 4),))))
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


def layout_line(layout: ArrayLayout) -> str:
    """One sentence: type, mesh, shard, copies, bytes.

    >>> layout_line(ArrayLayout("x", Type("f32", (8,)), bytes_per_device=32, bytes_total=32))
    'x: f32[8] on one device, 32 B'
    """
    return layout_lines([layout])[0]


def layout_lines(layouts: Iterable[ArrayLayout]) -> list[str]:
    """A sentence of each layout; those of which the same is true share theirs.

    >>> x = ArrayLayout("x", Type("f32", (8,)), bytes_per_device=32, bytes_total=32)
    >>> layout_lines([x, x.replace(name="w", bytes_total=64), x.replace(name="y")])
    ['x, y: f32[8] on one device, 32 B', 'w: f32[8] on one device, 64 B']
    """
    named: dict[str, list[str]] = {}
    for layout in layouts:
        named.setdefault(layout.type.text + place_text(layout), []).append(layout.name)
    return [
        (f"{', '.join(filter(None, names))}: " if any(names) else "") + what
        for what, names in named.items()
    ]


def place_text(layout: ArrayLayout) -> str:
    """Where it lies: what follows the type in its sentence."""
    mesh = layout.mesh
    if mesh is None or mesh.size == 1:
        known = layout.blocks and layout.role in ("", "argument")
        line = f" on device {layout.blocks[0].device}" if known else " on one device"
        line += f", {size_text(layout.bytes_total)}" if layout.bytes_total else ""
        return line + (", uncommitted" if known and not layout.committed else "") + _memory(layout)
    shard = f"{layout.type.dtype}[{','.join(map(str, layout.shard_shape))}]"
    line = f" over {mesh.text}: shard {shard}, {plural(layout.copies, 'copy')}"
    if layout.bytes_per_device:
        line += f", {size_text(layout.bytes_per_device)} per device, {size_text(layout.bytes_total)} in all"
    return line + _memory(layout)


def _memory(layout: ArrayLayout) -> str:
    """In which memory and in which order, where these are not the usual ones."""
    text = ""
    if layout.memory_kind not in ("", "device", "unpinned_host"):
        text += f", in {layout.memory_kind}"
    if layout.transposed:
        text += f", dimensions {', '.join(map(str, layout.order))} from minor to major"
    return text


def _layout(layout: ArrayLayout, o: Options) -> str:
    lines = [layout_line(layout)]
    if len(layout.blocks) > 1:
        lines += _block_drawing(layout)
    if layout.why:
        lines += [("       " if i else "  why: ") + chain for i, chain in enumerate(layout.why)]
    lines += [f"  warning: {w}" for w in layout.warnings]
    return "\n".join(lines)


def _block_drawing(layout: ArrayLayout) -> list[str]:
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


add_form(
    Block,
    lambda b, o: (
        f"device {b.device}: [{', '.join(f'{s}:{e}' for s, e in b.slices)}]"
        + (f" copy {b.copy}" if b.copy else "")
    ),
)
add_form(ArrayLayout, _layout)
