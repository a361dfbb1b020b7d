"""`compare`: what a resharding moves, computed from the blocks alone; no data is touched."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from xlab.compile.jit import jit
from xlab.compile.stages import ShapeDtypeStruct
from xlab.interpreters.communication_costs import Interconnect
from xlab.observe.programs.analysis_only import analysis_only
from xlab.observe.programs.stages import program_stages
from xlab.observe.records import ArrayLayout, Transfer
from xlab.observe.records.resharding import Resharding
from xlab.observe.records.units import size_text
from xlab.observe.sharding.layout import Slices, layout
from xlab.observe.sharding.transfers import transfers_of
from xlab.sharding import NamedSharding, PartitionSpec, Sharding, get_mesh


def compare(
    before: Any,
    after: Any,
    shape: Any = None,
    *,
    dtype: Any = np.float32,
    name: str = "",
    compiled: bool = False,
    link: str | Interconnect = "cpu",
) -> Resharding:
    """What moves when an array goes from one layout to another: what stays, and who sends how many bytes to whom.

    Every device fetches what it lacks from the nearest device that has it: along as few axes of the mesh as possible.

    Args:
        before: a layout, an array, a sharding with a `shape`, or a spec for the current mesh.
        after: the same; with an array before, `shape` and `dtype` are the array's, and a spec lies on the array's mesh.
        compiled: also compile the change for a program, to see which collectives do it there; nothing runs.
        link: the interconnect those are predicted for.

    Example:
        >>> from xlab.sharding import PartitionSpec, NamedSharding, make_mesh
        >>> mesh = make_mesh((1,), ("data",))
        >>> s = NamedSharding(mesh, PartitionSpec("data"))
        >>> compare(s, s, (4,)).bytes_in
        0
    """
    if shape is None:
        found = next(
            (x for x in (before, after) if hasattr(x, "shape") and hasattr(x, "dtype")), None
        )
        if found is not None:
            shape, dtype = found.shape, found.dtype
    mesh = next(
        (
            m
            for x in (before, after)
            for m in (getattr(getattr(x, "sharding", x), "mesh", None),)
            if hasattr(m, "devices")
        ),
        None,
    )
    before, after = (_on(x, mesh) for x in (before, after))
    a, b = (
        x
        if isinstance(x, ArrayLayout)
        else layout(x, shape, dtype=dtype, name=name)
        if isinstance(x, Sharding)
        else layout(x, name=name)
        for x in (before, after)
    )
    if a.type.shape != b.type.shape:
        raise ValueError(
            f"the layouts are of different shapes, {a.type.shape} and {b.type.shape}: nothing to compare"
        )
    messages, kept = _moves(a, b)
    carried: tuple[Transfer, ...] = ()
    if compiled:
        carried = _in_program(
            getattr(before, "sharding", before),
            getattr(after, "sharding", after),
            shape,
            dtype,
            link,
        )
    return Resharding(a, b, messages, kept, carried, _flags(a, b, carried))


def _on(x: Any, mesh: Any) -> Any:
    """A spec as a sharding on the mesh of the other side, or the current one."""
    if not isinstance(x, PartitionSpec):
        return x
    mesh = mesh if mesh is not None else get_mesh()
    if mesh is None or mesh.empty:
        raise ValueError(
            f"{x} needs a mesh: pass NamedSharding(mesh, {x}), or set one with xlab.set_mesh(mesh)"
        )
    return NamedSharding(mesh, x)


def _in_program(before: Any, after: Any, shape: Any, dtype: Any, link: Any) -> tuple[Transfer, ...]:
    if (
        not (isinstance(before, NamedSharding) and isinstance(after, NamedSharding))
        or before.devices_in_order != after.devices_in_order
    ):
        return ()
    struct = ShapeDtypeStruct(shape, dtype, sharding=before)
    with analysis_only():
        made = jit(lambda x: x, out_shardings=after, name="reshard").lower(struct).compile()
    return tuple(transfers_of(program_stages(made, (), {}), link=link, tries=0))


def _flags(a: ArrayLayout, b: ArrayLayout, carried: tuple[Transfer, ...]) -> tuple[str, ...]:
    """Warnings: a full copy made on the way to a part, and those of the new layout."""
    out = list(b.warnings)
    for t in carried:
        if t.kind == "all_gather" and b.bytes_per_device < b.bytes_total <= t.bytes_out:
            out.append(
                f"inside a program every device rebuilds the whole array, {size_text(b.bytes_total)}, to keep "
                f"{size_text(b.bytes_per_device)} of it (full rematerialization)"
            )
    return tuple(out)


def _moves(
    a: ArrayLayout, b: ArrayLayout
) -> tuple[tuple[tuple[int, int, int], ...], tuple[tuple[int, int], ...]]:
    """Messages, and what each device keeps of what it has."""
    total = math.prod(n for n in a.type.shape if isinstance(n, int))
    itemsize = a.bytes_total // total if total else 0
    holders: dict[Slices, list[int]] = {}
    for block in a.blocks:
        holders.setdefault(block.slices, []).append(block.device)
    held = {block.device: block.slices for block in a.blocks}
    place = _coordinates(a)
    moves: dict[tuple[int, int], int] = {}
    kept = []
    for block in b.blocks:
        missing, stays = [block.slices], 0
        own = held.get(block.device)
        first = [own] if own is not None else []
        for source in (*first, *(s for s in holders if s != own)):
            left: list[Slices] = []
            for piece in missing:
                common = _meet(piece, source)
                if common is None:
                    left.append(piece)
                    continue
                size = math.prod(stop - start for start, stop in common) * itemsize
                if source == own:
                    stays += size
                else:
                    near = _nearest(place, block.device, holders[source])
                    moves[near, block.device] = moves.get((near, block.device), 0) + size
                left += _without(piece, common)
            missing = left
        kept.append((block.device, stays))
    return tuple((s, t, n) for (s, t), n in sorted(moves.items()) if n), tuple(kept)


def _coordinates(x: ArrayLayout) -> dict[int, tuple[int, ...]]:
    """Where each device stands in the mesh of a layout."""
    sizes = x.mesh.axis_sizes if x.mesh is not None else (len(x.blocks),)
    return {block.device: at for block, at in zip(x.blocks, itertools.product(*map(range, sizes)))}


def _nearest(place: dict[int, tuple[int, ...]], target: int, devices: list[int]) -> int:
    """Of some devices the one that differs from the target in the fewest coordinates, and by the least."""
    to = place.get(target)
    if to is None:
        return devices[0]
    return min(
        devices,
        key=lambda d: (
            sum(p != q for p, q in zip(place[d], to)),
            sum(abs(p - q) for p, q in zip(place[d], to)),
            d,
        ),
    )


def _meet(a: Slices, b: Slices) -> Slices | None:
    out = tuple((max(x[0], y[0]), min(x[1], y[1])) for x, y in zip(a, b))
    return out if all(start < stop for start, stop in out) else None


def _without(piece: Slices, common: Slices) -> list[Slices]:
    """The difference of a box and a box inside it, as boxes."""
    out = []
    rest = list(piece)
    for d, ((start, stop), (low, high)) in enumerate(zip(piece, common)):
        if start < low:
            out.append((*rest[:d], (start, low), *rest[d + 1 :]))
        if high < stop:
            out.append((*rest[:d], (high, stop), *rest[d + 1 :]))
        rest[d] = (low, high)
    return out
