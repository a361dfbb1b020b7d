"""Types for annotations: `ArrayLike` (what functions accept as an array), `DTypeLike` (what names a dtype).

Results are annotated with `xlab.Array`, which traced values are instances of as well.

Example:
    >>> def double(x: ArrayLike):
    ...     return x * 2
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from xlab.core.array import Array


class SupportsDType(Protocol):
    """Anything with a dtype."""

    @property
    def dtype(self) -> np.dtype: ...


ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
DTypeLike = str | type[Any] | np.dtype | SupportsDType

__all__ = ["ArrayLike", "DTypeLike"]
