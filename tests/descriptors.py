"""Whether a run closes what it opens (`-p tests.descriptors`): thousands of tests share one process and about a thousand descriptors."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path("/proc/self/fd")
KEPT = 24
"""Descriptors that stay without being lost: a compile worker's, a browser driver's, a terminal's."""


def descriptors() -> dict[str, str]:
    """What this process has open, by number; nothing on systems that do not say."""
    found = {}
    for entry in FOLDER.iterdir() if FOLDER.exists() else ():
        try:
            found[entry.name] = os.readlink(entry)
        except OSError:  # it was that of the listing
            continue
    return found


@pytest.fixture(scope="session", autouse=True)
def closed():
    """Fails the last test of a process that ends with many more descriptors than it began with."""
    before = descriptors()
    yield
    after = descriptors()
    new = Counter(what for number, what in after.items() if before.get(number) != what)
    assert len(after) <= len(before) + KEPT, (
        f"{len(before)} descriptors at the start, {len(after)} at the end; open: {new.most_common(8)}"
    )
