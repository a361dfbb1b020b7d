"""The base of all records: a frozen dataclass with JSON, a schema number, and its text form as `repr`.

The records are in files of their own; this file knows none of them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from types import UnionType
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

from xlab.observe.pictures import picture

SCHEMA = 2
DEEPEST = 200
"""Records within one another that are read: a program of a hundred calls, each within the one before."""
FORMER_NAMES = {
    "Comparison": "Diff",
    "Flight": "AsyncOperation",
    "Layout": "ArrayLayout",
    "Shard": "ShardSummary",
    "Trace": "StepTrace",
}
"""Records that have another name now."""
FORMER_FIELDS = {("Scheduled", "flights"): "async_operations"}
"""Fields that have another name now, by record and name then."""
_BITS = 128  # of the longest number that is read; it stays a number of a page, and fits in a float
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
        {'record': 'Value', 'name': 'x', 'type': 'f32[]', 'mean': {'float': 'nan'}, 'schema': 2}
        """
        return {**_encode(self), "schema": self.schema}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Any:
        """Rebuild the record that `to_json` wrote.

        Raises:
            ValueError: for what is none, or of a newer schema; a field that is missing or of another type is named.
        """
        if not isinstance(data, dict) or _class(data.get("record")) is None:
            names = sorted(_classes)
            raise ValueError(
                f"expected a dict with 'record' set to one of {', '.join(names[:24])} and {len(names) - 24} more; "
                f"given {_given(data)}. Pass what Record.to_json() returned."
            )
        schema = data.get("schema", SCHEMA)
        if type(schema) is not int or schema < 1:
            raise ValueError(
                f"{data['record']}.schema must be a number from 1 to {SCHEMA}; given {_given(schema)}"
            )
        if schema > SCHEMA:
            raise ValueError(
                f"this file has record schema {_given(schema)}, this xlab reads up to {SCHEMA}; upgrade xlab to open it."
            )
        try:
            return _decode(data, Record, data["record"], 0)
        except RecursionError:
            raise ValueError(
                f"{data['record']}: its records are nested too deeply to be read here"
            ) from None

    def contradiction(self) -> str:
        """Describes fields that contradict each other, empty if none do; called for records read from JSON."""
        return ""

    def replace(self, **changes: Any) -> Any:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def plot(self, ax: Any = None) -> Any:
        """Draw a report's phases, a program's memory, a layout or a collective with matplotlib; return the Axes."""
        return picture("axes")(self, ax)

    def __repr__(self) -> str:
        return _text_form[0](self) if _text_form else fields_text(self)


def fields_text(record: Record) -> str:
    """The text of a record that has no form of its own: its fields."""
    name = type(record).__name__
    return f"{name}({', '.join(f'{k}={getattr(record, k)!r}' for k, _ in _defaults[name])})"


@dataclass_transform(frozen_default=True)
def record_type(cls: type[T]) -> type[T]:
    """Makes a class a record: a frozen dataclass that JSON is read back into by its name."""
    made = dataclasses.dataclass(frozen=True, slots=True, repr=False)(cls)
    _classes[cls.__name__] = made  # type: ignore[assignment]
    _defaults[cls.__name__] = tuple((f.name, f.default) for f in dataclasses.fields(made))  # type: ignore[arg-type]
    return made


def _class(name: Any) -> type[Record] | None:
    if not isinstance(name, str):
        return None
    name = FORMER_NAMES.get(name, name)
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
    raise TypeError(
        f"a record holds str, int, float, bool, None, tuples and records; given {type(value).__name__}. "
        "Convert it (tuple(list), int(numpy integer), str(object)) where the record is made."
    )


def _decode(data: Any, kind: Any, where: str, depth: int) -> Any:
    """The value of a field whose annotation is `kind`; ValueError where it cannot be that."""
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    given = type(data)
    if (
        given in kinds
        or (data is None and type(None) in kinds)
        or (given is int and float in kinds)
    ):
        if given is int and data.bit_length() > _BITS:
            raise ValueError(
                f"{where} has {data.bit_length()} bits; numbers of a record have up to {_BITS}"
            )
        return data
    if isinstance(data, dict) and data.keys() == {"float"} and float in kinds:
        if data["float"] not in ("nan", "inf", "-inf"):
            raise ValueError(
                f"{where} must be a number, {{'float': 'nan'}}, 'inf' or '-inf'; given {_given(data['float'])} for 'float'"
            )
        return float(data["float"])
    if isinstance(data, dict) and "record" in data:
        made = _class(data["record"])
        if made is None:
            raise ValueError(
                f"{where}.record must be the name of a record; given {_given(data['record'])}"
            )
        if any(isinstance(k, type) and issubclass(made, k) for k in kinds):
            return _decode_record(data, made, where, depth)
    if isinstance(data, (list, tuple)):
        for parts in (get_args(k) for k in kinds if get_origin(k) is tuple):
            if parts[-1] is Ellipsis:
                return tuple(
                    [_decode(v, parts[0], f"{where}[{i}]", depth) for i, v in enumerate(data)]
                )
            if len(parts) == len(data):
                return tuple(
                    [
                        _decode(v, part, f"{where}[{i}]", depth)
                        for i, (v, part) in enumerate(zip(data, parts))
                    ]
                )
    raise ValueError(f"{where} must be {' or '.join(map(_called, kinds))}; given {_given(data)}")


def _decode_record(data: dict[str, Any], made: Any, where: str, depth: int) -> Any:
    if depth >= DEEPEST:
        raise ValueError(f"{where[:80]}…: more than {DEEPEST} records are nested in one another")
    found = {}
    former = {FORMER_FIELDS.get((made.__name__, field), field): field for field in data}
    for name, kind in _kinds(made).items():
        if name in former:
            found[name] = _decode(data[former[name]], kind, f"{where}.{former[name]}", depth + 1)
    missing = [
        name
        for name, default in _defaults[made.__name__]
        if default is dataclasses.MISSING and name not in found
    ]
    if missing:
        raise ValueError(f"{where}.{missing[0]} is missing: every {made.__name__} has it")
    record = made(**found)
    wrong = record.contradiction()
    if wrong:
        raise ValueError(f"{where}: {wrong}")
    return record


@functools.cache
def _kinds(made: type[Record]) -> dict[str, Any]:
    """The annotation of each field."""
    hints = get_type_hints(made, localns=dict(_classes))
    return {field: hints[field] for field, _ in _defaults[made.__name__]}


def _called(kind: Any) -> str:
    """The name of a type, for messages."""
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        return (
            f"a list of {_called(parts[0])}"
            if parts[-1] is Ellipsis
            else f"[{', '.join(map(_called, parts))}]"
        )
    if isinstance(kind, UnionType):
        return " or ".join(map(_called, get_args(kind)))
    return {
        type(None): "null",
        str: "text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
    }.get(kind, f"a {kind.__name__}")


def _given(data: Any) -> str:
    """A short text for a value, for messages."""
    if isinstance(data, str):
        return repr(data if len(data) <= 40 else f"{data[:40]}…")
    if isinstance(data, (list, tuple)):
        return f"a list of {len(data)}"
    if isinstance(data, dict):
        return f"a dict of {len(data)}" + (
            f" with 'record' {_given(data['record'])}" if "record" in data else ""
        )
    if type(data) is int and data.bit_length() > _BITS:
        return f"a number of {data.bit_length()} bits"
    return (
        repr(data)
        if data is None or isinstance(data, (bool, int, float))
        else f"a {type(data).__name__}"
    )
