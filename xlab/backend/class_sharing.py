"""Methods on native classes that this process may share with JAX.

The native array and sharding classes exist once per process. A member that we set on them dispatches on the object:
ours for our objects, the previous one for all others. While JAX is not imported our function is installed directly,
so that there is no cost for sharing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xlab.backend import import_guard
from xlab.backend.native import give_up_state, neighbor_present

_ABSENT = object()
_entries: dict[tuple[type, str], _Entry] = {}


def install(cls: type, members: Mapping[str, Any], is_ours: Callable[[Any], bool]) -> None:
    """Sets methods, properties and plain values on `cls` for the objects `is_ours` accepts.

    Plain values (`__array_priority__`) cannot decide by object: they are set only where nothing is set.
    """
    for name, ours in members.items():
        entry = _entries.get((cls, name))
        if entry is None:
            entry = _entries[cls, name] = _Entry(cls, name)
        entry.ours, entry.is_ours = ours, is_ours
        entry.install()


class _Entry:
    """One attribute of one class: ours, the other owner's, and what is installed."""

    __slots__ = ("cls", "installed", "is_ours", "name", "ours", "previous")

    def __init__(self, cls: type, name: str):
        self.cls, self.name = cls, name
        self.previous = self.installed = _ABSENT

    def install(self) -> None:
        current = vars(self.cls).get(self.name, _ABSENT)
        if current is not self.installed:
            self.previous = current
        if not _is_descriptor(self.ours):
            if self.previous is _ABSENT:
                self._set(self.ours)
        elif self.previous is _ABSENT and not neighbor_present():
            self._set(self.ours)
        elif isinstance(self.ours, property) or not callable(self.ours):
            self._set(_choosing_property(self))
        else:
            self._set(_choosing_method(self))

    def _set(self, value: Any) -> None:
        self.installed = value
        setattr(self.cls, self.name, value)

    def other_side(self) -> Any:
        """The attribute for objects that are not ours: the previous value, or the inherited one."""
        if self.previous is not _ABSENT:
            return self.previous
        for base in self.cls.__mro__[1:]:
            if self.name in vars(base):
                return vars(base)[self.name]
        return _ABSENT


def _is_descriptor(value: Any) -> bool:
    return callable(value) or hasattr(type(value), "__get__")


def _choosing_method(entry: _Entry) -> Any:
    ours, is_ours, cls, name = entry.ours, entry.is_ours, entry.cls, entry.name
    other = entry.other_side()
    if other is _ABSENT:
        other = _missing(cls, name)
    elif not callable(other) or isinstance(other, (staticmethod, classmethod)):
        other = _through_descriptor(other, cls)

    def method(self, *args, **kwargs):
        if is_ours(self):
            return ours(self, *args, **kwargs)
        return other(self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"{cls.__name__}.{name}"
    method.__doc__ = getattr(ours, "__doc__", None)
    return method


def _choosing_property(entry: _Entry) -> property:
    is_ours, cls, name = entry.is_ours, entry.cls, entry.name
    ours, other = entry.ours, entry.other_side()

    def read(self):
        if is_ours(self):
            return ours.__get__(self, cls)
        if other is _ABSENT:
            raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")
        return other.__get__(self, cls) if hasattr(type(other), "__get__") else other

    return property(read, doc=getattr(ours, "__doc__", None))


def _through_descriptor(other: Any, cls: type) -> Callable:
    def call(self, *args, **kwargs):
        value = other.__get__(self, cls) if hasattr(type(other), "__get__") else other
        return value(*args, **kwargs)

    return call


def _missing(cls: type, name: str) -> Callable:
    def call(self, *args, **kwargs):
        if name.startswith("__") and len(args) == 1:
            return NotImplemented
        raise TypeError(f"{cls.__name__!r} object has no {name}")

    return call


def _reinstall() -> None:
    give_up_state()
    for entry in tuple(_entries.values()):
        entry.install()


import_guard.after_neighbor(_reinstall)
