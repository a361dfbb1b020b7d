"""The first drawing of a view as a standalone SVG, for readers that show only images: GitHub, mail, slides.

It carries the styles it uses, in light colors on white, and nothing that only a page can show: a pointer's hints, names for scripts,
colors that a host may change.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from xlab.notebook import assets
from xlab.notebook.views.draw import Node, h, html, merged
from xlab.notebook.views.page import HATCH
from xlab.notebook.views.shared import shortened

LARGEST = 60_000
"""Bytes of a drawing above which it is left to the page."""

GAP = 24

_CLASS = re.compile(r"\.([\w-]+)")
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_CONDITIONAL = re.compile(r"@[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
_NAMED = re.compile(r"(?<=[{;])(--[\w-]+):([^;{}]*)")
_HOST = ("--jp-", "--vscode-")
_LIGHT, _DARK, _PATTERN = "--lt", "--dk", "--xl-hatch"
_POINTED = re.compile(r"(?<=[{;])(?:cursor|pointer-events|white-space):[^;{}]*;?")


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
        parts.append(merged(h("svg", {**attributes, "x": f"{across:g}"}, children)))
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
    names = {name: f"{n:x}".translate(_LETTERS) for n, name in enumerate(sorted(used))}
    sheet = _CLASS.sub(lambda m: f".{names.get(m[1], m[1])}", _styles(frozenset(used)))
    drawn = [shortened(node, names) for node in parts]
    text = html(h("svg", size, h("style", None, sheet), drawn))
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
    """The rules whose classes are all in use, with the colors and fonts themselves in the place of their names."""
    out = []
    sheet = _CONDITIONAL.sub("", assets.styles())
    names = _names(sheet)
    for selectors, body in _RULE.findall(sheet):
        kept = [
            s.strip()
            for s in selectors.split(",")
            if ":" not in s
            and "[" not in s
            and (found := set(_CLASS.findall(s)) - {"xl"})
            and found <= used
        ]
        inside = _POINTED.sub("", "{" + resolved(body, names))[1:]
        if kept and inside:
            out.append(f"{','.join(s.removeprefix('.xl ') for s in kept)}{{{inside}}}")
    return "".join(out)


def _names(sheet: str) -> dict[str, str]:
    """What the custom properties of a page are."""
    found: dict[str, str] = {}
    for selectors, body in _RULE.findall(sheet):
        if selectors.strip() == ".xl":
            found |= _NAMED.findall("{" + body)
    return found


def resolved(text: str, names: Mapping[str, str]) -> str:
    """Text of a style sheet with custom properties replaced by what they are on a light page that no host gives colors to.

    >>> resolved("fill:var(--a);color:var(--h,var(--jp-b,var(--a)))", {"--a": "var(--lt,#fff)var(--dk,#000)"})
    'fill:#fff;color:var(--h,#fff)'
    """
    before, found, rest = text.partition("var(")
    if not found:
        return text
    deep, end = 1, 0
    while deep:
        deep += {"(": 1, ")": -1}.get(rest[end], 0)
        end += 1
    name, _, other = rest[: end - 1].partition(",")
    if name == _DARK:
        value = ""
    elif name in (_LIGHT, _PATTERN) or name.startswith(_HOST):
        value = resolved(other, names)
    elif name in names:
        value = resolved(names[name], names)
    else:  # an element's own
        value = f"var({name}{',' * bool(other)}{resolved(other, names)})"
    return before + value + resolved(rest[end:], names)
