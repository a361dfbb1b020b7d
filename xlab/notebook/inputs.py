"""Places the inputs of a program as `--in` says: by their names, or by paths to parts of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xlab import device_put, tree
from xlab.notebook import options
from xlab.observe.placing.patterns import chosen, root_of, unnamed
from xlab.sharding import Mesh, PartitionSpec


def of_none(paths: Iterable[str], names: Iterable[str]) -> str | None:
    """The first path that begins with none of these names.

    >>> of_none(["p['w']", "x"], ["p"])
    'x'
    """
    return next((p for p in paths if root_of(p) not in names), None)


def placed_call(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    specs: Mapping[str, PartitionSpec],
    mesh: Mesh,
    whose: str = "the call",
) -> inspect.BoundArguments:
    """The arguments of a call, placed by specs under the names of the function's parameters."""
    bound = inspect.signature(fun).bind(*args, **kwargs)
    if (wrong := of_none(specs, bound.arguments)) is not None:
        raise NameError(
            f"--in names {wrong!r}, which is no argument of {whose}; its arguments are {', '.join(bound.arguments)}"
        )
    for name, value in bound.arguments.items():
        bound.arguments[name] = placed(value, specs, mesh, name)
    return bound


def placed(value: Any, specs: Mapping[str, PartitionSpec], mesh: Mesh, name: str) -> Any:
    """An input, or those of its parts that a spec is given for, as the specs say: types only where the mesh is not of this machine."""
    mine = {path: s for path, s in specs.items() if root_of(path) == name}
    if not mine:
        return value
    leaves, structure = tree.flatten_with_path(value)
    names = [f"{name}{tree.keystr(path)}" for path, _ in leaves]
    if wrong := unnamed(mine, names):
        raise ValueError(f"--in: {wrong}")
    put = [_put(x, chosen(mine, n), mesh, n) for n, (_, x) in zip(names, leaves, strict=True)]
    return tree.unflatten(structure, put)


def _put(value: Any, spec: PartitionSpec | None, mesh: Mesh, name: str) -> Any:
    if spec is None:
        return value
    wanted = options.named_sharding(mesh, spec, name)
    elsewhere = options.is_elsewhere(mesh)
    return options.typed(value, wanted) if elsewhere else device_put(value, wanted)
