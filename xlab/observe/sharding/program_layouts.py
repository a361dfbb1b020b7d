"""Layouts of a compiled program: its arguments, the partitioner's intermediates, its outputs."""

from __future__ import annotations

from collections.abc import Sequence

from xlab.core.avals import ShapedArray
from xlab.observe.programs.program import program as _program
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import ArrayLayout, Transfer
from xlab.observe.records.units import an
from xlab.observe.sharding.intermediates import decisions, intermediates, why_of
from xlab.observe.sharding.layout import of_sharding


def argument_layouts(stages: ProgramStages, index: int = 0) -> tuple[ArrayLayout, ...]:
    """Layouts of a compiled program's arguments, those it does not use left out."""
    executable, closed = stages.executable, stages.closed
    names = closed.jaxpr.debug_info.arg_names
    return tuple(
        of_sharding(
            sharding,
            executable.physical_in[i],
            names[i] if i < len(names) else "",
            role="argument",
            program=index,
        )
        for i, sharding in zip(executable.kept, executable.in_shardings)
        if isinstance(closed.in_avals[i], ShapedArray)
    )


def program_layouts(stages: ProgramStages, index: int = 0) -> tuple[ArrayLayout, ...]:
    """Layouts of a compiled program's arguments, intermediates the partitioner decided on, and outputs."""
    executable = stages.executable
    if len(executable.devices) < 2:
        return ()
    out = list(argument_layouts(stages, index))
    record = _program(stages, levels=("propagated",))
    decided = decisions(stages)
    out += intermediates(stages, record, decided, index)
    paths = stages.closed.jaxpr.debug_info.result_names
    for i, (sharding, aval) in enumerate(zip(executable.out_shardings, executable.physical_out)):
        if isinstance(aval, ShapedArray):
            name = record.outputs[i]
            note = next(
                (v.note for e in record.equations for v in e.outputs if v.name == name and v.note),
                "",
            )
            called = note or (paths[i] if i < len(paths) else "") or name
            made = of_sharding(sharding, aval, called, role="output", program=index)
            out.append(made.replace(why=why_of(record, name, decided, made.type.spec)))
    return tuple(out)


def rebuilt(layouts: Sequence[ArrayLayout], moved: Sequence[Transfer]) -> Sequence[ArrayLayout]:
    """Layouts with a flag at each value that a collective rebuilds whole on every device."""
    found = [t for t in moved if t.full_rematerialization]
    if not found:
        return layouts
    out = list(layouts)
    for t in found:
        here = [i for i, x in enumerate(out) if x.program == t.program]
        at = next((i for i in here if t.value and out[i].name == t.value), None)
        if at is None:
            at = next(
                (i for i in here if out[i].equation >= 0 and out[i].equation == t.equation), None
            )
        if at is not None:
            words = f"{an(t.kind)} rebuilds it whole on every device (full rematerialization): it is {t.operand}, {t.needed}"
            out[at] = out[at].replace(warnings=(*out[at].warnings, words))
    return out
