"""Pictures as plain trees: written once in Python, printed as HTML for a saved page, built as nodes in a live one.

A node is `[tag, attributes, *children]`; a child is a node or a str. Text never becomes markup: `html` escapes it, the
page's `build` puts it in with `textContent`.

>>> html(h("p", {"class": "a"}, "1 < 2", h("b", None, "!")))
"<p class='a'>1 &lt; 2<b>!</b></p>"
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from xlab.observe.records.units import plural

Node = list[Any]

LONGEST = 2000
"""Characters of one piece of text that a picture shows; the rest is counted, and kept whole in the records."""

HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""One hue per mesh axis, in an order that stays apart under color-blindness (Okabe and Ito)."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udfff]"
)
_EMPTY = frozenset(("rect", "path", "circle", "line"))
_VOID = frozenset(("br", "hr", "img", "input", "meta", "link", "col"))
_CLOSED_BY_NEXT = frozenset(("td", "th", "tr", "thead", "tbody", "li"))
"""Elements that HTML ends where the next one begins, or where what they stand in ends."""
_BARE = re.compile(r"[\w.,:;%#()+*-]+", re.ASCII)
"""Values that HTML reads as they are without quotes."""
_ESCAPE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"})
_ESCAPE_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;"})


DRAWN = frozenset(("d", "points"))
"""Attributes that hold a drawing of ours: they are as long as it is."""


def clean(text: str, longest: int = LONGEST) -> str:
    """Make text safe to display: control and bidirectional characters become visible, long text is cut with a note.

    >>> clean("a\\u202eb"), clean("x" * 12, 4)
    ('a⟨U+202E⟩b', 'xxxx … 8 more characters')
    """
    if len(text) > longest:
        text = f"{text[:longest]} … {len(text) - longest:,} more characters"
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(lambda m: f"⟨U+{ord(m[0]):04X}⟩", text)


def clean_json(value: Any) -> Any:
    """Clean every str inside lists and dicts that go to the page as data."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {k: clean_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_json(v) for v in value]
    return value


def finite(x: float | None) -> float | None:
    """A number as the page's data has it: None for what is unknown, infinite or NaN, which JSON has no words for."""
    return x if x is not None and math.isfinite(x) else None


def h(tag: str, attributes: dict[str, Any] | None = None, *children: Any) -> Node:
    """Return a node. Attributes that are None are left out; children may be nodes, text, numbers, None or lists of them."""
    kept = {
        k: (clean(v) if k not in DRAWN else v) if isinstance(v, str) else str(v).removesuffix(".0")
        for k, v in (attributes or {}).items()
        if v is not None
    }
    node: Node = [tag, kept]
    _extend(node, children)
    return node


class Drawn(list[Any]):
    """A node that stands in a saved page as another, which is shorter: there the script draws it again."""

    def __init__(self, node: Node, saved: Node):
        super().__init__(node)
        self.saved = saved


def saved_form(tree: Node) -> Node:
    """A tree as it stands in a saved page.

    >>> saved_form(h("div", None, Drawn(h("svg"), h("table"))))
    ['div', {}, ['table', {}]]
    """
    if isinstance(tree, Drawn):
        return saved_form(tree.saved)
    return [*tree[:2], *(c if isinstance(c, str) else saved_form(c) for c in tree[2:])]


ALIKE = frozenset(("xl-block", "xl-arrow", "xl-dev"))
"""Groups of a drawing that never lie on one another."""


def merged(node: Node) -> Node:
    """A drawing without what is for pointers and scripts; groups that are alike are one, and in it paths that are alike.

    >>> one, two = (h("g", {"class": "xl-block", "data-dev": n}, h("path", {"d": f"M{n},0h9"}), h("text", None, n)) for n in (1, 2))
    >>> html(merged(h("svg", None, one, two)))
    "<svg><g class='xl-block'><path d='M1,0h9M2,0h9'/><text>1</text><text>2</text></g></svg>"
    """
    tag, attributes, *children = node
    kept = {k: v for k, v in attributes.items() if not k.startswith("data-")}
    inside: list[Any] = []
    for child in children:
        if isinstance(child, str) or child[0] == "title":
            inside += [child] if isinstance(child, str) else []
            continue
        made = merged(child)
        last = inside[-1] if inside else ""
        if made[0] == "g" and made[1].get("class") in ALIKE and last and last[:2] == made[:2]:
            last += made[2:]
        else:
            inside.append(made)
    return [tag, kept, *(_joined(x) if x[0] == "g" else x for x in inside)]


def _joined(group: Node) -> Node:
    """A group of what is alike, its paths of one look as one path, behind all else."""
    if group[1].get("class") not in ALIKE:
        return group
    paths: dict[tuple, list[str]] = {}
    others = []
    for child in group[2:]:
        if child[0] == "path":
            look = tuple((k, v) for k, v in child[1].items() if k != "d")
            paths.setdefault(look, []).append(child[1]["d"])
        else:
            others.append(child)
    made = [["path", {"d": "".join(d), **dict(look)}] for look, d in paths.items()]
    return [*group[:2], *made, *others]


def _extend(node: Node, children: Iterable[Any]) -> None:
    for child in children:
        if child is None:
            continue
        if isinstance(child, list):
            if len(child) > 1 and isinstance(child[1], dict):
                node.append(child)
            else:
                _extend(node, child)
        else:
            node.append(clean(str(child)))


def escape(text: str) -> str:
    """Escape text for HTML content and quoted attributes."""
    return text.translate(_ESCAPE)


def escape_text(text: str) -> str:
    """Escape text for the content of an element: quotes and `>` end nothing there, but for XML's `]]>`.

    >>> escape_text("a < b > 'c' & d]]>")
    "a &lt; b > 'c' &amp; d]]&gt;"
    """
    return text.translate(_ESCAPE_TEXT).replace("]]>", "]]&gt;")


def html(node: Node | str) -> str:
    """Print a tree as HTML; attributes stand in single quotes, so that a page inside `srcdoc` stays short."""
    out: list[str] = []
    _print(node, out.append, False)
    return "".join(out)


def lean_html(node: Node | str) -> str:
    """Print the same tree as HTML without the quotes and end tags that HTML can do without. It is no XML.

    >>> lean_html(h("tr", {"class": "a b", "title": ""}, h("td", {"class": "n"}, "1 < 2")))
    "<tr class='a b' title><td class=n>1 &lt; 2"
    """
    out: list[str] = []
    _print(node, out.append, True)
    return "".join(out)


def _print(node: Node | str, put: Any, lean: bool) -> None:
    if isinstance(node, str):
        put(escape_text(node))
        return
    tag, attributes, *children = node
    put(f"<{tag}")
    bare = False
    for name, value in attributes.items():
        bare = lean and _BARE.fullmatch(value) is not None
        put(
            f" {name}={value}"
            if bare
            else f" {name}='{escape(value)}'"
            if value or not lean
            else f" {name}"
        )
    if tag in _EMPTY and not children:
        put(" />" if bare else "/>")  # a value without quotes would take the slash
        return
    put(">")
    if tag in _VOID:
        return
    for child in children:
        _print(child, put, lean)
    if not (lean and tag in _CLOSED_BY_NEXT):
        put(f"</{tag}>")


def decimal(x: float, digits: int = 1) -> str:
    """A number of a drawing, with as many digits behind the point as it needs.

    >>> decimal(62.0), decimal(45.44), decimal(100 / 3, 2)
    ('62', '45.4', '33.33')
    """
    return f"{x:.{digits}f}".rstrip("0").removesuffix(".") if digits else f"{x:.0f}"


def tags_and_classes(tree: Node | str) -> Iterator[str]:
    """What rules of style can name of a tree."""
    if isinstance(tree, str):
        return
    yield tree[0]
    yield from str(tree[1].get("class") or "").split()
    for child in tree[2:]:
        yield from tags_and_classes(child)


def key(program: int, equation: int) -> str | None:
    """The selection key of an equation, `program:equation`; None when there is no equation."""
    return f"{program}:{equation}" if equation >= 0 else None


def warning(*text: Any) -> Node:
    """A warning: sign, word, text."""
    return h("p", {"class": "xl-warn"}, h("b", None, "⚠ warning "), *text)


def unshown(count: int, noun: str, rest: str = "") -> Node | None:
    """A quiet line for what is not drawn; nothing where all of it is.

    >>> html(unshown(3, "more row", " not drawn")), unshown(0, "more row")
    ("<p class='xl-dim'>3 more rows not drawn</p>", None)
    """
    return h("p", {"class": "xl-dim"}, plural(count, noun) + rest) if count > 0 else None


def panel(name: str, title: str, *children: Any) -> Node:
    """One tab's content; without a script all panels stand one under the other."""
    return h(
        "section",
        {"class": f"xl-panel xl-{name}", "data-tab": name, "aria-label": title},
        h("h2", {"class": "xl-panel-title"}, title),
        *children,
    )


def table(head: Iterable[tuple[str, str]], rows: Iterable[Node], name: str = "") -> Node:
    """A table; `head` is `(title, class)` per column, class `n` for numbers."""
    return h(
        "table",
        {"class": f"xl-table {name}".strip()},
        h(
            "thead",
            None,
            h("tr", None, *(h("th", {"class": c or None}, t) for t, c in head)),
        ),
        h("tbody", None, *rows),
    )
