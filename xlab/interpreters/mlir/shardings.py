"""Shardy attributes for arguments, results and constraints."""

from __future__ import annotations

import math

from xlab.core.avals import ShapedArray
from xlab.core.sharding_rules import requested_sharding
from xlab.interpreters.mlir.values import escape, physical_aval, tensor_type
from xlab.sharding import AbstractMesh, NamedSharding, PartitionSpec, from_hlo_sharding


class MeshTable:
    """The meshes a module names: one symbol for each list of axes and devices."""

    def __init__(self):
        self._symbols: dict[tuple, str] = {}

    def symbol(self, mesh, device_ids=None) -> str:
        """The symbol of a mesh (concrete or abstract); `device_ids` says in which order it uses the devices."""
        return self.of_axes(
            tuple(mesh.shape.items()), tuple(device_ids) if device_ids is not None else None
        )

    def of_axes(self, axes: tuple[tuple[str, int], ...], ids: tuple[int, ...] | None = None) -> str:
        """The symbol of a mesh by the names and sizes of its axes."""
        key = (axes, ids)
        found = self._symbols.get(key)
        if found is None:
            for name, _ in axes:
                _check_axis(str(name))
            found = "mesh" if not self._symbols else f"mesh_{len(self._symbols)}"
            self._symbols[key] = found
        return found

    def whole(self, devices: int) -> str:
        """The symbol of some mesh over all devices of the program."""
        for (axes, ids), symbol in self._symbols.items():
            if axes and math.prod(size for _, size in axes) == devices and ids is None:
                return symbol
        return self._symbols.setdefault(
            ((("device", devices),), None),
            f"mesh_{len(self._symbols)}" if self._symbols else "mesh",
        )

    def first(self, devices: int) -> tuple[tuple, tuple[int, ...] | None] | None:
        """The axes and the order of devices of the first mesh over all devices of the program; None if it names none."""
        return next(
            (
                (axes, ids)
                for axes, ids in self._symbols
                if axes and math.prod(size for _, size in axes) == devices
            ),
            None,
        )

    def maximal(self, index: int) -> str:
        """The symbol of the mesh that is one device: number `index` of the program's devices."""
        return self._symbols.setdefault(((), (index,)), f"maximal_mesh_{index}")

    def lines(self) -> list[str]:
        out = []
        for (axes, ids), symbol in self._symbols.items():
            if not axes and ids:
                out.append(f"  sdy.mesh @{symbol} = <[], device_ids=[{ids[0]}]>")
                continue
            parts = ", ".join(f'"{escape(str(n))}"={s}' for n, s in axes)
            suffix = (
                ""
                if ids is None or list(ids) == list(range(len(ids)))
                else f", device_ids=[{', '.join(map(str, ids))}]"
            )
            out.append(f"  sdy.mesh @{symbol} = <[{parts}]{suffix}>")
        return out


def tiling_text(tiling, ndim: int, devices: int, meshes: MeshTable) -> str:
    """The sharding attribute of a tiling: over the program's mesh where that can say it, else over one made for it."""
    axes, ids = meshes.first(devices) or ((), None)
    if axes and ids is None:
        mesh = AbstractMesh(tuple(size for _, size in axes), tuple(name for name, _ in axes))
        spec = from_hlo_sharding(tiling, mesh, ndim)
        if spec is not None:
            return NamedSharding(mesh, spec).sdy(ndim, meshes.of_axes(axes))
    dims, order = (devices,), tuple(range(devices))
    tiles: tuple = ()
    if not tiling.is_replicated():  # one axis for each dimension of the tiles
        dims = tiles = tuple(map(int, tiling.tile_assignment_dimensions()))
        order = tuple(map(int, tiling.tile_assignment_devices()))
    names = tuple((f"_axis_{d}", n) for d, n in enumerate(dims) if n > 1)
    symbol = meshes.of_axes(names, None if order == tuple(range(devices)) else order)
    parts = (f'{{"_axis_{d}"}}' if d < len(tiles) and tiles[d] > 1 else "{}" for d in range(ndim))
    return f"#sdy.sharding<@{symbol}, [{', '.join(parts)}]>"


def part_type(aval, tiling) -> str:
    """The type of a device's part of a value under a tiling; where that does not come out even, the parts are padded."""
    aval = physical_aval(aval)
    tiled = tiling.is_tiled() and not tiling.is_replicated()
    tiles = tuple(tiling.tile_assignment_dimensions())[: aval.ndim] if tiled else (1,) * aval.ndim
    shape = tuple(-(-size // n) for size, n in zip(aval.shape, tiles, strict=True))
    return tensor_type(aval.update(shape=shape, sharding=None))


def left_to_compiler(ctx) -> bool:
    """Whether the code runs over several devices, and how values lie is the compiler's choice along some axis."""
    if ctx.manual:
        return any(n not in ctx.manual and size > 1 for n, size in ctx.mesh.shape.items())
    return ctx.module.devices > 1


def _check_axis(name: str) -> None:
    """Refuses a name that ends the process: the partitioner reads escaped letters of a mesh's axes back and aborts."""
    if not name.isascii() or not name.isprintable() or "\\" in name:
        raise ValueError(
            f"the mesh has an axis named {name!r}: the compiler reads names of axes in printable ASCII without backslashes only. "
            f"Make the mesh with another name for it, such as 'data'"
        )


def constrain(ctx, x: str, aval, explicit=None) -> str:
    """Constrains a value to the sharding of its type; along other than Explicit axes the compiler is free.

    `explicit` gives the sharding where the type has none, or one over another mesh.
    """
    explicit = explicit if explicit is not None else aval.explicit_sharding
    if ctx.module.devices == 1 or not explicit.mesh.explicit_axes:
        return x
    mesh = explicit.mesh
    free = ["?"] if mesh.auto_axes else []
    dims = []
    for d in range(physical_aval(aval).ndim):
        axes = explicit.spec.axes_of(d) if d < aval.ndim else ()
        dims.append("{" + ", ".join([*(f'"{escape(str(a))}"' for a in axes), *free]) + "}")
    kept = (
        [f'"{escape(str(a))}"' for a in mesh.explicit_axes if a not in set(explicit.spec.axes())]
        if free
        else []
    )
    whole = f", replicated={{{', '.join(kept)}}}" if kept else ""
    if aval.mat.unreduced and not ctx.manual:
        listed = ", ".join(
            f'"{escape(str(a))}"' for a in mesh.axis_names if a in aval.mat.unreduced
        )
        whole += f", unreduced={{{listed}}}"
    return ctx.op(
        f"sdy.sharding_constraint {x} <@{ctx.module.meshes.symbol(mesh)}, [{', '.join(dims)}]{whole}> : {tensor_type(aval)}"
    )


def constrain_sums(ctx, names, avals) -> list[str]:
    """Values constrained to their types where these are unreduced over the mesh of the whole program.

    Used for values inside an operation's lowering: without it the compiler would reduce them when they enter a region.
    """
    mesh = ctx.module.typed_mesh
    if mesh is None or ctx.manual:
        return list(names)
    return [
        constrain(ctx, x, a, a.explicit_sharding or NamedSharding(mesh, PartitionSpec()))
        if type(a) is ShapedArray and a.mat.unreduced
        else x
        for x, a in zip(names, avals, strict=True)
    ]


def constrain_results(ctx, outs):
    """The results of the current equation, each held to the sharding its type states."""
    explicit = next(
        (
            a.explicit_sharding
            for a in (*ctx.avals_out, *ctx.avals_in)
            if type(a) is ShapedArray and a.explicit_sharding is not None
        ),
        None,
    )
    if explicit is None:
        explicit = requested_sharding(ctx.params)
    if (
        explicit is None
        and ctx.module.typed_mesh is not None
        and any(a.mat.unreduced for a in (*ctx.avals_out, *ctx.avals_in) if type(a) is ShapedArray)
    ):
        explicit = NamedSharding(ctx.module.typed_mesh, PartitionSpec())
    if explicit is None:
        return outs
    if outs.__class__ is str:
        return constrain(
            ctx,
            outs,
            ctx.avals_out[0],
            ctx.avals_out[0].explicit_sharding or NamedSharding(explicit.mesh, PartitionSpec()),
        )
    return [
        constrain(ctx, x, a, a.explicit_sharding or NamedSharding(explicit.mesh, PartitionSpec()))
        if type(a) is ShapedArray
        else x
        for x, a in zip(outs, ctx.avals_out)
    ]
