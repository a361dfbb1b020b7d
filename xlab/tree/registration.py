"""Registers classes as pytree nodes: functions, decorators, dataclasses, static values.

Every class is registered with all native registries: the usual one, where None is an empty container, one where None
is a leaf, and the one of native calls.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from xlab.backend.pytree import (
    ALL,
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
)

T = TypeVar("T", bound=type)


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]]
    | None = None,
) -> None:
    """Makes `nodetype` a container.

    Args:
        nodetype: the class.
        flatten_func: `obj -> (children, aux)`; `aux` is hashable and tells apart what children do not.
        unflatten_func: `(aux, children) -> obj`.
        flatten_with_keys_func: as `flatten_func`, with (key, child) pairs.

    Example:
        >>> import xlab
        >>> class Pair:
        ...     def __init__(self, a, b): self.a, self.b = a, b
        >>> register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda aux, c: Pair(*c))
        >>> xlab.tree.flatten(Pair(1, 2))[0]
        [1, 2]
    """
    if not isinstance(nodetype, type):
        raise TypeError(
            f"A container type must be a class; got {nodetype!r}. Register type(obj), not obj."
        )
    try:
        for each in ALL:
            each.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)
    except ValueError as error:
        raise ValueError(
            f"{nodetype.__module__}.{nodetype.__qualname__} is already registered as a container. In a notebook, "
            "re-run the cell that defines the class together with the one that registers it."
        ) from error


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]] | None = None,
) -> None:
    """Makes `nodetype` a container whose children have named places."""

    def without_keys(obj):
        pairs, aux = flatten_with_keys(obj)
        return [child for _, child in pairs], aux

    register_pytree_node(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: T) -> T:
    """Decorator: a class with methods `tree_flatten(self)` and classmethod `tree_unflatten(cls, aux, children)`.

    Example:
        >>> import xlab
        >>> @register_pytree_node_class
        ... class Box:
        ...     def __init__(self, x): self.x = x
        ...     def tree_flatten(self): return (self.x,), None
        ...     @classmethod
        ...     def tree_unflatten(cls, aux, children): return cls(*children)
        >>> xlab.tree.flatten(Box(3))[0]
        [3]
    """
    _check_methods(cls, "tree_flatten", "tree_unflatten")
    register_pytree_node(cls, cls.tree_flatten, cls.tree_unflatten)
    return cls


def _check_methods(cls: Any, *names: str) -> None:
    if not isinstance(cls, type):
        raise TypeError(f"Expected type, got {cls!r}: decorate a class, not one of its instances")
    missing = [name for name in names if not hasattr(cls, name)]
    if missing:
        raise TypeError(
            f"{cls.__name__} cannot be registered as a container: it has no {' and no '.join(missing)}"
        )


def register_pytree_with_keys_class(cls: T) -> T:
    """Decorator: as `register_pytree_node_class`, with a method `tree_flatten_with_keys(self)`."""
    _check_methods(cls, "tree_flatten_with_keys", "tree_unflatten")
    register_pytree_with_keys(
        cls, cls.tree_flatten_with_keys, cls.tree_unflatten, getattr(cls, "tree_flatten", None)
    )
    return cls


def register_static(cls: T) -> T:
    """Decorator: instances hold no arrays; they are part of the structure and compared by equality.

    Example:
        >>> import xlab
        >>> @register_static
        ... class Mode(str): pass
        >>> xlab.tree.flatten(Mode("fast"))[0]
        []
    """
    register_pytree_node(cls, lambda obj: ((), obj), lambda obj, children: obj)
    return cls


def static(**kwargs: Any) -> Any:
    """A dataclass field that is part of the structure; arguments as for `dataclasses.field`."""
    metadata = dict(kwargs.pop("metadata", None) or {})
    metadata["static"] = True
    import dataclasses

    return dataclasses.field(metadata=metadata, **kwargs)


def register_dataclass(
    nodetype: T | None = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Makes a dataclass a container: `data_fields` hold children, `meta_fields` are part of the structure.

    Without lists, fields made with `static(...)` are part of the structure and all others hold children.

    Example:
        >>> import dataclasses
        >>> import xlab
        >>> @register_dataclass
        ... @dataclasses.dataclass
        ... class Layer:
        ...     weight: int
        ...     name: str = static(default="dense")
        >>> xlab.tree.flatten(Layer(7))[0]
        [7]
    """
    if nodetype is None:
        return lambda cls: register_dataclass(cls, data_fields, meta_fields, drop_fields)
    if not isinstance(nodetype, type):
        raise TypeError(f"register_dataclass takes a class, got {nodetype!r}")
    if (data_fields is None) != (meta_fields is None):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields must be given together, or neither."
        )
    import dataclasses

    fields = (
        {f.name: f for f in dataclasses.fields(nodetype)}
        if dataclasses.is_dataclass(nodetype)
        else None
    )
    if data_fields is None or meta_fields is None:
        if fields is None:
            raise TypeError(
                f"register_dataclass: {nodetype.__name__} is not a dataclass. Decorate it with @dataclass below, "
                "or give data_fields and meta_fields."
            )
        kept = [f for f in fields.values() if f.init and f.name not in drop_fields]
        data_fields = [f.name for f in kept if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in kept if f.metadata.get("static", False)]
    data_fields, meta_fields = tuple(data_fields), tuple(meta_fields)
    if fields is not None:
        named = {*data_fields, *meta_fields, *drop_fields}
        wanted = {name for name, f in fields.items() if f.init}
        if missing := wanted - named:
            raise ValueError(
                f"data_fields and meta_fields must include all fields of {nodetype.__name__}; missing: "
                f"{sorted(missing)}. Add them, or name them in drop_fields."
            )
        if unknown := named - fields.keys():
            raise ValueError(
                f"{nodetype.__name__} has no fields {sorted(unknown)}; it has {sorted(fields)}."
            )
    for each in ALL:
        each.register_dataclass_node(nodetype, list(data_fields), list(meta_fields))
    return nodetype


def _flatten_dict_keys(d: Any) -> tuple[list[tuple[Any, Any]], tuple]:
    return [(DictKey(k), v) for k, v in d.items()], tuple(d)


register_pytree_node(
    collections.OrderedDict,
    lambda d: (tuple(d.values()), tuple(d)),
    lambda keys, values: collections.OrderedDict(zip(keys, values, strict=True)),
    _flatten_dict_keys,
)


def _sorted_items(d: Any) -> list[tuple[Any, Any]]:
    return sorted(d.items(), key=lambda item: item[0])


register_pytree_node(
    collections.defaultdict,
    lambda d: (
        [v for _, v in _sorted_items(d)],
        (d.default_factory, tuple(k for k, _ in _sorted_items(d))),
    ),
    lambda aux, values: collections.defaultdict(aux[0], zip(aux[1], values, strict=True)),
    lambda d: (
        [(DictKey(k), v) for k, v in _sorted_items(d)],
        (d.default_factory, tuple(k for k, _ in _sorted_items(d))),
    ),
)

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "SequenceKey", "register_dataclass", "register_pytree_node",
    "register_pytree_node_class", "register_pytree_with_keys", "register_pytree_with_keys_class", "register_static",
    "static",
]  # fmt: skip
