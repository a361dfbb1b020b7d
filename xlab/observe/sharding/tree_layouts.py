"""Layouts of all arrays in a pytree."""

from __future__ import annotations

from collections import Counter
from typing import Any

from xlab import tree as pytrees
from xlab.observe.records.program import MeshInfo
from xlab.observe.records.sharding_tree import ShardingLeaf, ShardingTree
from xlab.observe.sharding.layout import layout
from xlab.sharding import PartitionSpec, Sharding


def sharding_tree(tree: Any, *, name: str = "") -> ShardingTree:
    """How the arrays of a pytree lie on devices, leaf by leaf.

    Args:
        tree: a pytree of arrays, of `ShapeDtypeStruct`s with shardings, or of shardings and specs; other leaves are named with their type.
        name: what to call it.

    Returns:
        A `ShardingTree`: per leaf its path, type with the axes that split it, copies, and bytes per device.

    Raises:
        TypeError: no leaf lies on devices, or would.

    Example:
        >>> import xlab.numpy as jnp
        >>> sharding_tree({"w": jnp.ones((2, 3)), "b": jnp.ones(3)}, name="params")
        params: 2 leaves, 36 B in all, a device holds 36 B
          b   f32[3]     12 B each   12 B
          w   f32[2,3]   24 B each   24 B
    """
    found, _ = pytrees.flatten_with_path(
        tree, is_leaf=lambda x: isinstance(x, (Sharding, PartitionSpec))
    )
    leaves: list[ShardingLeaf] = []
    held: Counter[int] = Counter()
    meshes: list[MeshInfo] = []
    for path, value in found:
        leaf, mesh, devices = _leaf(tuple(_key(key) for key in path) or ("",), value)
        leaves.append(leaf)
        held.update(devices)
        if mesh is not None and mesh.size > 1:
            meshes.append(mesh)
    if not (held or any(leaf.sharding for leaf in leaves)):
        raise TypeError(
            f"sharding_tree takes a pytree with arrays, ShapeDtypeStructs with shardings, or shardings; given {type(tree).__name__} "
            f"with {len(leaves)} leaves, none of which lies on a device. Arrays of NumPy do after xlab.device_put(tree)."
        )
    mesh = meshes[0] if meshes and all(m == meshes[0] for m in meshes) else None
    return ShardingTree(name, tuple(leaves), mesh, tuple(sorted(held.items())))


def _key(key: Any) -> str:
    """A key of a path as people write it: a name without brackets and quotes, an index with."""
    text = pytrees.keystr((key,))
    name = getattr(key, "key", getattr(key, "name", None))
    return name if isinstance(name, str) else text


def _leaf(
    path: tuple[str, ...], value: Any
) -> tuple[ShardingLeaf, MeshInfo | None, dict[int, int]]:
    if isinstance(value, (Sharding, PartitionSpec)):
        spec = getattr(value, "spec", value)
        return ShardingLeaf(path, sharding=str(spec)), None, {}
    try:
        made = layout(value)
    except (TypeError, ValueError):
        shape = getattr(value, "shape", None)
        said = f"{type(value).__name__}" + (f"[{','.join(map(str, shape))}]" if shape else "")
        return ShardingLeaf(path, said), None, {}
    held = {block.device: made.bytes_per_device for block in made.blocks}
    leaf = ShardingLeaf(
        path, made.type.text, "", made.copies, made.bytes_per_device, made.bytes_total
    )
    return leaf, made.mesh, held
