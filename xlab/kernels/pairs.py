"""The parameters of an `mpmd_map` as interpreters run them: per pair a mesh, a jaxpr, the cores, and whose each reference is."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlab.backend import caches
from xlab.core.jaxpr import ClosedJaxpr
from xlab.core.refs import AbstractRef
from xlab.kernels.blocks import block_mapping, no_block_spec
from xlab.kernels.grid import GridMapping
from xlab.kernels.semaphores import SemaphoreType

CALL, CORE = "call", "core"


@dataclass(frozen=True, eq=False)
class MpmdFunction:
    """One function of an `mpmd_map` and its mesh.

    Attributes:
        mesh: the cores that run it.
        jaxpr: of the function; its inputs are references: operands (what is captured last), outputs, scratch. All pairs of a
            call take the same ones.
        grid_mapping: the grid of the mesh, with the whole array as every block.
        cores: the coordinates of the cores along the axes of the mesh, the last axis fastest.
        owners: per reference "call" (one buffer for all cores of all pairs) or "core" (one buffer per core).
    """

    mesh: Any
    jaxpr: ClosedJaxpr
    grid_mapping: GridMapping
    cores: tuple[tuple[int, ...], ...]
    owners: tuple[str, ...]

    @property
    def ref_avals(self) -> list[AbstractRef]:
        return self.jaxpr.in_avals


def owner_of(ref: AbstractRef, scratch: bool) -> str:
    """Whose buffer a reference of a kernel is: operands and outputs belong to the call, scratch to a core unless it is shared.

    Semaphores are shared, so that cores can wait for one another; those of copies belong to the core that copies.
    """
    space = ref.memory_space
    if not scratch:
        return CALL
    if ref.kind == SemaphoreType.DMA.value:
        return CORE
    return CORE if space is None or getattr(space, "per_core", True) else CALL


def pairs_of(params: Mapping[str, Any], num_operands: int) -> tuple[MpmdFunction, ...]:
    """The pairs of an `mpmd_map`.

    Args:
        params: those of its equation.
        num_operands: how many operands it has, those captured too.
    """
    return _pairs(params["meshes"], params["jaxprs"], len(params["out_avals"]), num_operands)


@functools.lru_cache(maxsize=256)
def _pairs(meshes, jaxprs, n_out, n_in) -> tuple[MpmdFunction, ...]:
    return tuple(_pair(mesh, jaxpr, n_in, n_out) for mesh, jaxpr in zip(meshes, jaxprs))


caches.register(_pairs.cache_clear)


def _pair(mesh, jaxpr, n_in, n_out) -> MpmdFunction:
    refs: Sequence[AbstractRef] = jaxpr.in_avals
    first = n_in + n_out
    sizes = tuple(mesh.shape.values())
    names = jaxpr.jaxpr.debug_info.arg_names
    mappings = tuple(
        block_mapping(no_block_spec, ref, name, sizes) for ref, name in zip(refs[:first], names)
    )
    grid = GridMapping(
        grid=sizes,
        grid_names=tuple(mesh.shape),
        block_mappings=mappings,
        scratch_avals=tuple(refs[first:]),
        num_prefetch=0,
        num_inputs=n_in,
        num_outputs=n_out,
    )
    return MpmdFunction(
        mesh,
        jaxpr,
        grid,
        tuple(itertools.product(*map(range, sizes))),
        tuple(owner_of(ref, i >= first) for i, ref in enumerate(refs)),
    )
