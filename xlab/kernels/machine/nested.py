"""Kernels called inside kernels, run whole, as one equation, or handed out as a machine of their own; and programs that kernels are
called in: where their device is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from xlab.kernels.call_primitive import kernel_call_p
from xlab.kernels.machine.buffers import RefPlace
from xlab.kernels.machine.engine import Engine, machine_rules
from xlab.kernels.machine.frames import Op
from xlab.kernels.machine.programs import KernelProgram, kernel_program
from xlab.kernels.machine.regions import whole
from xlab.lax.collectives import axis_index_p

if TYPE_CHECKING:
    from xlab.kernels.machine.state import MachineCore


def inner_program(engine: Engine, core: MachineCore | None) -> KernelProgram:
    """The program of the kernel that a core is about to call.

    Raises:
        ValueError: its next equation calls none.
    """
    if core is not None and not core.frames and not core.done:
        engine.begin(core)
    op = core.frames[-1].next if core is not None and core.frames else None
    if op is None or op.prim is not kernel_call_p:
        raise ValueError(f"the next equation calls no kernel: {None if op is None else op.eqn}")
    assert core is not None
    env = core.frames[-1].env
    return _program(engine, op, [x if v is None else env[v] for v, x in op.ins])


def _program(engine: Engine, op: Op, values: list) -> KernelProgram:
    operands = [
        np.array(engine.now.buffers[v.number].values) if isinstance(v, RefPlace) else v
        for v in values
    ]
    program = kernel_program(operands, engine.params, **op.params)
    return replace(program, position=engine.program.position)


def _kernel_call(engine: Engine, core: MachineCore, op: Op, values: list):
    program = _program(engine, op, values)
    inner = Engine(program, engine.params, record=False)
    while (chosen := inner.choose()) is not None:
        inner.turn(chosen)
    for i, v in enumerate(values):  # references that the inner kernel captures
        if isinstance(v, RefPlace):
            buffer = engine.now.buffers[v.number]
            if inner.now.buffers[i].dirty:
                buffer.write(whole(buffer.shape), inner.now.buffers[i].values)
    return [np.array(x) for x in inner.results()]


def _axis_index(engine: Engine, core: MachineCore, op: Op, values: list):
    name, position = op.params["axis_name"], engine.program.position
    if name not in position:
        raise NameError(
            f"the kernel asks where its device is along the axis {name!r} of a mesh, but this run is on no device of one: axes "
            f"known here are {[*position]}"
        )
    return (np.int32(position[name]),)


machine_rules[kernel_call_p] = _kernel_call
machine_rules[axis_index_p] = _axis_index
