"""The first drawing of a view as a standalone SVG, for readers that show only images: GitHub, mail, slides.

It carries the styles it uses, in light colors on white.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from xlab.notebook import assets
from xlab.notebook.views.draw import Node, h, html
from xlab.notebook.views.page import HATCH

LARGEST = 60_000
"""Bytes of a drawing above which it is left to the page."""

GAP = 24

_CLASS = re.compile(r"\.([\w-]+)")
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_CONDITIONAL = re.compile(r"@[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")


def static_svg(tree: Node) -> str | None:
    """The first drawing of a picture, with those beside it; None where there is none, or a very large one.

    >>> tree = h("div", None, h("svg", {"width": 4, "height": 4}, h("rect", {"class": "xl-cell"})))
    >>> static_svg(tree).startswith("<svg xmlns='http://www.w3.org/2000/svg' width='4' height='4'")
    True
    >>> static_svg(h("p", None, "only words")) is None
    True
    """
    drawings = _first(tree)
    if not drawings:
        return None
    across, parts = 0.0, []
    for _, attributes, *children in drawings:
        parts.append(h("svg", {**attributes, "x": f"{across:g}"}, children))
        across += float(attributes["width"]) + GAP
    tall = max(float(attributes["height"]) for _, attributes, *_ in drawings)
    if any("xl-hatch" in node[1].get("class", "").split() for node in _nodes(parts)):
        parts = [*HATCH[2:], *parts]
    used = {name for node in _nodes(parts) for name in node[1].get("class", "").split()}
    size = {
        "xmlns": "http://www.w3.org/2000/svg",
        "width": across - GAP,
        "height": tall,
        "style": "background:#fff",
    }
    text = html(
        h("svg", size, h("style", None, assets.needed_colors(_styles(frozenset(used)))), parts)
    )
    return text if len(text) <= LARGEST else None


def _first(node: Any) -> list[Node]:
    """The first drawing in reading order, or all of the first pair or picture of several."""
    for found in _nodes([node]):
        if found[0] == "svg" and float(found[1].get("width", 0)):
            return [found]
        if {"xl-pair", "xl-picture"} & set(found[1].get("class", "").split()):
            drawings = [
                n for n in _nodes(found[2:]) if n[0] == "svg" and float(n[1].get("width", 0))
            ]
            if drawings:
                return drawings
    return []


def _nodes(nodes: list[Any]) -> Iterator[Node]:
    for node in nodes:
        if not isinstance(node, str):
            yield node
            yield from _nodes(node[2:])


@functools.lru_cache(64)
def _styles(used: frozenset[str]) -> str:
    """The colors by name, and the rules whose classes are all in use."""
    out = []
    for selectors, body in _RULE.findall(_CONDITIONAL.sub("", assets.styles())):
        if selectors.strip() == ".xl":
            out.append(
                "svg{" + ";".join(d for d in body.split(";") if d.strip().startswith("--")) + "}"
            )
        kept = [
            s.strip()
            for s in selectors.split(",")
            if ":" not in s
            and "[" not in s
            and (found := set(_CLASS.findall(s)) - {"xl"})
            and found <= used
        ]
        if kept:
            out.append(f"{','.join(s.removeprefix('.xl ') for s in kept)}{{{body}}}")
    return "".join(out)
