"""Which device holds which slice, computed from the spec alone."""

from __future__ import annotations

import math
from typing import Any

from xlab.errors import IndivisibleError

Index = tuple[slice, ...]


def factors(spec: Any, mesh: Any, ndim: int) -> tuple[int, ...]:
    """Into how many parts each dimension is sharded."""
    sizes = mesh.shape
    return tuple(math.prod([sizes[a] for a in spec.axes_of(d)]) for d in range(ndim))


def check_rank(spec: Any, shape: tuple[int, ...], what: str) -> None:
    """Raises if a spec names more dimensions than there are."""
    if len(spec) > len(shape):
        raise ValueError(
            f"{what} is only valid for values of rank at least {len(spec)}, but was applied to a value of rank "
            f"{len(shape)} (shape {shape}). Give one entry per dimension at most."
        )


def shard_shape(spec: Any, mesh: Any, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """The shape of one device's part; raises `IndivisibleError` where parts would differ."""
    check_rank(spec, shape, what)
    out = list(shape)
    sizes = mesh.shape
    for d in range(len(spec)):
        axes = spec.axes_of(d)
        if not axes:
            continue
        parts = math.prod([sizes[a] for a in axes])
        whole, rest = divmod(shape[d], parts)
        if rest:
            raise _indivisible(what, shape, d, axes, parts, sizes)
        out[d] = whole
    return tuple(out)


def _indivisible(
    what: str, shape: tuple[int, ...], d: int, axes: tuple, parts: int, sizes: Any
) -> IndivisibleError:
    named = ", ".join(f"{a!r} of size {sizes[a]}" for a in axes)
    fitting = [a for a, s in sizes.items() if s > 1 and shape[d] % s == 0]
    padded = -(-shape[d] // parts) * parts
    other = f"use an axis that divides it ({', '.join(map(repr, fitting))}), " if fitting else ""
    return IndivisibleError(
        f"Sharding {what} implies that array axis {d} is partitioned {parts} times (mesh axis {named}), but the "
        f"dimension size is {shape[d]} (full shape: {shape}). Try: {other}pad the dimension to {padded}, or leave it "
        "unsharded (None)."
    )


def coordinates(position: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The coordinates in the mesh of the device at a flat position."""
    out = []
    for size in reversed(sizes):
        position, at = divmod(position, size)
        out.append(at)
    return tuple(reversed(out))


def indices(spec: Any, mesh: Any, shape: tuple[int, ...], what: str) -> list[Index]:
    """The slice each device holds, in the mesh's device order."""
    part = shard_shape(spec, mesh, shape, what)
    names, sizes = mesh.axis_names, mesh.axis_sizes
    splits = []
    for d in range(len(shape)):
        axes = spec.axes_of(d)
        splits.append([(names.index(a), sizes[names.index(a)]) for a in axes])
    everything = slice(None)
    out = []
    for position in range(math.prod(sizes)):
        at = coordinates(position, sizes)
        index = []
        for d, split in enumerate(splits):
            if part[d] == shape[d] and math.prod([s for _, s in split]) == 1:
                index.append(everything)
                continue
            block = 0
            for axis, size in split:
                block = block * size + at[axis]
            index.append(slice(block * part[d], (block + 1) * part[d]))
        out.append(tuple(index))
    return out
