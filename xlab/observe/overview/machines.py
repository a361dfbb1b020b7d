"""Machines that steps are predicted for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from xlab.backend import caches
from xlab.interpreters.communication_costs import LINKS, Interconnect
from xlab.observe.comparison.targets import topology
from xlab.observe.kernel_runs.rooflines import ROOFLINES, rooflines
from xlab.observe.records.base import Record
from xlab.observe.records.machine import Machine

CHIP_MEMORY = {"v4": 32, "v5e": 16, "v5p": 95, "v6e": 32, "tpu7x": 192}
"""GB of memory of one chip, from its maker's data sheet."""

_calibrated: list[Machine] = []
caches.register(_calibrated.clear)


def host_memory() -> int | None:
    """Bytes of this host's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def default_cpu() -> Machine:
    """Round numbers of a CPU core or two, for where nothing was measured."""
    link = LINKS["cpu"]
    return Machine(
        "cpu",
        "round numbers of a small CPU, not measured: observe.calibrate() measures this one",
        (("f32", 5e10), ("f64", 2.5e10), ("bf16", 2.5e10)),
        vector=5e9,
        transcendental=5e8,
        bandwidth=1e10,
        operation_us=1.0,
        dispatch_us=20.0,
        dispatch_device_us=20.0,
        alpha=link.alpha,
        beta=link.beta,
        memory=host_memory(),
        share=2.0,
        convolution=1e10,
        decomposition=5e9,
        transform=5e9,
        serial=2e8,
        shared_memory=True,
    )


def remember(machine: Machine) -> Machine:
    """Makes a machine the one that steps on this CPU are predicted for."""
    _calibrated[:] = [machine]
    return machine


_chosen: ContextVar[Machine | None] = ContextVar("machine", default=None)


@contextmanager
def predicting_for(what: Any) -> Iterator[Machine]:
    """Within it steps are predicted for a machine, as `machine` takes it, where none is named.

    >>> with predicting_for("tpu:v5e"):
    ...     current_machine().name
    'tpu:v5e'
    """
    found = machine(what)
    token = _chosen.set(None if what == "cpu" else found)
    try:
        yield found
    finally:
        _chosen.reset(token)


def current_machine() -> Machine:
    """The machine that steps are predicted for where none is named: the chosen one, else this CPU."""
    return _chosen.get() or machine()


def link_of(machine: Machine) -> Interconnect:
    """What lies between the devices of a machine."""
    return Interconnect(machine.name, machine.alpha, machine.beta, machine.start_us)


def machine(what: Any = "cpu") -> Machine:
    """A machine by its name.

    Args:
        what: `cpu` (as `observe.calibrate()` measured it, else round numbers that say so), a target such as `tpu:v5e` or `tpu:v5e:4x4`, or a
            `Machine`.

    Raises:
        ValueError: there is no such machine.

    Example:
        >>> m = machine("tpu:v5e")
        >>> m.rate("bf16"), m.memory
        (197000000000000.0, 16000000000)
    """
    if isinstance(what, Machine):
        return what
    if what == "cpu":
        return _calibrated[0] if _calibrated else default_cpu()
    known = ", ".join(["cpu", *(r.target for r in ROOFLINES)])
    if isinstance(what, Record) or not isinstance(what, str):
        raise TypeError(f"machine is a name ({known}) or a Machine; given {type(what).__name__}")
    if not what.startswith("tpu:"):
        raise ValueError(f"unknown machine {what!r}; there are {known}")
    (roof,) = rooflines(what)
    generation = topology(what if what.count(":") > 1 else f"{what}:1").partition(":")[0]
    link = LINKS["ici"]
    # Of other arithmetic the maker states nothing: a sixty-fourth of the matrix peak is about what its vector unit does.
    return Machine(
        roof.target,
        f"{roof.note}; links as round numbers, other arithmetic as a guess",
        (("bf16", roof.flops), ("f32", roof.flops / 2)),
        vector=roof.flops / 64,
        transcendental=roof.flops / 256,
        bandwidth=roof.bandwidth,
        operation_us=0.5,
        dispatch_us=10.0,
        alpha=link.alpha,
        beta=link.beta,
        memory=CHIP_MEMORY[generation] * 10**9 if generation in CHIP_MEMORY else None,
    )
