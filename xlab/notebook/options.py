"""Parses meshes, specs and lists of names from a magic's line or a command line.

>>> specs("x=data,None; w=None,model+data")
{'x': P('data', None), 'w': P(None, ('model', 'data'))}
"""

from __future__ import annotations

import math
import re
from typing import Any

from xlab import ShapeDtypeStruct, device_count, tree
from xlab.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, get_mesh, make_mesh

PARTS = ("jaxpr", "shardings", "collectives", "timings", "hlo", "memory", "kernels", "overview")


def axes(text: str) -> dict[str, int]:
    """Axis sizes by name.

    >>> axes("data=4, model=2")
    {'data': 4, 'model': 2}
    """
    found: dict[str, int] = {}
    for part in filter(None, re.split(r"[,\s]+", text.strip())):
        name, equals, size = part.partition("=")
        if not equals or not name.isidentifier() or not size.isdigit() or int(size) < 1:
            raise ValueError(
                f"a mesh is written as axis=size pairs, such as data=4,model=2; cannot read {part!r} in {text!r}"
            )
        if name in found:
            raise ValueError(f"mesh axis {name!r} is given twice in {text!r}")
        found[name] = int(size)
    if not found:
        raise ValueError("a mesh needs at least one axis, such as data=4,model=2")
    return found


def mesh(text: str | None) -> Mesh:
    """The mesh that `text` describes, or the current one; the current one too when it is the same.

    >>> mesh("data=2").axis_names
    ('data',)
    """
    current = get_mesh()
    if not text:
        return current
    wanted = axes(text)
    if not current.empty and dict(current.shape) == wanted:
        return current
    return make_mesh(
        tuple(wanted.values()), tuple(wanted), axis_types=(AxisType.Auto,) * len(wanted)
    )


def mesh_to_compile_for(text: str | None) -> Mesh:
    """The mesh that `text` describes, of virtual devices where this machine has not as many: nothing can run on it.

    >>> is_elsewhere(mesh_to_compile_for("data=64,model=8")), is_elsewhere(mesh_to_compile_for("data=1"))
    (True, False)
    """
    from xlab.observe.sharding.experiment import mesh_of

    wanted = axes(text) if text else {}
    return mesh_of(wanted) if math.prod(wanted.values()) > device_count() else mesh(text)


def is_elsewhere(over: Mesh) -> bool:
    """Whether a mesh consists of virtual devices."""
    return not over.empty and over.size > device_count()


def typed(value: Any, sharding: NamedSharding) -> Any:
    """The types of arrays under a sharding (`ShapeDtypeStruct`), in place of the arrays."""
    return tree.map(lambda x: ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), value)


def spec(text: str) -> PartitionSpec:
    """One partition spec: a mesh axis, several joined by `+`, or None, per dimension.

    >>> spec("data,None"), spec("")
    (P('data', None), P())
    """
    entries: list[Any] = []
    text = re.sub(r"^P\((.*)\)$", r"\1", text.strip())
    for part in filter(None, (p.strip().strip("'\"") for p in text.split(","))):
        if part == "None":
            entries.append(None)
            continue
        names = tuple(n.strip() for n in part.split("+"))
        if not all(n.isidentifier() for n in names):
            raise ValueError(
                f"a spec has a mesh axis, several joined by +, or None per dimension, such as data,None; "
                f"cannot read {part!r} in {text!r}"
            )
        entries.append(names[0] if len(names) == 1 else names)
    return PartitionSpec(*entries)


_PATH = re.compile(r"[^\W\d]\w*(\.[\w*]+|\[(\d+|\*|'[^']*'|\"[^\"]*\")\])*")


def specs(text: str | None, paths: bool = False) -> dict[str, PartitionSpec]:
    """Specs by name, from `name=spec` pairs with `;` between them.

    Args:
        text: the pairs.
        paths: whether a part of a value may stand for a name, with `*` for any number.

    >>> specs("layers[*]['wq']=None,model; x=data", paths=True)
    {"layers[*]['wq']": P(None, 'model'), 'x': P('data',)}
    """
    found: dict[str, PartitionSpec] = {}
    for part in filter(None, (p.strip() for p in (text or "").split(";"))):
        name, equals, rest = part.partition("=")
        name = name.strip()
        if not equals or not (_PATH.fullmatch(name) if paths else name.isidentifier()):
            inside = ", or a path such as layers[*]['wq'] for a name" * paths
            raise ValueError(
                f"specs are written name=spec; name=spec, such as 'x=data,None; w=None,model'{inside}; "
                f"cannot read {part!r}"
            )
        found[name.replace('"', "'")] = spec(rest)
    return found


def named_sharding(over: Mesh, wanted: PartitionSpec, what: str) -> NamedSharding:
    """The sharding of `what`; an error that says where a mesh comes from when there is none."""
    if over.empty:
        raise ValueError(
            f"{what} is to be sharded as {wanted}, but there is no mesh: add --mesh data=4,model=2, or set one "
            f"with %xmesh"
        )
    return NamedSharding(over, wanted)


def names(text: str | None) -> tuple[str, ...]:
    """Names separated by commas or spaces.

    >>> names("x, y")
    ('x', 'y')
    """
    return tuple(filter(None, re.split(r"[,\s]+", (text or "").strip())))


def unquoted(text: str) -> str:
    """Text without the quotes around it, which a magic's line keeps.

    >>> unquoted("'x=data'")
    'x=data'
    """
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
