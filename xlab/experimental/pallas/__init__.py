"""The field's names for kernels, `from xlab.experimental import pallas as pl`; they live in `xlab.kernels`.

Programs run in interpretation, as `pallas_call(..., interpret=True)`. `tpu.py` has the names that kernel authors import as `pltpu`, as far
as they mean something there; `emulated.py` what only these names need.
"""

from xlab.experimental.pallas.emulated import CompilerParams as CompilerParams
from xlab.experimental.pallas.emulated import DeviceIdType as DeviceIdType
from xlab.experimental.pallas.emulated import delay as delay
from xlab.experimental.pallas.emulated import empty_like as empty_like
from xlab.experimental.pallas.emulated import empty_ref_like as empty_ref_like
from xlab.experimental.pallas.emulated import enable_poison_buffers as enable_poison_buffers
from xlab.experimental.pallas.emulated import get_global as get_global
from xlab.experimental.pallas.emulated import lower_as_mlir as lower_as_mlir
from xlab.experimental.pallas.emulated import (
    pallas_export_experimental as pallas_export_experimental,
)
from xlab.experimental.pallas.emulated import semaphore_signal as semaphore_signal
from xlab.kernels import ANY as ANY
from xlab.kernels import HOST as HOST
from xlab.kernels import BlockDim as BlockDim
from xlab.kernels import Blocked as Blocked
from xlab.kernels import BlockSpec as BlockSpec
from xlab.kernels import BoundedSlice as BoundedSlice
from xlab.kernels import Buffered as Buffered
from xlab.kernels import CostEstimate as CostEstimate
from xlab.kernels import Element as Element
from xlab.kernels import GridSpec as GridSpec
from xlab.kernels import Indirect as Indirect
from xlab.kernels import MemoryRef as MemoryRef
from xlab.kernels import MemorySpace as MemorySpace
from xlab.kernels import RevisitMode as RevisitMode
from xlab.kernels import SemaphoreType as _SemaphoreType
from xlab.kernels import Squeezed as Squeezed
from xlab.kernels import align_to as align_to
from xlab.kernels import broadcast_to as broadcast_to
from xlab.kernels import cdiv as cdiv
from xlab.kernels import core_map as core_map
from xlab.kernels import debug_check as debug_check
from xlab.kernels import debug_print as debug_print
from xlab.kernels import dot as dot
from xlab.kernels import enable_debug_checks as enable_debug_checks
from xlab.kernels import estimate_cost as estimate_cost
from xlab.kernels import kernel as kernel
from xlab.kernels import kernel_call as pallas_call
from xlab.kernels import kernel_call_p as pallas_call_p
from xlab.kernels import load as load
from xlab.kernels import loop as loop
from xlab.kernels import multiple_of as multiple_of
from xlab.kernels import next_power_of_2 as next_power_of_2
from xlab.kernels import no_block_spec as no_block_spec
from xlab.kernels import num_programs as num_programs
from xlab.kernels import program_id as program_id
from xlab.kernels import reciprocal as reciprocal
from xlab.kernels import run_scoped as run_scoped
from xlab.kernels import run_state as run_state
from xlab.kernels import semaphore_read as semaphore_read
from xlab.kernels import semaphore_wait as semaphore_wait
from xlab.kernels import squeezed as squeezed
from xlab.kernels import store as store
from xlab.kernels import strides_from_shape as strides_from_shape
from xlab.kernels import swap as swap
from xlab.kernels import when as when
from xlab.kernels import with_scoped as with_scoped
from xlab.lax.indexers import Slice as Slice
from xlab.lax.indexers import ds as ds
from xlab.lax.indexers import dslice as dslice
from xlab.lax.ref_functions import select_ref as select_ref
from xlab.numpy import empty as empty

semaphore = _SemaphoreType.REGULAR


def __getattr__(name: str):
    if name != "tpu":
        raise AttributeError(f"module 'xlab.experimental.pallas' has no attribute {name!r}")
    from importlib import import_module

    return import_module("xlab.experimental.pallas.tpu")
