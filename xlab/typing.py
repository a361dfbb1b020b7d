"""Types for annotations: `ArrayLike` (what functions accept as an array), `DTypeLike` (what names a dtype).

Results are annotated with `xlab.Array`, which traced values are instances of as well.

Example:
    >>> def double(x: ArrayLike):
    ...     return x * 2
"""

from xlab.core.typing import ArrayLike, DTypeLike

__all__ = ["ArrayLike", "DTypeLike"]
