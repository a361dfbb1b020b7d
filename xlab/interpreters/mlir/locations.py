"""Texts of modules without their locations."""

from __future__ import annotations

import re

_LOCATION = re.compile(r' loc\("(?:[^"\\]|\\.)*;e\d+"(?:\(#\w+\))?\)$')


def strip_locations(text: str) -> str:
    """StableHLO text without locations, for reading."""
    return "\n".join(
        _LOCATION.sub("", line) for line in text.split("\n") if not line.startswith("#")
    )
