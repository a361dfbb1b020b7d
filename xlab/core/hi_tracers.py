"""Traced values of hi types: attributes, methods and operators are those that the class of the type defines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xlab.core.array import METHODS_OF_ARRAYS
from xlab.core.hi_states import MutableHiType, cur_qdd
from xlab.core.hi_types import in_use, is_high
from xlab.core.trace import Tracer


class aval_property(NamedTuple):
    """A property of traced values, defined in the class of their type: `fget(tracer)`.

    Example:
        >>> from xlab.experimental.hijax import HiType, aval_property
        >>> class Pair(HiType):
        ...     first = aval_property(lambda tracer: first_p.bind(tracer))
    """

    fget: Callable[[Any], Any]


class aval_method(NamedTuple):
    """A method of traced values, defined in the class of their type: `fun(tracer, ...)`.

    Example:
        >>> from xlab.experimental.hijax import HiType, aval_method
        >>> class Pair(HiType):
        ...     swapped = aval_method(lambda tracer: swap_p.bind(tracer))
    """

    fun: Callable[..., Any]


# The type's method `_add(tracer, other)` is the operator, and so on.
_OPERATORS = (
    *("getitem", "setitem", "delitem", "len", "iter", "contains", "call", "bool", "int", "float", "complex", "index"),
    *("neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil", "lt", "le", "gt", "ge"),
    *(f"{r}{name}" for r in ("", "r") for name in (
        "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or", "xor", "lshift", "rshift")),
)  # fmt: skip


def _operator(name: str) -> Callable:
    def apply(self, *args, **kwargs):
        found = getattr(type(self.aval), f"_{name}", None)
        if found is None:
            if name == "bool":
                return True  # as an object without `__bool__` or `__len__`
            raise TypeError(
                f"a value of type {self.aval} has no __{name}__: define `_{name}(self, tracer, ...)` in the class {type(self.aval).__name__}"
            )
        found = getattr(self.aval, f"_{name}")
        return (
            found.fun(self, *args, **kwargs)
            if isinstance(found, aval_method)
            else found(self, *args, **kwargs)
        )

    apply.__name__ = f"__{name}__"
    return apply


def _equality(name: str, otherwise: Callable) -> Callable:
    def compare(self, other):
        found = getattr(self.aval, f"_{name}", None)
        return otherwise(self, other) if found is None else found(self, other)

    return compare


_classes: dict[type, type] = {}


def _class_for(cls: type) -> type:
    """The class of traced values of hi types that belongs to a class of tracers; for the traces it is that class."""
    found = _classes.get(cls)
    if found is not None:
        return found
    own = {name for base in cls.__mro__ if base not in (Tracer, object) for name in vars(base)}
    own |= _MACHINERY

    def getattribute(self, name):
        plain = object.__getattribute__
        if name in own or name[:2] == "__":
            return plain(self, name)
        try:
            found = getattr(plain(self, "aval"), name)
        except AttributeError:
            raise AttributeError(
                f"a traced value of type {plain(self, 'aval')} has no attribute {name!r}: define it in the class of its type, as an aval_property or "
                f"aval_method"
            ) from None
        if isinstance(found, aval_property):
            return found.fget(self)
        return found.fun.__get__(self) if isinstance(found, aval_method) else found

    members: dict[str, Any] = {f"__{name}__": _operator(name) for name in _OPERATORS}
    members |= {
        "__slots__": (),
        "__class__": property(lambda self: cls),
        "__getattribute__": getattribute,
        "__eq__": _equality("eq", lambda a, b: a is b),
        "__ne__": _equality("ne", lambda a, b: a is not b),
        "__hash__": object.__hash__,
    }
    _classes[cls] = type(f"Hi{cls.__name__}", (cls,), members)
    return _classes[cls]


# What traces and messages use of tracers.
_MACHINERY = {name for name in vars(Tracer) if not name.startswith("__")} - METHODS_OF_ARRAYS


def tracer_class(cls: type, aval: Any) -> type:
    """`cls`, or the class in its place for values of a hi type."""
    return _class_for(cls) if in_use.types and is_high(aval) else cls


MutableHiType.type_state = aval_method(cur_qdd)  # type: ignore[attr-defined]
