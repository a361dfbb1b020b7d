"""Kernels: programs over grids of blocks, with references, memory spaces, semaphores and cores.

Reading order: `memory.py` (memory spaces and the types of scratch), `blocks.py` (blocks of arrays), `grid.py` (grids),
`program.py` (the position in the grid), `trace.py` (from a kernel to its jaxpr), `aliases.py` (which outputs start as inputs),
`operands.py` (arguments and outputs), `call.py` (`kernel_call`), `sharing.py` (when two calls are one program), `call_primitive.py` (its primitive), `call_rules.py`
(derivatives, batching, discharge), `check.py` (which jaxprs are kernels), `compiled.py` (its compiled path), `lowering.py` (how kernels are lowered), `params.py` (options for
the compilers of platforms), `cost.py` (what a kernel costs), `interpret.py` (how kernels are run). What kernels say: `helpers.py`
(branches, loops, checks, sizes), `access.py` (masked reads and writes), `scoped.py` (references for a part of a program),
`semaphores.py`, `copies.py`, `pipeline.py` (a grid inside of a kernel); their primitives share `ref_primitives.py`. Several functions at once: `mesh.py` (meshes of cores, memory
tied to them), `mpmd.py` (`mpmd_map`), `mpmd_trace.py` (its functions as jaxprs of one signature), `mpmd_primitive.py` (its primitive),
`pairs.py` (what interpreters run), `mpmd_compiled.py` (its compiled path), `static_schedule.py` (cores that wait for one another),
`core_map.py`, `kernel.py` (the decorator). `machine/` is the value interpreter, which programs call through
`value_path.py`; `failures.py` has the errors of running kernels that
others raise too. References are those of `xlab.ref`; their names are here too.

The room may import everything below `observe`; nothing below imports it.
"""

from xlab.core.refs import AbstractRef as AbstractRef
from xlab.core.refs import Ref as Ref
from xlab.interpreters.discharge import discharge_state as discharge_state
from xlab.kernels import call_rules as _call_rules
from xlab.kernels import machine as machine
from xlab.kernels.access import load as load
from xlab.kernels.access import store as store
from xlab.kernels.access import swap as swap
from xlab.kernels.blocks import BlockDim as BlockDim
from xlab.kernels.blocks import Blocked as Blocked
from xlab.kernels.blocks import BlockMapping as BlockMapping
from xlab.kernels.blocks import BlockSpec as BlockSpec
from xlab.kernels.blocks import BoundedSlice as BoundedSlice
from xlab.kernels.blocks import Buffered as Buffered
from xlab.kernels.blocks import Element as Element
from xlab.kernels.blocks import Indirect as Indirect
from xlab.kernels.blocks import RevisitMode as RevisitMode
from xlab.kernels.blocks import Squeezed as Squeezed
from xlab.kernels.blocks import no_block_spec as no_block_spec
from xlab.kernels.blocks import squeezed as squeezed
from xlab.kernels.call import kernel_call as kernel_call
from xlab.kernels.call_primitive import kernel_call_p as kernel_call_p
from xlab.kernels.check import check_kernel_jaxpr as check_kernel_jaxpr
from xlab.kernels.copies import AsyncCopy as AsyncCopy
from xlab.kernels.copies import async_copy as async_copy
from xlab.kernels.copies import make_async_copy as make_async_copy
from xlab.kernels.copies import sync_copy as sync_copy
from xlab.kernels.copies import with_memory_space_constraint as with_memory_space_constraint
from xlab.kernels.core_map import core_map as core_map
from xlab.kernels.core_map import core_map_p as core_map_p
from xlab.kernels.cost import CostEstimate as CostEstimate
from xlab.kernels.cost import estimate_cost as estimate_cost
from xlab.kernels.cost import register_cost_rule as register_cost_rule
from xlab.kernels.grid import GridMapping as GridMapping
from xlab.kernels.grid import GridSpec as GridSpec
from xlab.kernels.grid import PrefetchGridSpec as PrefetchGridSpec
from xlab.kernels.helpers import align_to as align_to
from xlab.kernels.helpers import broadcast_to as broadcast_to
from xlab.kernels.helpers import cdiv as cdiv
from xlab.kernels.helpers import debug_check as debug_check
from xlab.kernels.helpers import debug_print as debug_print
from xlab.kernels.helpers import dot as dot
from xlab.kernels.helpers import enable_debug_checks as enable_debug_checks
from xlab.kernels.helpers import loop as loop
from xlab.kernels.helpers import multiple_of as multiple_of
from xlab.kernels.helpers import next_power_of_2 as next_power_of_2
from xlab.kernels.helpers import reciprocal as reciprocal
from xlab.kernels.helpers import strides_from_shape as strides_from_shape
from xlab.kernels.helpers import when as when
from xlab.kernels.interpret import InterpretParams as InterpretParams
from xlab.kernels.interpret import interpret_mode as interpret_mode
from xlab.kernels.kernel import kernel as kernel
from xlab.kernels.machine import DeadlockError as DeadlockError
from xlab.kernels.machine import KernelWarning as KernelWarning
from xlab.kernels.machine import Machine as Machine
from xlab.kernels.machine import OutOfBoundsError as OutOfBoundsError
from xlab.kernels.machine import RaceError as RaceError
from xlab.kernels.machine import Schedule as Schedule
from xlab.kernels.machine import compare_schedules as compare_schedules
from xlab.kernels.machine import trace_blocks as trace_blocks
from xlab.kernels.memory import ANY as ANY
from xlab.kernels.memory import HOST as HOST
from xlab.kernels.memory import MemoryRef as MemoryRef
from xlab.kernels.memory import MemorySpace as MemorySpace
from xlab.kernels.mesh import CoreMemorySpace as CoreMemorySpace
from xlab.kernels.mesh import CoreMesh as CoreMesh
from xlab.kernels.mesh import KernelMesh as KernelMesh
from xlab.kernels.mesh import create_core_mesh as create_core_mesh
from xlab.kernels.mpmd import mpmd_map as mpmd_map
from xlab.kernels.mpmd_primitive import mpmd_map_p as mpmd_map_p
from xlab.kernels.params import register_lowering_rule as register_lowering_rule
from xlab.kernels.pipeline import emit_pipeline as emit_pipeline
from xlab.kernels.program import num_programs as num_programs
from xlab.kernels.program import program_id as program_id
from xlab.kernels.scoped import run_scoped as run_scoped
from xlab.kernels.scoped import run_state as run_state
from xlab.kernels.scoped import with_scoped as with_scoped
from xlab.kernels.semaphores import SemaphoreRef as SemaphoreRef
from xlab.kernels.semaphores import SemaphoreType as SemaphoreType
from xlab.kernels.semaphores import semaphore_read as semaphore_read
from xlab.kernels.semaphores import semaphore_signal as semaphore_signal
from xlab.kernels.semaphores import semaphore_wait as semaphore_wait
from xlab.lax.indexers import NDIndexer as NDIndexer
from xlab.lax.indexers import Slice as Slice
from xlab.lax.indexers import ds as ds
from xlab.lax.ref_functions import empty_ref as empty_ref
from xlab.lax.ref_functions import freeze as freeze
from xlab.lax.ref_functions import new_ref as new_ref
from xlab.lax.ref_functions import ref_addupdate as ref_addupdate
from xlab.lax.ref_functions import ref_get as ref_get
from xlab.lax.ref_functions import ref_set as ref_set
from xlab.lax.ref_functions import ref_swap as ref_swap
from xlab.lax.ref_functions import select_ref as select_ref
from xlab.lax.ref_views import TransformedRef as TransformedRef
