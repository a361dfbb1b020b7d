"""Types for annotations: what functions accept as an array, as the name of a dtype, as a shape, as axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from xlab.core.array import Array as Array


class SupportsDType(Protocol):
    """Anything with a dtype."""

    @property
    def dtype(self) -> np.dtype: ...


ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
DTypeLike = str | type[Any] | np.dtype | SupportsDType
ShapeLike = int | Sequence[int]
AxisLike = int | Sequence[int]
