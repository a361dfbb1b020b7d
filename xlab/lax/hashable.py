"""Arrays and dictionaries as parameters of equations: hashable, and compared by value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


class HashableArray:
    """An array as a parameter of an equation: equal by dtype, shape and bytes, so that a NaN equals itself."""

    __slots__ = ("val",)

    def __init__(self, val: Any):
        self.val = np.array(val)
        self.val.flags.writeable = False

    def __eq__(self, other):
        return (
            type(other) is HashableArray
            and self.val.dtype == other.val.dtype
            and self.val.shape == other.val.shape
            and self.val.tobytes() == other.val.tobytes()
        )

    def __hash__(self):
        return hash((self.val.shape, self.val.dtype, self.val.tobytes()))

    def __repr__(self):
        return f"HashableArray({self.val!r})"


class FrozenDict:
    """A dict as a parameter of an equation."""

    __slots__ = ("items",)

    def __init__(self, items: Mapping):
        self.items = tuple(sorted(items.items()))

    def __eq__(self, other):
        return type(other) is FrozenDict and self.items == other.items

    def __hash__(self):
        return hash(self.items)

    def __repr__(self):
        return f"FrozenDict({dict(self.items)!r})"
