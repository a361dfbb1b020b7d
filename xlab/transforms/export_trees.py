"""Pytree structures and types as JSON, for exported programs. Nothing that is read back can run code."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

from xlab import tree as _tree
from xlab.backend.pytree import PyTreeDef, registry
from xlab.core import dtypes
from xlab.core.avals import ShapedArray
from xlab.core.dim_scope import SymbolicScope
from xlab.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec


class _NodeFormat(NamedTuple):
    name: str
    write: Callable
    read: Callable


_by_type: dict[type, _NodeFormat] = {}
_by_name: dict[str, type] = {}
_BUILTIN: dict[str, type] = {"tuple": tuple, "list": list, "dict": dict, "none": type(None)}
_NAMES = {t: n for n, t in _BUILTIN.items()}


def register_pytree_node_serialization(
    nodetype: type,
    *,
    serialized_name: str,
    serialize_auxdata: Callable,
    deserialize_auxdata: Callable,
    from_children: Callable | None = None,
) -> type:
    """Lets exported programs have a registered pytree class among their arguments and results.

    Args:
        serialized_name: how the class is called in files.
        serialize_auxdata, deserialize_auxdata: the node's auxiliary data to bytes and back.
        from_children: accepted as in JAX and not used; the registry makes the nodes.
    """
    return _register(nodetype, _NodeFormat(serialized_name, serialize_auxdata, deserialize_auxdata))


def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Lets exported programs have a named tuple class among their arguments and results.

    Example:
        >>> from typing import NamedTuple
        >>> class Point(NamedTuple):
        ...     x: float
        ...     y: float
        >>> register_namedtuple_serialization(Point, serialized_name="example.Point") is Point
        True
    """
    if not (issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(
            f"register_namedtuple_serialization takes a class made by namedtuple or NamedTuple, got {nodetype}"
        )
    return _register(nodetype, _NodeFormat(serialized_name, lambda _: b"", lambda _: None))


def _register(nodetype, form):
    if nodetype in _by_type:
        raise ValueError(
            f"{nodetype} is registered for serialization already, as {_by_type[nodetype].name!r}"
        )
    if form.name in _by_name:
        raise ValueError(
            f"the name {form.name!r} is taken by {_by_name[form.name]}: serialized names must be unique"
        )
    _by_type[nodetype], _by_name[form.name] = form, nodetype
    return nodetype


def write_tree(treedef: PyTreeDef) -> Any:
    """A structure as JSON."""
    node = treedef.node_data()
    if node is None:
        return "*"
    kind, aux = node
    children = [write_tree(c) for c in treedef.children()]
    if kind in _NAMES:
        if kind is dict and not all(isinstance(k, str) for k in aux):
            raise ValueError(f"only dicts with string keys can be serialized, got the keys {aux}")
        return [_NAMES[kind], aux if kind is dict else None, children]
    form = _by_type.get(kind)
    if form is None:
        raise ValueError(
            f"pytrees of type {kind} cannot be serialized: register it with export.register_pytree_node_serialization or, for "
            f"a named tuple, export.register_namedtuple_serialization"
        )
    return ["@" + form.name, base64.b64encode(form.write(aux)).decode(), children]


class UnregisteredNode(ValueError):
    """A file contains a pytree class that is not registered in this process."""


def read_tree(data: Any) -> PyTreeDef:
    """The structure that `write_tree` wrote."""
    if data == "*":
        return _tree.structure(0)
    name, aux, children = data
    children = [read_tree(c) for c in children]
    if not name.startswith("@"):
        return PyTreeDef.from_node_data_and_children(registry, (_BUILTIN[name], aux), children)
    kind = _by_name.get(name[1:])
    if kind is None:
        raise UnregisteredNode(
            f"the file has a pytree node {name[1:]!r}, for which no class is registered here: call "
            f"export.register_pytree_node_serialization first"
        )
    return PyTreeDef.from_node_data_and_children(
        registry, (kind, _by_type[kind].read(base64.b64decode(aux))), children
    )


def write_aval(aval: ShapedArray) -> list:
    """A type as JSON."""
    if not isinstance(aval, ShapedArray) or dtypes.is_extended(aval.dtype):
        raise NotImplementedError(
            f"values of type {aval} cannot be serialized in the interface of an exported program; for random "
            f"keys pass xlab.random.key_data(key)"
        )
    return [
        [d if isinstance(d, int) else d.text() for d in aval.shape],
        dtypes.name(aval.dtype),
        aval.weak_type,
        *([] if aval.explicit_sharding is None else [write_sharding(aval.explicit_sharding)]),
    ]


def read_aval(data, scope: SymbolicScope | None = None) -> ShapedArray:
    """The type that `write_aval` wrote; symbolic dimensions become those of the scope."""
    shape, dtype, weak, *explicit = data
    if scope is not None:
        shape = [d if isinstance(d, int) else scope.parse(d) for d in shape]
    aval = ShapedArray(
        tuple(shape), dtypes.float0 if dtype == "float0" else dtypes.to_dtype(dtype), weak
    )
    return aval.update(sharding=read_sharding(*explicit)) if explicit else aval


def write_sharding(sharding: NamedSharding | None) -> list | None:
    """A sharding over an abstract mesh as JSON."""
    if sharding is None:
        return None
    mesh, spec = sharding.mesh, sharding.spec
    return [
        [[n, s, t.name] for n, s, t in zip(mesh.axis_names, mesh.axis_sizes, mesh.axis_types)],
        [list(spec.axes_of(d)) for d in range(len(spec))],
    ]


def read_sharding(data: list | None) -> NamedSharding | None:
    if data is None:
        return None
    axes, dims = data
    mesh = AbstractMesh(
        tuple(s for _, s, _ in axes),
        tuple(n for n, _, _ in axes),
        axis_types=tuple(AxisType[t] for _, _, t in axes),
    )
    return NamedSharding(
        mesh, PartitionSpec(*(tuple(d) if len(d) > 1 else d[0] if d else None for d in dims))
    )
