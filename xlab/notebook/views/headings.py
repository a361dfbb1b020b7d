"""The headings of calls as every view draws them: a name that leads to the program, and a word for the pass."""

from __future__ import annotations

from xlab.notebook.views.draw import Node, h
from xlab.observe.records.structure import Place


def call_key(program: int, place: Place) -> str:
    """By what pages know a call in one of its passes; without the letter, it is the call in both.

    >>> call_key(0, Place(5, True)), call_key(1, Place(2, False))
    ('0:5b', '1:2f')
    """
    return f"{program}:{place.call}{'b' if place.backward else 'f'}"


def pass_node(word: str) -> Node | None:
    """The word behind a call's name."""
    return h("span", {"class": "xl-way"}, word) if word else None
