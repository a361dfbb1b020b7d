"""Texts of modules without their locations."""

from __future__ import annotations

import re

_LOCATION = r' loc\("(?:[^"\\]|\\.)*;e\d+"(?:\(#\w+\))?\)$'


def strip_locations(text: str) -> str:
    """StableHLO text without locations, for reading."""
    cut = re.compile(_LOCATION).sub
    return "\n".join(cut("", line) for line in text.split("\n") if not line.startswith("#"))
