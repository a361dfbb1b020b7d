"""Indices into arrays as a chain of simple steps, each on the result of the one before.

A step reads from an array, and gives the array with another value in its place: a window, every so-many-th position of a dimension,
single positions, dimensions of size one that go. `NDIndexer.steps` (`indexers.py`) makes them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.lax.arithmetic import add, mul
from xlab.lax.arithmetic import min as lax_min
from xlab.lax.clamp import clamp
from xlab.lax.comparison import lt, select
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import full_like, iota
from xlab.lax.gather import GatherDimensionNumbers, gather
from xlab.lax.scatter_functions import ScatterDimensionNumbers, scatter, scatter_add
from xlab.lax.shape import broadcast_in_dim, concatenate, reshape
from xlab.lax.slicing import dynamic_slice, dynamic_update_slice
from xlab.lax.slicing import slice as lax_slice


def write_steps(x, steps, value, update):
    """The array with another value where the steps read, or with the value added there."""
    if not steps:
        return value if update == "set" else add(x, value)
    step, rest = steps[0], steps[1:]
    if isinstance(step, Points):
        return step.write(x, value, update)
    return step.write(
        x, write_steps(step.read(x), rest, value, update) if rest or update != "set" else value
    )


def as_position(i):
    """A position as an int32, which holds every position of a dimension; larger numbers stay outside."""
    if isinstance(i, int):
        return np.int32(i)
    dtype = aval_of(i).dtype
    limits = dtypes.iinfo(dtype)
    if limits.max > _LAST:
        i = clamp(np.asarray(max(limits.min, -_LAST), dtype), i, np.asarray(_LAST, dtype))
    return convert_element_type(i, np.int32)


_LAST = int(np.iinfo(np.int32).max)


class Window(NamedTuple):
    """A block without strides."""

    starts: Any
    sizes: tuple

    def read(self, x):
        if all(isinstance(s, int) for s in self.starts):
            return lax_slice(x, self.starts, [s + n for s, n in zip(self.starts, self.sizes)])
        return dynamic_slice(x, list(map(as_position, self.starts)), self.sizes)

    def write(self, x, value):
        if 0 in self.sizes:
            return x
        return dynamic_update_slice(x, value, list(map(as_position, self.starts)))


def window_of(s, n: int) -> tuple[Any, int]:
    """Start and size of the part of a dimension with every position of a slice; all of it where each position is moved inside."""
    if s.stride > 1 and s.size > 1 and not s.is_static:
        return 0, n
    return (s.start, (s.size - 1) * s.stride + 1) if s.size else (0, 0)


class Strided(NamedTuple):
    """Every `stride`-th position of one dimension, from a start that is a value of the program (else None, for 0) on."""

    dim: int
    size: int
    stride: int
    start: Any = None

    def places(self, n):
        places = mul(iota(np.int32, self.size), np.int32(self.stride))
        if self.start is not None:
            start = lax_min(as_position(self.start), np.int32(n))  # sums stay positive
            start = broadcast_in_dim(start, (self.size,), ())
            places = _wrapped(add(start, places), n)
        return reshape(places, (self.size, 1))

    def read(self, x):
        shape = aval_of(x).shape
        if self.start is not None:
            others = tuple(d for d in range(len(shape)) if d != self.dim)
            numbers = GatherDimensionNumbers(others, (self.dim,), (self.dim,))
            sizes = [1 if d == self.dim else n for d, n in enumerate(shape)]
            return gather(x, self.places(shape[self.dim]), numbers, sizes, mode="clip")
        return lax_slice(
            x,
            [0] * len(shape),
            shape,
            [self.stride if d == self.dim else 1 for d in range(len(shape))],
        )

    def write(self, x, value):
        shape = aval_of(x).shape
        others = tuple(d for d in range(len(shape)) if d != self.dim)
        numbers = ScatterDimensionNumbers(others, (self.dim,), (self.dim,))
        known = self.start is None
        return scatter(
            x,
            self.places(shape[self.dim]),
            value,
            numbers,
            indices_are_sorted=known,
            unique_indices=known,
        )


def _wrapped(i, n):
    """Positions, of which negative ones count from the end."""
    return select(lt(i, full_like(i, 0)), add(i, full_like(i, n)), i)


class Shaped(NamedTuple):
    """The dimensions of size one that integers left behind are gone."""

    shape: tuple

    def read(self, x):
        return reshape(x, self.shape)

    def write(self, x, value):
        return reshape(value, aval_of(x).shape)


class Points(NamedTuple):
    """Positions given by integer arrays, along some dimensions; `windows` are the result's dimensions for the others."""

    dims: list
    indices: list
    shape: tuple
    windows: list

    def places(self, x):
        columns = []
        for d, i in zip(self.dims, self.indices):
            i = as_position(i)
            if not isinstance(i, np.generic):
                i = _wrapped(i, aval_of(x).shape[d])
            ndim = aval_of(i).ndim
            i = broadcast_in_dim(i, self.shape, range(len(self.shape) - ndim, len(self.shape)))
            columns.append(reshape(i, (*self.shape, 1)))
        return concatenate(columns, len(self.shape)) if len(columns) > 1 else columns[0]

    def read(self, x):
        sizes = [1 if d in self.dims else n for d, n in enumerate(aval_of(x).shape)]
        numbers = GatherDimensionNumbers(tuple(self.windows), tuple(self.dims), tuple(self.dims))
        return gather(x, self.places(x), numbers, sizes, mode="clip")

    def write(self, x, value, update):
        numbers = ScatterDimensionNumbers(tuple(self.windows), tuple(self.dims), tuple(self.dims))
        return (scatter if update == "set" else scatter_add)(x, self.places(x), value, numbers)
