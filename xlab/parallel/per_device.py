"""Values of a `shard_map` body on every device: how they are read, compared and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlab.core.array import KeyArray, is_native_array
from xlab.core.trace import Tracer
from xlab.errors import TracerArrayConversionError
from xlab.interpreters.ad.jvp import JVPTracer
from xlab.sharding import Mesh

if TYPE_CHECKING:
    from xlab.parallel.by_operation import ShardMapTrace

SHOWN = 16
"""Parts of a value that are printed."""


class Part(NamedTuple):
    """What some devices hold: where along the mesh axes they are, and the value."""

    place: tuple[tuple[Any, int], ...]
    value: np.ndarray


class ShardMapTracer(Tracer):
    """A value of the body on every device. `value` is the array of all parts, or a value of the transformation around."""

    __slots__ = ("value",)
    _trace: ShardMapTrace
    runs_now = True

    def __init__(self, trace, value, aval):
        super().__init__(trace, aval)
        self.value = value

    def parts(self) -> list[Part] | None:
        """The parts of the devices of this process; None where a transformation around the body has no values."""
        return _parts(self.value, self._trace.axes_of(self.aval), self._trace.mesh)

    def known(self):
        parts = self.parts()
        if not parts or (len(parts) > 1 and not self._here() and self._trace.axes_of(self.aval)):
            return None
        first = parts[0].value
        return first if all(_same(first, p.value) for p in parts[1:]) else None

    def concrete(self):
        self._trace.looked()
        return self.known()

    def _here(self) -> bool:
        """Whether this process sees all parts."""
        value = self.value
        while isinstance(value, (ShardMapTracer, JVPTracer)):
            value = value.value if isinstance(value, ShardMapTracer) else value.primal
        return not is_native_array(value) or value.is_fully_addressable

    def disagreement(self):
        parts = self.parts()
        if parts is None:
            return None
        if not self._here():
            return (
                "only some of the devices are in this process, and its type says that they differ"
            )
        found: dict[str, list[str]] = {}
        for p in parts:
            found.setdefault(_brief(p.value), []).append(_place_text(p.place))
        return "the devices disagree: " + ", ".join(
            f"{text} at {', '.join(at[:4])}{f' and {len(at) - 4} more' if len(at) > 4 else ''}"
            for text, at in list(found.items())[:4]
        )

    def origin(self):
        return f"the body {self._trace.label}"

    def _plain(self):
        """The value for Python and NumPy, which have no derivatives; None where one could be lost."""
        value: Any = self.value
        while isinstance(value, ShardMapTracer):
            value = value.value
        return self.concrete() if not isinstance(value, Tracer) else None

    def _number(self, convert, name=None):
        value = self._plain()
        return super()._number(convert, name) if value is None else convert(value)

    def __array__(self, dtype=None, copy=None):
        value = self._plain()
        if value is None:
            self._refuse_disagreeing(TracerArrayConversionError, "one array for NumPy")
            super().__array__()
        return np.array(value, dtype, copy=copy)

    def __format__(self, spec):
        value = self._plain() if spec and not self.aval.shape else None
        return super().__format__(spec) if value is None else format(value.item(), spec)

    def __repr__(self):
        self._trace.looked()
        parts = self.parts()
        if parts is None:
            return f"ShardMapTracer({self.aval}, of a transformation around the body)"
        devices = _devices(self._trace.mesh)
        lines = [f"{_where(p.place, devices)}:\n{p.value}\n" for p in parts[:SHOWN]]
        if len(parts) > SHOWN:
            lines.append(f"and {len(parts) - SHOWN} more\n")
        return "\n".join(lines)


def _parts(value, axes, mesh) -> list[Part] | None:
    """Splits the leading dimension, which counts the devices along `axes`."""
    sizes = tuple(mesh.shape[n] for n in axes)

    def rows(outer, whole):
        return [
            Part((*outer, *zip(axes, map(int, np.unravel_index(i, sizes)))), row)
            for i, row in enumerate(whole)
        ]

    while isinstance(value, JVPTracer):
        value = value.primal
    if isinstance(value, ShardMapTracer):
        around = value.parts()
        return None if around is None else [r for p in around for r in rows(p.place, p.value)]
    if isinstance(value, Tracer):
        return None
    if isinstance(value, KeyArray):
        value = value.base
    if not is_native_array(value) or value.is_fully_addressable:
        return rows((), np.asarray(value))
    found = {s.index[0].start or 0: np.asarray(s.data) for s in value.addressable_shards}
    return [
        Part(tuple(zip(axes, map(int, np.unravel_index(i, sizes)))), row[0])
        for i, row in sorted(found.items())
    ]


def _same(a, b) -> bool:
    return a is b or bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def _brief(value) -> str:
    text = str(value).replace("\n", " ")
    return text if len(text) <= 40 else f"{text[:37]}..."


def _place_text(place) -> str:
    return ", ".join(f"{n}={i}" for n, i in place) or "all devices"


def _devices(mesh) -> tuple | None:
    return (mesh.axis_names, mesh.devices) if isinstance(mesh, Mesh) else None


def _where(place, devices) -> str:
    """Which devices hold a part, in words."""
    coordinates = ""
    if place:
        names, at = zip(*place)
        comma = "," if len(at) == 1 else ""
        coordinates = f" at mesh coordinates ({', '.join(map(str, names))}{comma}) = ({', '.join(map(str, at))}{comma})"
    if devices is None:
        return f"On each device{coordinates}"
    axis_names, grid = devices
    position = dict(place)
    held = grid[tuple(position.get(n, slice(None)) for n in axis_names)]
    held = list(held.flat) if isinstance(held, np.ndarray) else [held]
    named = [f"{d.platform}:{d.id}" for d in held]
    if len(named) > 4:
        return f"On {len(named)} devices, {named[0]} to {named[-1]}{coordinates}"
    return f"On {', '.join(named)}{coordinates}"
