"""The type of one example of a batch, and of a batch of examples."""

from __future__ import annotations

from typing import Any

from xlab.core.avals import AbstractValue, ShapedArray
from xlab.errors import BatchSizeError


def mapped_aval(size: int, axis: int | None, aval: AbstractValue) -> AbstractValue:
    """The type of one example of a batch along `axis`.

    Raises:
        TypeError: `aval` is no type of values.
        ValueError: it has no dimension `axis`, or that is of another size.

    Example:
        >>> import numpy as np
        >>> print(mapped_aval(3, 0, ShapedArray((3, 2), np.float32)))
        float32[2]
    """
    if not isinstance(aval, AbstractValue):
        raise TypeError(
            f"mapped_aval takes a type of values, got {aval!r} of type {type(aval).__name__}"
        )
    if axis is None or not isinstance(aval, ShapedArray):
        return aval
    if not -aval.ndim <= axis < aval.ndim:
        raise ValueError(
            f"there are no {size} examples along axis {axis} of {aval}: it has {aval.ndim} dimensions"
        )
    if aval.shape[axis] != size:
        raise BatchSizeError(
            f"a batch of {size} examples along axis {axis} was expected, got {aval}"
        )
    return aval.update(shape=(*aval.shape[:axis], *aval.shape[axis:][1:]))


def unmapped_aval(
    size: int, axis: int | None, aval: AbstractValue, explicit_mesh_axis: Any = None
) -> AbstractValue:
    """The type of a batch along `axis` of examples of a type.

    Example:
        >>> import numpy as np
        >>> print(unmapped_aval(3, 0, ShapedArray((2,), np.float32)))
        float32[3,2]
    """
    if axis is None or not isinstance(aval, ShapedArray):
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))
