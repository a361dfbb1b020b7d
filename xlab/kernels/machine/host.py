"""Running a kernel's equation whole: what calls with `interpret="value"` do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from xlab.kernels.failures import warn
from xlab.kernels.interpret import InterpretParams, value_params
from xlab.kernels.machine.machine import Machine
from xlab.kernels.machine.state import inside
from xlab.kernels.machine.traced import program_of_equation
from xlab.kernels.value_path import set_runner


@contextmanager
def collect_machines() -> Iterator[list[Machine]]:
    """A list of the machines of all calls with `interpret="value"` that run in the block, on any thread, their events logged.

    Under `shard_map` each device has its own; `machine.program.device` is its number.

    Example:
        >>> import xlab
        >>> from xlab.kernels import kernel_call
        >>> from xlab.kernels.machine import collect_machines
        >>> def fill(o_ref):
        ...     o_ref[...] = 1.0
        >>> call = xlab.jit(kernel_call(fill, xlab.ShapeDtypeStruct((), "float32"), interpret="value"))
        >>> with collect_machines() as machines:
        ...     _ = call().block_until_ready()
        >>> [m.count for m in machines]
        [1]
    """
    found: list[Machine] = []
    _collectors.append(found)
    try:
        yield found
    finally:
        _collectors.remove(found)


_collectors: list[list[Machine]] = []


def run(
    prim: Any,
    eqn_params: dict[str, Any],
    operands: Sequence[Any],
    device: int | None = None,
    position: Mapping[Any, int] = {},
    params: InterpretParams | None = None,
) -> tuple[list[np.ndarray], dict[int, np.ndarray]]:
    """Runs a `kernel_call` or `mpmd_map` equation on concrete operands.

    Args:
        prim: its primitive.
        eqn_params: its parameters.
        device: the number of the device, where each has its own run.
        position: where it stands along the axes of its mesh.
        params: options; by default those of the equation.

    Returns:
        The outputs, and new values of operands that were written: what the caller sees of them if they are references.
    """
    params = params or value_params(eqn_params.get("interpret"))
    program = program_of_equation(prim, eqn_params, operands, params, device)
    program = replace(program, position=dict(position)) if position else program
    collectors = list(_collectors)
    machine = Machine(program, params=params, record=bool(collectors), undo=bool(collectors))
    for found in collectors:
        found.append(machine)
    outs = machine.run()
    assert outs is not None
    if machine.races and params.on_race == "record":
        count = len(machine.races)
        warn(
            f"{count} race{'s' * (count != 1)} in {program.name}: {machine.races[0]}. Look at all with "
            f"xlab.kernels.machine.Machine(call, *args, params=...)"
        )
    buffers = machine.now.buffers
    grid = eqn_params.get("grid_mapping")
    updates = {}
    for i, operand in enumerate(program.operands):
        if operand.role in ("captured", "prefetch", "input") and buffers[i].touched:
            # Sizes that are operands stand after what a kernel captures.
            at = i if grid is None or i < grid.num_captured else i + grid.num_dynamic
            values = buffers[i].values
            updates[at] = values[inside(operand)] if operand.padding else values
    return outs, updates


set_runner(run)
