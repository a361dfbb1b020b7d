"""A pytree on devices: its structure with the spec of each leaf, and what each device holds of it."""

from __future__ import annotations

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, decimal, h, panel, table, unshown, warning
from xlab.notebook.views.live import devices_table
from xlab.observe.records.sharding_tree import ShardingTree, TreeRow, rows
from xlab.observe.records.units import plural, size_text

MOST_ROWS = 400
LARGE = 0.05
"""Share of what a device holds from which a leaf that all devices have whole is worth a sign."""


def _size(size: int) -> Node:
    return h("td", {"class": "n", "title": f"{size:,} B"}, size_text(size) if size else "")


def _row(r: TreeRow, most: int) -> Node:
    leaf = r.leaf
    whole = leaf is not None and leaf.copies > 1
    heavy = whole and r.bytes_per_device > LARGE * most
    return h(
        "tr",
        None,
        h(
            "td",
            {"style": f"padding-left:{8 + 18 * r.depth}px"},
            h("code", None, r.label),
            h("small", None, f"  ×{r.times}") if r.times > 1 else None,
        ),
        h("td", None, h("code", None, f"{leaf.type} {leaf.sharding}".strip()) if leaf else None),
        _size(r.bytes_per_device),
        h(
            "td",
            {"class": "xl-live-share"},
            h(
                "span",
                {"class": "xl-track"},
                h(
                    "span",
                    {
                        "class": "xl-bar xl-part-arguments",
                        "style": f"left:0;width:{decimal(100 * r.bytes_per_device / max(1, most))}%",
                    },
                ),
            ),
        ),
        _size(r.bytes_total),
        h(
            "td",
            {"class": "xl-caution" if heavy else "xl-dim"},
            ("⚠ " if heavy else "") + plural(leaf.copies, "copy") if leaf and whole else None,
        ),
    )


def tree_panel(tree: ShardingTree) -> Node:
    """The sentence, the tree, and the devices where they hold different amounts."""
    found = rows(tree)
    most = max((size for _, size in tree.devices), default=0)
    left = len(found) - MOST_ROWS
    return panel(
        "sharding-tree",
        "Pytree",
        h("p", {"class": "xl-sentence"}, h("strong", None, tree.name), f"  {tree.sentence}"),
        warning(
            f"copies take {size_text(tree.repeated)} more: a leaf with copies can be split over the axes that its type does not name"
        )
        if tree.repeated > LARGE * sum(size for _, size in tree.devices)
        else None,
        h(
            "div",
            {"class": "xl-scroll"},
            table(
                (
                    ("leaf", ""),
                    ("type", ""),
                    ("each device", "n"),
                    ("", ""),
                    ("in all", "n"),
                    ("", ""),
                ),
                [_row(r, most) for r in found[:MOST_ROWS]],
                "xl-live-arrays",
            ),
        ),
        unshown(left, "more line"),
        devices_table(tree.devices) if tree.uneven else None,
    )


class ShardingTreeView(View):
    """The arrays of a pytree on devices.

    >>> ShardingTreeView().title(ShardingTree("params"))
    'params'
    """

    name = "sharding_tree"
    record_type = ShardingTree
    height = 480
    scripted = False

    def title(self, record: ShardingTree) -> str:
        """Its name."""
        return record.name or "pytree"

    def tree(self, record: ShardingTree) -> Node:
        """The tree, line by line."""
        return h("article", {"class": "xl xl-report"}, tree_panel(record))
