"""The names that kernel authors import as `pltpu`, as far as they mean something in interpretation.

Memory spaces are those of `xlab.kernels`, of which several stand for one: VMEM and SMEM belong to a core, HBM and ANY to the whole call.
Nothing here says how a TPU would run a program.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlab import kernels, lax
from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.refs import Ref
from xlab.core.typing import Array, ArrayLike
from xlab.experimental.pallas.emulated import CompilerParams as _CompilerParams
from xlab.kernels import AsyncCopy
from xlab.kernels import PrefetchGridSpec as PrefetchScalarGridSpec
from xlab.kernels import SemaphoreType as SemaphoreType
from xlab.kernels import make_async_copy as make_async_copy
from xlab.kernels import sync_copy as sync_copy
from xlab.kernels import with_memory_space_constraint as with_memory_space_constraint

__all__ = [
    "ANY", "ARBITRARY", "CMEM", "CORE_PARALLEL", "CompilerParams", "GridDimensionSemantics", "HBM", "HOST", "InterpretParams", "MemorySpace",
    "PARALLEL", "PrefetchScalarGridSpec", "SEMAPHORE", "SMEM", "SUBCORE_PARALLEL", "SemaphoreType", "VMEM", "VMEM_SHARED", "async_copy",
    "bitcast", "create_tensorcore_mesh", "dma_semaphore", "emit_pipeline", "force_tpu_interpret_mode", "is_tpu_device", "load", "make_async_copy", "roll", "run_on_first_core",
    "store", "sync_copy", "with_memory_space_constraint",
]  # fmt: skip


class MemorySpace:
    """The memory spaces by the names of their hardware. Called with a shape and a dtype, each gives the type of a reference in it.

    Example:
        >>> from xlab.experimental.pallas import tpu as pltpu
        >>> pltpu.MemorySpace.VMEM((8, 128), "float32")
        MemoryRef(float32[8,128], local)
    """

    ANY = HBM = kernels.MemorySpace.ANY
    HOST = kernels.MemorySpace.HOST
    VMEM = SMEM = kernels.MemorySpace.LOCAL
    CMEM = VMEM_SHARED = kernels.MemorySpace.SHARED
    SEMAPHORE = kernels.MemorySpace.SEMAPHORE


ANY, HBM, HOST = MemorySpace.ANY, MemorySpace.HBM, MemorySpace.HOST
VMEM, SMEM = MemorySpace.VMEM, MemorySpace.SMEM
CMEM, VMEM_SHARED = MemorySpace.CMEM, MemorySpace.VMEM_SHARED
SEMAPHORE = MemorySpace.SEMAPHORE
dma_semaphore = SemaphoreType.DMA


@dataclass(frozen=True)
class InterpretParams(kernels.InterpretParams):
    """Options of the value interpreter, as `xlab.kernels.InterpretParams`.

    Args:
        allow_hbm_allocation_in_run_scoped: without effect: references of any memory space may be made in `run_scoped`.

    Example:
        >>> from xlab.experimental.pallas import tpu as pltpu
        >>> pltpu.InterpretParams(detect_races=True).uninitialized_memory
        'nan'
    """

    allow_hbm_allocation_in_run_scoped: bool = False


class GridDimensionSemantics(enum.StrEnum):
    """Whether the steps along an axis of a grid may run in any order, or on several cores."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


PARALLEL, ARBITRARY = GridDimensionSemantics.PARALLEL, GridDimensionSemantics.ARBITRARY
CORE_PARALLEL = GridDimensionSemantics.CORE_PARALLEL
SUBCORE_PARALLEL = GridDimensionSemantics.SUBCORE_PARALLEL


@dataclass(frozen=True)
class CompilerParams(_CompilerParams):
    """What a compiler for TPUs would be told. Interpretation reads `dimension_semantics` and keeps the rest.

    Args:
        dimension_semantics: per axis of the grid "parallel" or "arbitrary"; the value interpreter visits parallel steps in any order.
        allow_input_fusion: per operand.
        vmem_limit_bytes: how much VMEM may be used.
        collective_id: which barrier semaphore is used.
        has_side_effects: whether the call is kept if its results are not used.
        flags: further options of the compiler.
        internal_scratch_in_bytes: memory for the compiler.
        serialization_format: of the program.
        disable_bounds_checks, disable_semaphore_checks, skip_device_barrier: checks to leave out.
        allow_collective_id_without_custom_barrier, shape_invariant_numerics, use_tc_tiling_on_sc, needs_layout_passes: further options.
        fuse_transposed_lhs_in_matmul: another one.
    """

    dimension_semantics: Sequence[str | GridDimensionSemantics] | None = None
    allow_input_fusion: Sequence[bool] | None = None
    vmem_limit_bytes: int | None = None
    collective_id: int | None = None
    has_side_effects: bool = False
    flags: Mapping[str, Any] | None = None
    internal_scratch_in_bytes: int | None = None
    serialization_format: int = 1
    disable_bounds_checks: bool = False
    disable_semaphore_checks: bool = False
    skip_device_barrier: bool = False
    allow_collective_id_without_custom_barrier: bool = False
    shape_invariant_numerics: bool = True
    use_tc_tiling_on_sc: bool | None = None
    needs_layout_passes: bool = True
    fuse_transposed_lhs_in_matmul: bool = False

    def __post_init__(self):
        for name in ("dimension_semantics", "allow_input_fusion"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.flags is not None:
            object.__setattr__(self, "flags", tuple(sorted(dict(self.flags).items())))


# -- functions ----------------------------------------------------------------------------------------------


def load(ref: Ref, *, mask: ArrayLike | None = None) -> Array:
    """Reads a reference where a mask is true, as `xlab.kernels.load`.

    Args:
        ref: a reference, or a view `ref.at[...]`.
        mask: booleans that broadcast to its shape.
    """
    return kernels.load(ref, mask=mask)


def store(ref: Ref, val: ArrayLike, *, mask: ArrayLike | None = None) -> None:
    """Stores a value in a reference where a mask is true, as `xlab.kernels.store`.

    Args:
        ref: a reference, or a view `ref.at[...]`.
        val: an array of its shape and dtype.
        mask: booleans that broadcast to its shape.
    """
    kernels.store(ref, None, val, mask=mask)


def async_copy(
    src_ref: Ref, dst_ref: Ref, sem: Ref, *, priority: int = 0, add: bool = False
) -> AsyncCopy:
    """Starts a copy, as `xlab.kernels.async_copy`.

    Args:
        src_ref, dst_ref: references, or views of parts, of one shape and dtype.
        sem: a semaphore of the kind `SemaphoreType.DMA`.
        priority: a hint.
        add: whether to add to the destination.
    """
    return kernels.async_copy(src_ref, dst_ref, sem, add=add)


def roll(
    x: Array,
    shift: ArrayLike,
    axis: int,
    *,
    stride: int | None = None,
    stride_axis: int | None = None,
) -> Array:
    """The array with its elements moved along an axis, the last ones to the front.

    Args:
        x: an array.
        shift: how far, not negative.
        axis: along which axis.
        stride: how much further from position to position of `stride_axis`.
        stride_axis: the axis along which the shift grows.

    Raises:
        ValueError: a negative shift or stride, an axis that is not there, or one of `stride` and `stride_axis` without the other.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.experimental.pallas import tpu as pltpu
        >>> pltpu.roll(jnp.arange(6).reshape(2, 3), 1, 1, stride=1, stride_axis=0).tolist()
        [[2, 0, 1], [4, 5, 3]]
    """
    ndim = aval_of(x).ndim
    if isinstance(shift, (int, np.integer)) and shift < 0:
        raise ValueError(f"shift must be non-negative, got {shift}")
    if not 0 <= axis < ndim:
        raise ValueError(f"axis is out of range: {axis} for an array of {ndim} dimensions")
    if (stride is None) != (stride_axis is None):
        raise ValueError("stride and stride_axis must be both specified or not specified")
    if stride is None or stride_axis is None:
        return jnp.roll(x, shift, axis)
    if stride < 0:
        raise ValueError(f"stride must be non-negative, got {stride}")
    if not 0 <= stride_axis < ndim or stride_axis == axis:
        raise ValueError(f"stride_axis is out of range, or the axis itself: {stride_axis}")
    n = aval_of(x).shape
    places = lax.broadcasted_iota(np.int32, n, axis)
    further = lax.broadcasted_iota(np.int32, n, stride_axis) * stride
    return jnp.take_along_axis(x, (places - further - shift) % n[axis], axis)


def bitcast(x: Array, ty: Any) -> Array:
    """The same bits as elements of another dtype. Where the sizes of elements differ, the second-last dimension grows or shrinks.

    Args:
        x: an array of at least two dimensions, if the sizes differ.
        ty: the new dtype.

    Raises:
        ValueError: the second-last dimension is missing or cannot be divided.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.experimental.pallas import tpu as pltpu
        >>> pltpu.bitcast(jnp.array([[1], [2]], "int16"), "int32").tolist()
        [[131073]]
    """
    aval, new = aval_of(x), np.dtype(dtypes.canonicalize_dtype(ty))
    old = aval.dtype.itemsize
    if old == new.itemsize:
        return lax.bitcast_convert_type(x, new)
    if aval.ndim < 2:
        raise ValueError(
            f"Not implemented: bitcast of {aval} to {new.name}, whose elements have another size, takes two dimensions"
        )
    *outer, rows, columns = aval.shape
    if old > new.itemsize:
        parts = jnp.moveaxis(lax.bitcast_convert_type(x, new), -1, -2)
        return parts.reshape(*outer, rows * (old // new.itemsize), columns)
    ratio = new.itemsize // old
    if rows % ratio:
        raise ValueError(
            f"bitcast of {aval} to {new.name} packs {ratio} rows into one, and {rows} rows cannot be divided so"
        )
    parts = jnp.moveaxis(x.reshape(*outer, rows // ratio, ratio, columns), -2, -1)
    return lax.bitcast_convert_type(parts, new)


def create_tensorcore_mesh(
    axis_name: str, devices: Sequence[Any] | None = None, num_cores: int | None = None
) -> Any:
    """A mesh of simulated cores along one axis, as `xlab.kernels.create_core_mesh`.

    Args:
        axis_name: the name of the axis.
        devices: one core for each of them.
        num_cores: how many cores; 1 where neither is given.
    """
    return kernels.create_core_mesh(axis_name, devices, num_cores)


def run_on_first_core(core_axis_name: str) -> Callable[[Callable[[], None]], None]:
    """Decorates a function without arguments, which the first core along an axis calls at once, and no other.

    Args:
        core_axis_name: the name of the axis.
    """
    return kernels.when(lax.axis_index(core_axis_name) == 0)


def emit_pipeline(
    body: Callable[..., None],
    *,
    grid: Sequence[Any],
    in_specs: Any = (),
    out_specs: Any = (),
    tiling: Any = None,
    core_axis: Any = None,
    core_axis_name: Any = None,
    dimension_semantics: Sequence[Any] | None = None,
    trace_scopes: bool = True,
    no_pipelining: bool = False,
    _explicit_indices: bool = False,
) -> Callable[..., None]:
    """A loop over a grid inside of a kernel, as `xlab.kernels.emit_pipeline`.

    Args:
        body, grid, in_specs, out_specs: as there.
        tiling, dimension_semantics, trace_scopes, no_pipelining: hints for hardware. Steps run one after the other, in order.
        core_axis, core_axis_name: not supported: each core runs the whole grid. Choose its part by `lax.axis_index` in an index map.

    Raises:
        NotImplementedError: a core axis.
    """
    if core_axis is not None or core_axis_name is not None:
        raise NotImplementedError(
            "emit_pipeline does not divide a grid among cores: give each core a grid of its part, and let index maps add where it starts, "
            "as in lambda i: (lax.axis_index(name) * steps + i,)"
        )
    return kernels.emit_pipeline(
        body,
        grid=grid,
        in_specs=in_specs,
        out_specs=out_specs,
        explicit_indices=_explicit_indices,
    )


def force_tpu_interpret_mode(
    params: InterpretParams = InterpretParams(),
) -> AbstractContextManager[None]:
    """Runs the kernels of the block in the value interpreter, whatever their own `interpret=` says.

    Args:
        params: its options.
    """
    return kernels.interpret_mode(params)


def is_tpu_device() -> bool:
    """Whether kernels run on a TPU: they do not."""
    return False


_DRAW = "draw with xlab.random inside the kernel, from a seed or a key that is an operand"
_SEND = "send with xlab.lax.ppermute between kernels, or copy between cores of one mesh, which share memory"
_PACK = "convert with .astype, or look at the bits with ref.bitcast"
_INSTEAD = {
    **dict.fromkeys(("prng_seed", "prng_random_bits", "to_pallas_key"), _DRAW),
    **dict.fromkeys(("stateful_bits", "stateful_uniform", "stateful_normal"), _DRAW),
    **dict.fromkeys(("stateful_bernoulli", "sample_block"), _DRAW),
    **dict.fromkeys(("make_async_remote_copy", "async_remote_copy"), _SEND),
    **dict.fromkeys(("get_barrier_semaphore", "core_barrier"), "count with a semaphore that all cores signal and wait for"),
    **dict.fromkeys(("pack_elementwise", "unpack_elementwise", "stochastic_round"), _PACK),
    **dict.fromkeys(("matmul_push_rhs", "matmul_acc_lhs", "matmul_pop"), "multiply with @"),
    "einshape": "use reshape and transpose of the value",
    "set_tpu_interpret_mode": "use force_tpu_interpret_mode(), for a block",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    instead = _INSTEAD.get(name)
    hint = f": it asks for what only a TPU has. Here, {instead}" if instead else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
