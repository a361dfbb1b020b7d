"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def becomes(condition: Callable[[], object], seconds: float) -> bool:
    """Whether a condition holds within so many seconds; the wait ends as soon as it does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
