"""What every record is: a frozen dataclass that turns into JSON and back, has a schema number, and shows itself by its text form.

The nouns are in `records.py` and in files of their own; this file knows none of them.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

SCHEMA = 1
T = TypeVar("T")

_classes: dict[str, type[Record]] = {}
_defaults: dict[str, tuple[tuple[str, Any], ...]] = {}
_text_form: list[Callable[[Record], str]] = []


def set_text_form(form: Callable[[Record], str]) -> None:
    """Install the function that gives every record its `repr`; `text.py` does so when imported."""
    _text_form[:] = [form]


class Record:
    """Base of every record: `to_json`, `from_json`, a schema number, and the text form as `repr`."""

    __slots__ = ()
    schema: ClassVar[int] = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists; a field that equals its default is left out.

        >>> from xlab.observe.records import Value
        >>> Value("x", "f32[]", mean=float("nan")).to_json()
        {'record': 'Value', 'name': 'x', 'type': 'f32[]', 'mean': {'float': 'nan'}, 'schema': 1}
        """
        return {**_encode(self), "schema": self.schema}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Any:
        """Rebuild the record that `to_json` wrote; ValueError for what is none, or of a newer schema."""
        if not isinstance(data, dict) or _class(data.get("record")) is None:
            raise ValueError(f"expected a dict with 'record' set to one of {', '.join(sorted(_classes))}; "
                             f"given {str(data)[:80]!r}. Pass what Record.to_json() returned.")
        if data.get("schema", SCHEMA) > SCHEMA:
            raise ValueError(f"this file has record schema {data['schema']}, this xlab reads up to {SCHEMA}; upgrade xlab to open it.")
        return _decode(data)

    def replace(self, **changes: Any) -> Any:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def plot(self, ax: Any = None) -> Any:
        """Draw a report's phases, a program's memory, a layout or a collective with matplotlib; return the Axes."""
        return importlib.import_module("xlab.observe.figures").plot(self, ax)     # by name: figures are made of records

    def __repr__(self) -> str:
        if _text_form:
            return _text_form[0](self)
        return f"{type(self).__name__}({', '.join(f'{k}={getattr(self, k)!r}' for k, _ in _defaults[type(self).__name__])})"


@dataclass_transform(frozen_default=True)
def _record(cls: type[T]) -> type[T]:
    made = dataclasses.dataclass(frozen=True, slots=True, repr=False)(cls)
    _classes[cls.__name__] = made  # type: ignore[assignment]
    _defaults[cls.__name__] = tuple((f.name, f.default) for f in dataclasses.fields(made))  # type: ignore[arg-type]
    return made


def _class(name: Any) -> type[Record] | None:
    for file in () if name in _classes else ("records", "comparison", "drawing", "edits", "live", "placements", "resharding", "rungs", "scheduled"):
        importlib.import_module(f"xlab.observe.{file}")
    return _classes.get(name)


def _encode(value: Any) -> Any:
    if value is None or value.__class__ in (str, int, bool):
        return value
    if isinstance(value, Record):
        name = type(value).__name__
        out: dict[str, Any] = {"record": name}
        for field, default in _defaults[name]:
            item = getattr(value, field)
            if item is not default and (item.__class__ is not default.__class__ or item != default):
                out[field] = _encode(item)
        return out
    if isinstance(value, tuple):
        return [_encode(v) for v in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, (str, int)):
        return str(value) if isinstance(value, str) else int(value)
    raise TypeError(f"a record holds str, int, float, bool, None, tuples and records; given {type(value).__name__}. "
                    "Convert it (tuple(list), int(numpy integer), str(object)) where the record is made.")


def _decode(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(_decode(v) for v in data)
    if isinstance(data, dict):
        if "float" in data:
            return float(data["float"])
        made: Any = _class(data["record"])
        names = dict(_defaults[made.__name__])
        return made(**{k: _decode(v) for k, v in data.items() if k in names})
    return data
