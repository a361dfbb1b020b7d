"""`PartitionSpec`: for each dimension of an array, the mesh axes it is sharded along."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from xlab.backend import shardings as _native
from xlab.errors import XlabError


class DuplicateSpecError(XlabError, ValueError):
    """A spec uses one mesh axis for two dimensions. Fix: each mesh axis may shard at most one dimension."""


class UnconstrainedSingleton:
    """The one value that leaves a dimension's sharding to the compiler."""

    _instance: UnconstrainedSingleton | None = None

    def __new__(cls) -> UnconstrainedSingleton:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> Any:
        return UnconstrainedSingleton, ()


UNCONSTRAINED = UnconstrainedSingleton()
_native.set_unconstrained(UNCONSTRAINED)


def _canonical(partition: Any) -> Any:
    if partition is None or partition is UNCONSTRAINED or isinstance(partition, str):
        return partition
    if isinstance(partition, (tuple, list)):
        axes = tuple(partition)
        if len(axes) > 1:
            return axes
        return axes[0] if axes else None
    return partition


class PartitionSpec:
    """The mesh axes along which each dimension of an array is sharded.

    Each entry is a mesh axis, a tuple of axes (the first varies slowest), None for a dimension that is not sharded, or
    `UNCONSTRAINED` to let the compiler choose. Missing entries are None.

    Args:
        unreduced: axes over which each device holds a summand still to be added up.
        reduced: axes over which the value is equal and its cotangent unreduced.

    Example:
        >>> spec = PartitionSpec("data", ("x", "y"))
        >>> spec[1], len(spec)
        (('x', 'y'), 2)
    """

    __slots__ = ("__weakref__", "_hash", "partitions", "reduced", "unreduced")
    UNCONSTRAINED = UNCONSTRAINED

    partitions: tuple[Any, ...]
    unreduced: frozenset
    reduced: frozenset
    _hash: int

    # All is made here, with no `__init__`: pickles made under JAX call no other.
    def __new__(
        cls,
        *partitions: Any,
        unreduced: Iterable[Any] = frozenset(),
        reduced: Iterable[Any] = frozenset(),
    ) -> PartitionSpec:
        self = object.__new__(cls)
        fix = object.__setattr__
        fix(self, "partitions", tuple([_canonical(p) for p in partitions]))
        fix(self, "unreduced", _axis_set("unreduced", unreduced))
        fix(self, "reduced", _axis_set("reduced", reduced))
        if self.unreduced or self.reduced:
            self._check_overlap()
        fix(self, "_hash", hash((self.partitions, self.unreduced, self.reduced)))
        return self

    def _check_overlap(self) -> None:
        named = frozenset(self.axes())
        for what, axes in (("unreduced", self.unreduced), ("reduced", self.reduced)):
            if named & axes:
                raise ValueError(
                    f"partitions cannot overlap with {what} axes passed to PartitionSpec. Got partitions: "
                    f"{self.partitions} and {what} axes: {set(axes)}. An axis either shards a dimension or is {what}."
                )
        if self.unreduced & self.reduced:
            raise ValueError(
                f"Axes {set(self.unreduced & self.reduced)} cannot be both unreduced and reduced."
            )

    def axes(self) -> Iterator[Any]:
        """Mesh axes in order of use, dimension by dimension."""
        for entry in self.partitions:
            if entry is None or entry is UNCONSTRAINED:
                continue
            if isinstance(entry, tuple):
                yield from entry
            else:
                yield entry

    def axes_of(self, dimension: int) -> tuple[Any, ...]:
        """Mesh axes that shard one dimension; none where the spec is shorter than the array's rank."""
        if dimension >= len(self.partitions):
            return ()
        entry = self.partitions[dimension]
        if entry is None or entry is UNCONSTRAINED:
            return ()
        return entry if isinstance(entry, tuple) else (entry,)

    def transposed(self) -> PartitionSpec:
        """The spec of the cotangent: unreduced and reduced axes change places."""
        return (
            self.update(unreduced=self.reduced, reduced=self.unreduced)
            if self.unreduced or self.reduced
            else self
        )

    def update(self, **changes: Any) -> PartitionSpec:
        """This spec with `partitions`, `unreduced` or `reduced` replaced."""
        partitions = changes.pop("partitions", self.partitions)
        fields = {"unreduced": self.unreduced, "reduced": self.reduced, **changes}
        return PartitionSpec(*partitions, **fields)

    def index(self, value: Any) -> int:
        return self.partitions.index(_canonical(value))

    def count(self, value: Any) -> int:
        return self.partitions.count(_canonical(value))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("PartitionSpec is immutable; make a new one, or use spec.update(...).")

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.partitions)

    def __getitem__(self, i: Any) -> Any:
        return self.partitions[i]

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            return PartitionSpec(*self, *other, unreduced=self.unreduced | other.unreduced,
                                 reduced=self.reduced | other.reduced)  # fmt: skip
        if isinstance(other, tuple):
            return self.update(partitions=self.partitions + other)
        return NotImplemented

    def __radd__(self, other: Any) -> PartitionSpec:
        return (
            self.update(partitions=other + self.partitions)
            if isinstance(other, tuple)
            else NotImplemented
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PartitionSpec):
            return False
        return (self._hash == other._hash and self.partitions == other.partitions
                and self.unreduced == other.unreduced and self.reduced == other.reduced)  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return _rebuild, (self.partitions, self.unreduced, self.reduced)

    def __repr__(self) -> str:
        inner = repr(self.partitions)[1:-1] if self.partitions else ""
        for what, axes in (("unreduced", self.unreduced), ("reduced", self.reduced)):
            if axes:
                listed = "{" + ", ".join(sorted(map(repr, axes))) + "}"
                inner = f"{inner.rstrip(',')}, {what}={listed}" if inner else f"{what}={listed}"
        return f"P({inner})"


def _rebuild(partitions: tuple, unreduced: frozenset, reduced: frozenset) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def _axis_set(what: str, axes: Any) -> frozenset:
    if isinstance(axes, str):
        raise TypeError(
            f"{what} must be a set of mesh axes, such as {what}={{{axes!r}}}; got the string {axes!r}."
        )
    found = frozenset(axes)
    if None in found:
        raise ValueError(
            f"{what} cannot contain None. All elements in {what} should refer to the mesh axes."
        )
    return found


P = PartitionSpec
