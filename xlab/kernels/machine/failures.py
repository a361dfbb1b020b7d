"""Errors of the value interpreter. Each says where: pair, core, grid point, equation and the user's line.

The same facts are in the attribute `place` of the error, a dict; the machine stays as it was before the equation that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlab.kernels.failures import DeadlockError as DeadlockError
from xlab.kernels.failures import KernelRunError as KernelRunError
from xlab.kernels.failures import KernelWarning as KernelWarning


class OutOfBoundsError(KernelRunError, IndexError, ValueError):
    """A kernel reads or writes outside a reference, or its index map names a block outside the array.

    Fix: guard the access with a mask (`load(ref, index, mask=...)`) or `when`, or choose a grid and blocks that cover the array. Compiled
    programs move such accesses inside; `InterpretParams(out_of_bounds_reads="clamp")` does the same here.
    """


class KernelSpaceError(KernelRunError, ValueError):
    """A kernel accesses a buffer in the space ANY, and `InterpretParams(strict_spaces=True)` forbids it."""


class SemaphoreError(KernelRunError, ValueError):
    """A semaphore counts further than it can, or it is not clear which core's is meant."""


class UninitializedReadError(KernelRunError, ValueError):
    """A kernel reads memory that nobody wrote, and `InterpretParams(uninitialized_reads="raise")` asks for an error."""


class StepBudgetError(KernelRunError, RuntimeError):
    """A kernel took more turns than `InterpretParams(max_equations=...)` allows: most likely a loop that does not end."""

    @classmethod
    def of(
        cls, name: str, t: int, place: dict[str, Any], frames: Sequence[dict], rounds: int = 0
    ) -> StepBudgetError:
        loops = [f for f in frames if f["line"]]
        hot = (
            f"It is in {' inside '.join(f['label'] + ' at ' + f['line'] for f in reversed(loops))}."
            if loops
            else f"It is at equation {place['eqn']}, {place['line']}."
        )
        said = (
            f"{name} has gone {rounds} rounds through a loop without a single equation."
            if rounds
            else f"{name} has taken {t} turns, which is all that InterpretParams(max_equations={t}) allows."
        )
        made = cls(
            f"{said} {hot} Core {place['core']}, grid point {place['grid']}. Allow more, or look whether the loop's condition becomes "
            f"false."
        )
        made.place = place
        return made


class MemoryBudgetError(KernelRunError, MemoryError):
    """A kernel's buffers would take more than `InterpretParams(max_bytes=...)` allows."""


class RaceError(KernelRunError, RuntimeError):
    """Two accesses to the same elements, one of them a write, that nothing orders; `races` lists all that were found.

    Fix: signal a semaphore after the first access and wait for it before the second.
    """

    races: list[Any] = []


def with_place(error: KernelRunError, place: dict[str, Any]) -> KernelRunError:
    """The error, knowing where it happened."""
    error.place = place
    return error


def described(place: dict[str, Any]) -> str:
    """A place as words."""
    grid = f" at grid point {place['grid']}" if place["grid"] else ""
    where = f"core {place['core']} of pair {place['pair']}{grid}"
    if place["eqn"] is None:
        return f"{where}, before its first equation"
    return f"{where}, equation {place['eqn']} ({place['text']}), {place['line']}"
