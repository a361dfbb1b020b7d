"""How the arrays of a pytree lie on devices: its structure, the spec of each leaf, and the bytes that each device holds."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.program import MeshInfo
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import plural, size_text, table


@record_type
class ShardingLeaf(Record):
    """One leaf: its path from the outside in, its type with the mesh axes that split it, and its bytes.

    `copies` devices hold each piece. `sharding` is said in words where no mesh is named, and of a sharding that has no array.
    """

    path: tuple[str, ...]
    type: str = ""
    sharding: str = ""
    copies: int = 1
    bytes_per_device: int = 0
    bytes_total: int = 0


@record_type
class ShardingTree(Record):
    """The leaves of a pytree in order; `devices` are `(id, bytes)`."""

    name: str = ""
    leaves: tuple[ShardingLeaf, ...] = ()
    mesh: MeshInfo | None = None
    devices: tuple[tuple[int, int], ...] = ()

    @property
    def sentence(self) -> str:
        """How many arrays, over which mesh, and how much a device holds."""
        parts = ["1 leaf" if len(self.leaves) == 1 else f"{len(self.leaves):,} leaves"]
        if self.mesh is not None:
            parts.append(f"over {self.mesh.text}")
        total = sum(leaf.bytes_total for leaf in self.leaves)
        if self.devices:
            most = max(size for _, size in self.devices)
            parts.append(f"{size_text(total)} in all")
            parts.append(f"a device holds {'at most ' if self.uneven else ''}{size_text(most)}")
        return ", ".join(parts)

    @property
    def uneven(self) -> bool:
        """Whether some devices hold more than others."""
        return len({size for _, size in self.devices}) > 1

    @property
    def repeated(self) -> int:
        """Bytes that stand on devices once more, for the leaves that several devices have whole or in part."""
        return sum(leaf.bytes_total * (leaf.copies - 1) for leaf in self.leaves)


class TreeRow(NamedTuple):
    """One line of the drawn tree: a leaf, or what holds leaves. `times` neighbors that are alike are one line."""

    depth: int
    label: str
    times: int
    leaf: ShardingLeaf | None
    bytes_per_device: int
    bytes_total: int


def rows(tree: ShardingTree) -> list[TreeRow]:
    """The tree line by line, outer ones first; neighbors that are alike but for their index or name are one.

    >>> layer = lambda i: ShardingLeaf(("layers", f"[{i}]", "w"), "f32[4@x,4]", "", 1, 32, 64)
    >>> [(r.depth, r.label, r.times, r.bytes_per_device) for r in rows(ShardingTree("", (layer(0), layer(1))))]
    [(0, 'layers', 1, 64), (1, '[0] … [1]', 2, 64), (2, 'w', 1, 32)]
    """
    out: list[TreeRow] = []
    _rows([(leaf.path, leaf) for leaf in tree.leaves], 0, out)
    return out


_Part = list[tuple[tuple[str, ...], ShardingLeaf]]


def _rows(part: _Part, depth: int, out: list[TreeRow]) -> None:
    children = [(label, list(found)) for label, found in groupby(part, lambda at: at[0][depth])]
    for _, alike in groupby(children, lambda child: _form(child[1], depth)):
        same = list(alike)
        (label, inside), times = same[0], len(same)
        if times > 1:
            label = f"{label} … {same[-1][0]}"
        each = sum(leaf.bytes_per_device for _, leaf in inside)
        total = sum(leaf.bytes_total for _, leaf in inside)
        ends = len(inside) == 1 and len(inside[0][0]) == depth + 1
        leaf = inside[0][1] if ends else None
        out.append(TreeRow(depth, label, times, leaf, each * times, total * times))
        if not ends:
            _rows(inside, depth + 1, out)


def _form(part: _Part, depth: int) -> Any:
    """What makes two branches alike: what they hold, without their own names."""
    return [
        (path[depth + 1 :], leaf.type, leaf.sharding, leaf.copies, leaf.bytes_per_device)
        for path, leaf in part
    ]


def _sharding_tree(tree: ShardingTree, o: Options) -> str:
    lines = []
    for r in rows(tree):
        name = "  " * r.depth + r.label + (f"  ×{r.times}" if r.times > 1 else "")
        what = (r.leaf.type + (f" {r.leaf.sharding}" if r.leaf.sharding else "")) if r.leaf else ""
        copies = plural(r.leaf.copies, "copy") if r.leaf and r.leaf.copies > 1 else ""
        sizes = (
            (f"{size_text(r.bytes_per_device)} each", size_text(r.bytes_total))
            if r.bytes_total
            else ("", "")
        )
        lines.append((name, what.strip(), *sizes, copies))
    head = f"{tree.name}: {tree.sentence}" if tree.name else tree.sentence
    more = f"\n  copies take {size_text(tree.repeated)} more" if tree.repeated else ""
    return head + more + ("\n" + table(lines) if lines else "")


add_form(ShardingTree, _sharding_tree)
