"""The value interpreter: kernels run equation by equation over NumPy buffers, on one core or on several that take turns.

Reading order: `programs.py` (what is run), `regions.py` (which elements an access means), `buffers.py` (memory), `frames.py` (programs
being run), `state.py` (all that changes), `schedule.py` (who is next), `engine.py` (one turn), `placement.py` and `points.py` (blocks of a grid point),
`accesses.py` and `synchronization.py` (rules for memory, semaphores and copies), `nested.py` (kernels in kernels), `races.py`, `failures.py`
and `remarks.py` (what is found), `events.py` (what is told), `breakpoints.py`, `history.py` (going back), `text.py`, `traced.py` (from a
call to a program), `threads.py`, `recording.py` (runs as plain data for views), `running.py` and `machine.py` (`Machine`), `blocks.py` (`trace_blocks`), `host.py`
(calls with `interpret="value"`), `explore.py` (other schedules, the shortest that shows a race).
"""

from xlab.kernels.machine import accesses as accesses
from xlab.kernels.machine import nested as nested
from xlab.kernels.machine import synchronization as synchronization
from xlab.kernels.machine.blocks import trace_blocks as trace_blocks
from xlab.kernels.machine.breakpoints import KernelBreakpoint as KernelBreakpoint
from xlab.kernels.machine.events import Access as Access
from xlab.kernels.machine.events import BlockEvent as BlockEvent
from xlab.kernels.machine.explore import Comparison as Comparison
from xlab.kernels.machine.explore import ShortestRace as ShortestRace
from xlab.kernels.machine.explore import compare_schedules as compare_schedules
from xlab.kernels.machine.explore import shortest_race as shortest_race
from xlab.kernels.machine.failures import DeadlockError as DeadlockError
from xlab.kernels.machine.failures import KernelRunError as KernelRunError
from xlab.kernels.machine.failures import KernelSpaceError as KernelSpaceError
from xlab.kernels.machine.failures import KernelWarning as KernelWarning
from xlab.kernels.machine.failures import MemoryBudgetError as MemoryBudgetError
from xlab.kernels.machine.failures import OutOfBoundsError as OutOfBoundsError
from xlab.kernels.machine.failures import RaceError as RaceError
from xlab.kernels.machine.failures import SemaphoreError as SemaphoreError
from xlab.kernels.machine.failures import StepBudgetError as StepBudgetError
from xlab.kernels.machine.failures import UninitializedReadError as UninitializedReadError
from xlab.kernels.machine.host import collect_machines as collect_machines
from xlab.kernels.machine.host import run as run
from xlab.kernels.machine.machine import Machine as Machine
from xlab.kernels.machine.programs import KernelProgram as KernelProgram
from xlab.kernels.machine.races import Race as Race
from xlab.kernels.machine.recording import MachineRecording as MachineRecording
from xlab.kernels.machine.schedule import Schedule as Schedule

__all__ = [
    "Access",
    "BlockEvent",
    "Comparison",
    "DeadlockError",
    "KernelBreakpoint",
    "KernelProgram",
    "KernelRunError",
    "KernelSpaceError",
    "KernelWarning",
    "Machine",
    "MachineRecording",
    "MemoryBudgetError",
    "OutOfBoundsError",
    "Race",
    "RaceError",
    "Schedule",
    "SemaphoreError",
    "ShortestRace",
    "StepBudgetError",
    "UninitializedReadError",
    "collect_machines",
    "compare_schedules",
    "run",
    "shortest_race",
    "trace_blocks",
]
