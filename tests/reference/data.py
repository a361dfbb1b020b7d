"""Arrays for tables: small, of every kind, the same on both sides.

Each module that asks has a sequence of its own, so its data do not depend on which tables were loaded before.
"""

from __future__ import annotations

import sys
import zlib
from functools import cache

import ml_dtypes
import numpy as np


@cache
def _of_module(name: str) -> np.random.RandomState:
    return np.random.RandomState(zlib.crc32(name.encode()))


def _random() -> np.random.RandomState:
    """The sequence of the module that called the caller."""
    return _of_module(sys._getframe(2).f_globals["__name__"])


def floats(*shape, dtype=np.float32, low=-2.0, high=2.0) -> np.ndarray:
    """Uniform numbers between `low` and `high`."""
    return _random().uniform(low, high, shape).astype(dtype)


def ints(*shape, dtype=np.int32, low=-9, high=10) -> np.ndarray:
    """Integers from `low` up to, not including, `high`."""
    return _random().randint(low, high, shape).astype(dtype)


def bools(*shape) -> np.ndarray:
    return _random().rand(*shape) < 0.5


def complexes(*shape) -> np.ndarray:
    random = _random()
    return (random.uniform(-2, 2, shape) + 1j * random.uniform(-2, 2, shape)).astype(np.complex64)


EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 3e38, -2.5, 0.5, 1.5], np.float32
)
EDGE_INTS = np.array([0, 1, -1, 2**31 - 1, -(2**31), 7, -7, 31, 32], np.int32)
BF16 = ml_dtypes.bfloat16
