"""Cache keys of compiled programs, part by part, so that a compile can be compared with earlier ones.

Parts are collected while tracing and compiling, and turned into text only when needed.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xlab.backend import client
from xlab.config import FLAGS
from xlab.core.avals import ShapedArray
from xlab.sharding import NamedSharding, SingleDeviceSharding

LONGEST = 80
"""Characters of one part."""

_numbers = itertools.count(1)
_numbered: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


class TracingKey(NamedTuple):
    """The key of a tracing. `static` and `closure` are text, since they may hold any value."""

    structure: str
    names: tuple[str, ...]
    avals: tuple
    static: Mapping[str, str]
    context: tuple
    closure: Mapping[str, str]
    function: int


class PlacementKey(NamedTuple):
    """The key of a compile: argument placements, current mesh, options of the jit, and which jit."""

    placements: tuple
    mesh: Any
    options: Mapping[str, Any]
    jit: int


def number(thing: Any) -> int:
    """A unique number per object, never reused; 0 for objects that cannot be weakly referenced."""
    try:
        found = _numbered.get(thing)
        if found is None:
            found = _numbered[thing] = next(_numbers)
        return found
    except TypeError:
        return 0


def traced(
    fun: Callable, names: tuple[str, ...], key: tuple, closure: Mapping[str, str]
) -> TracingKey:
    """The parts of a key that tracing depends on."""
    in_tree, avals, static, context = key
    return TracingKey(
        _shorten(str(in_tree)),
        names,
        avals,
        static_values(fun, static),
        context,
        closure,
        number(fun),
    )


def static_values(fun: Callable, static: tuple) -> dict[str, str]:
    """Static arguments by name, as short text."""
    if len(static) != 2 or static[0] == "flat":
        return {}
    by_place, by_name = static
    code = getattr(fun, "__code__", None)
    parameters = code.co_varnames[: code.co_argcount] if code is not None else ()
    found = {
        parameters[i] if i < len(parameters) else f"argument {i}": short(v.value)
        for i, v in by_place
    }
    return {**found, **{name: short(v.value) for name, v in by_name}}


def parts(key: tuple[TracingKey | None, PlacementKey | None]) -> dict[str, str]:
    """Every part as text, by name."""
    made, placed = key
    out: dict[str, str] = {}
    if made is not None:
        for i, aval in enumerate(made.avals):
            out[_name(made, i)] = describe(aval)
        out.update((f"static {name}", text) for name, text in made.static.items())
        out.update((f"closed-over {name}", text) for name, text in made.closure.items())
        out["structure"] = made.structure
        out.update(
            (option, short(value)) for option, value in options_by_name(made.context[0]).items()
        )
        out["axes"] = _shorten(str(made.context[1:]))
        out["function object"] = str(made.function)
    if placed is not None:
        for i, sharding in enumerate(placed.placements):
            name = _name(made, i) if made is not None else f"argument {i}"
            out[f"placement of {name}"] = placement(sharding)
        out["backend"] = (
            ", ".join(sorted({platform(s) for s in placed.placements if s is not None}))
            or client.default_backend()
        )
        out["current mesh"] = "none" if placed.mesh is None else _shorten(str(placed.mesh))
        out.update((option, short(value)) for option, value in placed.options.items())
        out["jit"] = str(placed.jit)
    return out


def options_by_name(values: tuple) -> dict[str, Any]:
    """A `trace_context` by name: the options, then pairs of a name and a value."""
    names = [flag.name for flag in FLAGS.values() if flag.traced]
    return {**dict(zip(names, values)), **dict(values[len(names) :])}


def platform(sharding: Any) -> str:
    """The kind of devices of a sharding."""
    return next(iter(sharding.device_set)).platform


def placement(sharding: Any) -> str:
    """The placement of an argument as short text."""
    if sharding is None:
        return "uncommitted"
    if isinstance(sharding, SingleDeviceSharding):
        return f"device {sharding.device.id}"
    if isinstance(sharding, NamedSharding):
        axes = " ".join(f"{name}={size}" for name, size in sharding.mesh.shape.items())
        kind = f", {sharding.memory_kind}" if sharding.memory_kind not in (None, "device") else ""
        return _shorten(f"{sharding.spec} over {axes}{kind}")
    return _shorten(str(sharding))


def describe(aval: Any) -> str:
    """A type as text with weak types marked, since a weak type alone can cause a miss."""
    weak = " (weak)" if isinstance(aval, ShapedArray) and aval.weak_type else ""
    return f"{aval.str_short(short_dtypes=True)}{weak}"


def short(value: Any, depth: int = 4) -> str:
    """A value as short text, without reading arrays or calling the user's code; containers inside of `depth` others are named only.

    >>> short((1, "a", [2.5])), short(object())
    ("(1, 'a', [2.5])", 'a object')
    """
    if type(value) in (int, float, complex, bool, str, bytes, type(None)):
        text = repr(value)
        return text if len(text) < 60 else text[:57] + "..."
    if type(value) in (tuple, list) and len(value) <= 8 and depth:
        left, right = "()" if type(value) is tuple else "[]"
        return (
            left
            + ", ".join(short(x, depth - 1) for x in value)
            + ("," if left == "(" and len(value) == 1 else "")
            + right
        )
    if hasattr(type(value), "dtype") and hasattr(type(value), "shape"):
        return f"an array of type {value.dtype}{list(value.shape)}"
    if type(value).__module__.startswith("xlab."):
        return _shorten(str(value))
    named = inspect.getattr_static(value, "__qualname__", None) is not None
    return f"{value.__qualname__}" if named else f"a {type(value).__name__}"


def _name(made: TracingKey, i: int) -> str:
    return made.names[i] if i < len(made.names) else f"argument {i}"


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
