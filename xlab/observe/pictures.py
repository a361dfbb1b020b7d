"""How a record comes to its picture: what draws registers here, and is loaded when the first picture is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_draw: dict[str, Callable[..., Any]] = {}
_load: list[Callable[[], Any]] = []


def load_by(load: Callable[[], Any]) -> None:
    """Install what imports the files that draw."""
    _load[:] = [load]


def set_picture(kind: str, draw: Callable[..., Any]) -> None:
    """Install what draws records: `axes` (matplotlib), `svg` or `graphviz`."""
    _draw[kind] = draw


def picture(kind: str) -> Callable[..., Any]:
    """The function that draws records as this kind of picture."""
    if kind not in _draw:
        for load in _load:
            load()
    return _draw[kind]
