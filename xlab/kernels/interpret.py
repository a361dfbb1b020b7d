"""How a kernel is run: the argument `interpret` of `kernel_call` and `mpmd_map`, and its options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlab.config import config

_CHOICES: dict[str, tuple] = {
    "out_of_bounds_reads": ("raise", "uninitialized", "clamp"),
    "uninitialized_memory": ("nan", "zero"),
    "dma_execution_mode": ("on_wait", "eager"),
    "buffer_bounds": ("logical", "padded"),
    "uninitialized_reads": ("remark", "raise"),
    "on_race": ("record", "warn", "raise"),
    "detect_races": (False, True),
    "skip_floating_point_ops": (False, True),
    "strict_spaces": (False, True),
}
LOGGING = ("grid", "access", "copy", "semaphore")
SCHEDULES = ("sequential", "round_robin", "random", "threads")


@dataclass(frozen=True)
class InterpretParams:
    """Options of the value interpreter, which runs a kernel equation by equation and watches every access.

    Args:
        detect_races: find accesses to the same elements that no semaphore orders.
        out_of_bounds_reads: "raise", "uninitialized" (such elements read as uninitialized) or "clamp" (as compiled programs do).
        skip_floating_point_ops: replace floating-point results by inf, to see only the accesses.
        uninitialized_memory: what memory holds before it is written: "nan" (NaN, the lowest integer, False) or "zero".
        num_cores_or_threads: how many cores run the steps of parallel grid axes.
        dma_execution_mode: whether a copy happens when it is waited for ("on_wait") or when it is started ("eager").
        random_seed: visits cores and parallel steps in an order drawn from this seed.
        grid_point_recorder: called as `(grid coordinates, core)` at each step.
        logging_mode: names of what to print: "grid", "access", "copy", "semaphore".
        buffer_bounds: "logical" (what lies in padding counts as never written) or "padded" (as written).
        schedule: "sequential", "round_robin", "random", "threads", a sequence of core numbers, or a `machine.Schedule`.
        quantum: equations that a core runs at a time under "round_robin".
        vector_clock_size: entries of the race detector's clocks; by default one per core.
        strict_spaces: refuse direct access to buffers in the space ANY, as hardware does.
        max_equations: the interpreter stops with an error after that many equations.
        max_bytes: the interpreter stops with an error where its buffers would take more.
        uninitialized_reads: whether reading what nobody wrote is a remark in the machine's `lint`, or raises.
        on_race: whether races are only recorded, warned of, or raise at the end of the run.

    Raises:
        ValueError: an option has a value that it does not know.

    Example:
        >>> from xlab.kernels import InterpretParams
        >>> InterpretParams(detect_races=True).out_of_bounds_reads
        'raise'
    """

    detect_races: bool = False
    out_of_bounds_reads: str = "raise"
    skip_floating_point_ops: bool = False
    uninitialized_memory: str = "nan"
    num_cores_or_threads: int = 1
    dma_execution_mode: str = "on_wait"
    random_seed: int | None = None
    grid_point_recorder: Callable[..., Any] | None = None
    logging_mode: Any = None
    buffer_bounds: str = "logical"
    schedule: Any = "sequential"
    quantum: int = 1
    vector_clock_size: int | None = None
    strict_spaces: bool = False
    max_equations: int = 10_000_000
    max_bytes: int = 8 << 30
    uninitialized_reads: str = "remark"
    on_race: str = "record"

    def __post_init__(self):
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"InterpretParams: {name} is one of {', '.join(map(repr, allowed))}, got {getattr(self, name)!r}"
                )
        if isinstance(self.schedule, str):
            if self.schedule not in SCHEDULES:
                raise ValueError(
                    f"InterpretParams: schedule is one of {', '.join(map(repr, SCHEDULES))} or a sequence of core numbers, got "
                    f"{self.schedule!r}"
                )
        elif not hasattr(self.schedule, "choose"):
            if not isinstance(self.schedule, Iterable):
                raise ValueError(
                    f"InterpretParams: schedule is a name, a sequence of core numbers or a Schedule, got {self.schedule!r}"
                )
            object.__setattr__(self, "schedule", tuple(self.schedule))
        if not isinstance(self.logging_mode, Iterable | None):
            raise ValueError(
                f"InterpretParams: logging_mode holds names out of {', '.join(map(repr, LOGGING))}, got {self.logging_mode!r}"
            )
        modes = (self.logging_mode,) if isinstance(self.logging_mode, str) else self.logging_mode
        if not set(modes or ()) <= {*LOGGING}:
            raise ValueError(
                f"InterpretParams: logging_mode holds names out of {', '.join(map(repr, LOGGING))}, got {self.logging_mode!r}"
            )
        if modes is not None:
            object.__setattr__(self, "logging_mode", tuple(modes))
        for name in (
            "num_cores_or_threads",
            "quantum",
            "max_equations",
            "max_bytes",
            "vector_clock_size",
        ):
            value = getattr(self, name)
            if value is None and name == "vector_clock_size":
                continue
            if not _is_integer(value) or value < 1:
                raise ValueError(
                    f"InterpretParams: {name} is an integer of at least 1, got {value!r}"
                )
        if self.random_seed is not None and not _is_integer(self.random_seed):
            raise ValueError(
                f"InterpretParams: random_seed is an integer or None, got {self.random_seed!r}"
            )
        if self.grid_point_recorder is not None and not callable(self.grid_point_recorder):
            raise ValueError(
                f"InterpretParams: grid_point_recorder is a function of grid coordinates and a core, got "
                f"{self.grid_point_recorder!r}"
            )


def _is_integer(x) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


Interpret = bool | str | InterpretParams
_OVERRIDE = (
    "kernels_interpret_mode"  # part of what tracing depends on: jitted functions are traced anew
)


@contextmanager
def interpret_mode(interpret: Interpret = True) -> Iterator[None]:
    """Runs the kernels in the block so, whatever their own `interpret=` says; jitted functions that call them too.

    Args:
        interpret: as the argument of `kernel_call`.

    Raises:
        ValueError: it is none of the modes.

    Example:
        >>> import xlab
        >>> from xlab.kernels import interpret_mode, kernel_call
        >>> def one(o_ref):
        ...     o_ref[...] = 1.0
        >>> with interpret_mode():
        ...     float(kernel_call(one, xlab.ShapeDtypeStruct((), "float32"))())
        1.0
    """
    previous = config.set_context_value(_OVERRIDE, checked(interpret))
    try:
        yield
    finally:
        config.set_context_value(_OVERRIDE, previous)


def checked(interpret: Any) -> Any:
    """An `interpret=` argument as False, "compiled", "value" or `InterpretParams`."""
    if interpret is True or interpret == "compiled":
        return "compiled"
    if interpret is False or interpret is None:
        return False
    if interpret == "value" or isinstance(interpret, InterpretParams):
        return interpret
    raise ValueError(
        f'interpret is False, True (the same as "compiled"), "value" or InterpretParams(...), got {interpret!r}'
    )


def resolve(interpret: Any) -> Any:
    """The mode of a call: that of the enclosing `interpret_mode`, else its own, else the option `kernels_default_interpret`."""
    override = config.context_value(_OVERRIDE)
    if override is not None:
        return override
    return checked(interpret) or config.kernels_default_interpret or False


def value_params(interpret: Any) -> InterpretParams:
    """The options of the value interpreter for a call in this mode; the defaults where it names none."""
    return interpret if isinstance(interpret, InterpretParams) else InterpretParams()
