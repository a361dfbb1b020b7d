"""What the pictures of a notebook share: one style sheet, and short names for classes.

The script of the views stands in a few outputs of a notebook and not in each, and so do the styles of what no script has touched. The
others have a few lines of style, by which they are read where they stand alone, and what the sheet does not say. Classes are called by
their numbers in these pictures; the script gives them their names again, by the same list.
"""

from __future__ import annotations

import functools
import re
from string import ascii_uppercase

from xlab.notebook import assets
from xlab.notebook.views.draw import Node

KEPT = frozenset(("xl-report", "xl-panel"))
"""Classes that are looked for before there is a script, or that a host's page is asked for."""

_ALONE = (
    ":where(.xl){font:13px/1.45 system-ui,sans-serif;padding:10px 14px 0}"
    ":where(.xl table){border-collapse:collapse}"
    ":where(.xl td,.xl th){padding:2px 12px 2px 0;text-align:left;vertical-align:top}"
    ":where(.xl-cells td){border:1px solid}"
    ":where(.xl-numbers,.xl-pair,.xl-stack,.xl-legend,.xl-step-bar,.xl-step-legend,.xl-lane,.xl-track){display:flex;gap:16px}"
    ":where(.xl svg){max-width:100%;height:auto;overflow:visible;font:12px monospace;fill:currentColor}"
    ":where(.xl rect,.xl path){fill:#8793a044}"
    ":where(.xl g>rect,.xl-block>path,.xl-arrow>path,.xl line){stroke:#8793a0}"
    ":where(.xl-mid,.xl-bytes,.xl-block,.xl-devs){text-anchor:middle}"
    ":where(.xl-end){text-anchor:end}"
)
"""Styles of a picture that stands alone: all others count for more."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SHORT = re.compile(r"[A-Z][0-9a-z]")


@functools.lru_cache(16)
def numbered(tabs: frozenset[str]) -> dict[str, str]:
    """The short name of each class, a letter and a digit: the page of no host has such classes.

    >>> set(map(len, numbered(frozenset({"memory"})).values()))
    {2}
    """
    names = assets.class_names(tabs)
    short = (letter + digit for letter in ascii_uppercase for digit in _DIGITS)
    return {name: to for name, to in zip(names, short) if name not in KEPT}


def shortened(tree: Node, names: dict[str, str]) -> Node:
    """A tree with short names for its classes.

    >>> shortened(["p", {"class": "xl-dim n"}, "one"], {"xl-dim": "A1"})
    ['p', {'class': 'A1 n'}, 'one']
    """
    tag, attributes, *children = tree
    if "class" in attributes:
        called = [names.get(name, name) for name in attributes["class"].split()]
        attributes = {**attributes, "class": " ".join(called)}
    return [tag, attributes, *(c if isinstance(c, str) else shortened(c, names) for c in children)]


def can_be_short(used: frozenset[str]) -> bool:
    """Whether no class of a picture is called as the short ones are."""
    return not any(_SHORT.fullmatch(name) for name in used)


@functools.lru_cache(16)
def common_sheet(tabs: frozenset[str], rare: frozenset[str]) -> str:
    """The styles of all usual pictures, under the short names."""
    return _renamed(assets.sheet_of(assets.common_rules(tabs, rare)), tabs)


@functools.lru_cache(16)
def alone(tabs: frozenset[str]) -> str:
    """Some styles for where the sheet is not, under the short names."""
    return _renamed(_ALONE, tabs)


@functools.lru_cache(64)
def own_sheet(used: frozenset[str], tabs: frozenset[str], rare: frozenset[str]) -> str:
    """What a picture needs besides, under the short names."""
    common = frozenset(assets.common_rules(tabs, rare))
    own = [rule for rule in assets.rules_for(used) if rule not in common and rule[1] != ".xl"]
    return _renamed(assets.sheet_of(own), tabs)


def _renamed(sheet: str, tabs: frozenset[str]) -> str:
    names = numbered(tabs)
    return assets.CLASS.sub(lambda found: names.get(found[0], found[0]), sheet)
