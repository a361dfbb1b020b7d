"""Classes of values: fields that are set once, compared and shown by value.

As `dataclasses.dataclass(frozen=True)` makes them, which compiles six functions for each class: for those that every program needs that
took a third of the time of importing them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True)
def value_class(cls: Class) -> Class:
    """Makes a class of the annotations in its body: a field for each, with the default that it was given there.

    Instances have a `__dict__`; what `__post_init__` does comes last. A `__repr__` of the class's own stays.

    Example:
        >>> @value_class
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1) == Point(x=1, y=0), {Point(1): "a"}[Point(1, 0)]
        (Point(x=1, y=0), True, 'a')
        >>> Point(1).x = 2
        Traceback (most recent call last):
        ...
        dataclasses.FrozenInstanceError: cannot assign to field 'x'
    """
    return _with_members(cls, _members, getattr(cls, "__post_init__", None))


def fresh(*, factory: Callable[[], Any]) -> Any:
    """The default of a field of which each instance gets one of its own, such as a list."""
    return _Fresh(factory)


class _Fresh:
    __slots__ = ("factory",)

    def __init__(self, factory: Callable[[], Any]):
        self.factory = factory


@dataclass_transform(eq_default=False, field_specifiers=(fresh,))
def record_class(cls: Class) -> Class:
    """Makes a class of the annotations in its body whose instances can be changed and are each equal to themselves only.

    As `dataclasses.dataclass(eq=False)` makes it, of fields as those of a `value_class`.

    Example:
        >>> @record_class
        ... class Draft:
        ...     title: str
        ...     lines: list = fresh(factory=list)
        >>> draft = Draft("one")
        >>> draft.lines.append(1)
        >>> replaced(draft, title="two"), Draft("one") == Draft("one")
        (Draft(title='two', lines=[1]), False)
    """
    return _with_members(cls, _record_members)


def replaced(record: Any, **changes: Any) -> Any:
    """A record or value of the same class that differs in some fields, as by `dataclasses.replace`."""
    cls = type(record)
    return cls(**{name: getattr(record, name) for name in cls.__match_args__} | changes)


def _with_members(cls: Class, make: Callable[..., dict], *more: Any) -> Class:
    names = tuple(vars(cls).get("__annotations__", ()))
    members = make(cls, names, *more)
    if "__repr__" in vars(cls):
        del members["__repr__"]
    for name, member in members.items():
        setattr(cls, name, member)
    return cls


def _members(cls: type, names: tuple[str, ...], finish: Callable[[Any], None] | None) -> dict:
    of = attrgetter(*names)
    shared = _record_members(cls, names, finish)

    def __eq__(self, other):
        return of(self) == of(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self):
        return hash(of(self))

    def __setattr__(self, name, value):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    return shared | {m.__name__: m for m in (__eq__, __hash__, __setattr__, __delattr__)}


def _record_members(
    cls: type, names: tuple[str, ...], finish: Callable[[Any], None] | None = None
) -> dict:
    count = len(names)
    defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
    for name, default in defaults.items():
        if type(default) is _Fresh:
            delattr(cls, name)

    def __init__(self, *args, **kwargs):
        if kwargs or len(args) != count:
            args = _bound(cls, names, defaults, args, kwargs)
        self.__dict__.update(zip(names, args))
        if finish is not None:
            finish(self)

    def __repr__(self):
        return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    return {
        "__init__": __init__,
        "__repr__": __repr__,
        "__match_args__": names,
        "__signature__": _Signature(names, defaults),
    }


def _bound(cls: type, names: tuple, defaults: dict, args: tuple, kwargs: dict) -> list[Any]:
    """The values of all fields, in order."""
    given = dict(zip(names, args))
    if len(args) > len(names):
        raise TypeError(f"{cls.__name__} takes {len(names)} arguments, got {len(args)}")
    for name, value in kwargs.items():
        if name not in names:
            raise TypeError(f"{cls.__name__} has no argument {name!r}; it takes {', '.join(names)}")
        if name in given:
            raise TypeError(f"{cls.__name__} got {name!r} twice, by position and by name")
        given[name] = value
    values = defaults | given
    missing = [name for name in names if name not in values]
    if missing:
        raise TypeError(f"{cls.__name__} is missing {', '.join(map(repr, missing))}")
    return [v.factory() if type(v := values[name]) is _Fresh else v for name in names]


class _Signature:
    """What `inspect.signature` and `help` show of a class, made when they ask."""

    __slots__ = ("defaults", "names")

    def __init__(self, names: tuple[str, ...], defaults: dict[str, Any]):
        self.names, self.defaults = names, defaults

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        parameter = inspect.Parameter
        types = vars(owner).get("__annotations__", {})
        return inspect.Signature(
            [
                parameter(
                    name,
                    parameter.POSITIONAL_OR_KEYWORD,
                    default=self.defaults.get(name, parameter.empty),
                    annotation=types.get(name, parameter.empty),
                )
                for name in self.names
            ]
        )
