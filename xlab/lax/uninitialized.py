"""What memory holds before it is written: values that are easy to see in results, or zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab.config import config
from xlab.core import dtypes
from xlab.core.avals import ShapedArray
from xlab.lax.creation import full


def uninitialized_value(dtype: Any, memory: str | None = None) -> np.generic:
    """What an element of unwritten memory holds.

    Floating-point numbers are NaN (in formats that have none, what NaN is converted to), complex numbers NaN in both parts, integers
    the lowest they can be, booleans False. 16-bit signed integers are 0, since semaphores start there.

    Args:
        dtype: a dtype of numbers.
        memory: "nan" for the above, "zero" for zeros; by default the option `uninitialized_memory`.

    Example:
        >>> [uninitialized_value(d).item() for d in ("float32", "int8", "uint8", "int16", "bool")]
        [nan, -128, 0, 0, False]
        >>> uninitialized_value("float32", "zero").item()
        0.0
    """
    dtype = dtypes.to_dtype(dtype)
    if (memory or config.uninitialized_memory) == "zero" or dtype in (np.bool_, np.int16):
        return np.zeros((), dtype)[()]
    if dtypes.issubdtype(dtype, np.complexfloating):
        return dtype.type(complex(np.nan, np.nan))
    if dtypes.issubdtype(dtype, np.inexact):
        return np.asarray(np.nan).astype(dtype)[()]
    return np.asarray(dtypes.iinfo(dtype).min).astype(dtype)[()]


def uninitialized(aval: ShapedArray, memory: str | None = None):
    """An array of unwritten memory: `uninitialized_value` everywhere; keys are made of zeros."""
    if dtypes.is_extended(aval.dtype):
        return full(aval.shape, 0, aval.dtype)
    return full(aval.shape, uninitialized_value(aval.dtype, memory), aval.dtype)
