"""A program compiled for another machine: a TPU slice of any size, on a machine without a TPU."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from xlab.backend import compiling as _compiling
from xlab.backend import tpu_target
from xlab.interpreters.communication_costs import Interconnect
from xlab.observe.buffers.memory import memory as _memory
from xlab.observe.comparison.diff import collective_figures, memory_figures, ratio
from xlab.observe.programs import hlo as _hlo
from xlab.observe.programs.program import mesh_info
from xlab.observe.programs.program import program as _program
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.records import ArrayLayout, Level, Memory, Notice, Report
from xlab.observe.records.diff import Figure
from xlab.observe.records.targets import AsyncOperation, Scheduled
from xlab.observe.records.units import plural, significant, size_text
from xlab.observe.sharding.layout import layout as _layout
from xlab.observe.sharding.transfers import transfers_of

TOPOLOGIES = "tpu:v5e:4x4, tpu:v4:2x2x4, tpu:v5p:4x4x4, tpu:v6e:8x8, tpu:tpu7x:2x2x2"


def topology(name: str) -> str:
    """The topology a target names.

    >>> topology("tpu:v5e:4x4")
    'v5e:4x4'
    """
    platform, _, rest = name.partition(":")
    if platform != "tpu" or ":" not in rest:
        raise ValueError(f"a target is tpu:generation:shape, such as {TOPOLOGIES}; given {name!r}")
    return rest


def check(name: str) -> None:
    """Raises what `target` would raise before it compiles: for an unknown name, or without the TPU compiler."""
    wanted = topology(name)
    if tpu_target.library() is None:
        raise ModuleNotFoundError(
            f"compiling for tpu:{wanted} needs the TPU compiler: {tpu_target.INSTALL}"
        )


def target(
    name: str, what: Any, *args: Any, link: str | Interconnect = "ici", **kwargs: Any
) -> Report:
    """A report of a program compiled ahead of time for another machine; nothing runs.

    It has the scheduled module, the collectives and the memory as that machine's compiler made them. Needs the extra `tpu`.

    Args:
        name: `tpu:generation:shape`, such as `tpu:v5e:2x4`; as many devices as the mesh of the program, or a program for one.
        what: a function with its arguments, or a stage of `jit`.
        link: the interconnect that collectives are predicted for.

    Raises:
        ModuleNotFoundError: without the TPU compiler; the message has the command that installs it.
        ValueError: there is no such topology, or its devices are not as many as the program's.
    """
    stages, made = _compiled(name, program_stages(what, args, kwargs))
    used, doubts = _used(stages.name, made)
    low = stages.lowered
    levels = (
        "stablehlo",
        *(("propagated", "partitioned") if len(low.devices) > 1 else ()),
        "optimized",
    )
    return Report(
        f"{stages.name} on {name}",
        (_program(stages, levels=levels),),
        transfers=transfers_of(stages, link=link, tries=0),
        memory=(used,),
        mesh=mesh_info(stages.mesh),
        notices=tuple(_notices(name, stages, made, doubts)),
        opens="collectives",
        counted=True,
    )


def scheduled(
    name: str,
    what: Any,
    *args: Any,
    link: str | Interconnect = "ici",
    program: int = 0,
    **kwargs: Any,
) -> Scheduled:
    """A program as the target's compiler schedules it, its numbers beside this machine's; nothing runs. Arguments as for `target`.

    Args:
        program: the index of the program in the report that this goes to.
    """
    here = program_stages(what, args, kwargs)
    there, made = _compiled(name, here)
    used, doubts = _used(there.name, made)
    text = _hlo.readable(there.hlo.text)
    figures = [
        *_instructions(here, there),
        *collective_figures([here, there]),
        *memory_figures(
            _memory(here),
            used,
            ("arguments", "outputs", "temporaries", *(("peak",) if used.peak else ())),
        ),
        Figure("memory", "code", "", size_text(used.code)),  # the compiler for CPUs does not say
        *_cost(here, there, made, doubts),
    ]
    return Scheduled(
        name,
        there.name,
        str(made["kind"]),
        len(made["devices"]),
        tuple(figures),
        tuple(async_operations(there)),
        Level(name, text, _hlo.links(_hlo.parse(text))),
        transfers_of(there, link=link, program=program, tries=0),
        used,
        tuple(doubts),
        program,
    )


def on_target(name: str, sharding: Any, shape: Any, *, dtype: Any = "float32") -> ArrayLayout:
    """How an array lies on the devices of a target: their ids, in the order of the mesh, and the hosts they belong to.

    Raises:
        ModuleNotFoundError, ValueError: as for `target`.
    """
    made = tpu_target.topology_devices(topology(name))
    ids, hosts = tuple(made["devices"]), tuple(made["hosts"])
    here = _layout(sharding, shape, dtype=np.dtype(dtype))
    if here.mesh is None or here.mesh.size != len(ids):
        raise ValueError(
            f"{name} has {plural(len(ids), 'device')} and the mesh has {here.mesh.size if here.mesh else 1}: choose a mesh or a "
            "topology with as many"
        )
    there = dict(zip(here.mesh.device_ids, ids, strict=True))
    return here.replace(
        name=name,
        blocks=tuple(b.replace(device=there[b.device]) for b in here.blocks),
        memory_kind="",
        mesh=here.mesh.replace(device_ids=ids, hosts=hosts, platform=str(made["kind"])),
    )


# ------------------------------------------------------------------------------------------------------- what was made


def _compiled(name: str, given: ProgramStages) -> tuple[ProgramStages, dict[str, Any]]:
    wanted = topology(name)
    low = given.lowered
    text = low.module.text
    made = tpu_target.compile_for(
        wanted,
        text if isinstance(text, str) else text.decode(),
        len(low.devices),
        [s is None for s in low.out_shardings],
    )
    stages = ProgramStages(given.closed, given.name, lowered=low)
    # What the other machine would run, in place of this one's.
    stages.__dict__["hlo"] = _hlo.parse(made["hlo"])
    return stages, made


def _used(name: str, made: dict[str, Any]) -> tuple[Memory, list[str]]:
    """The memory that the target's compiler reports, and inconsistencies in the report."""
    stats = made["memory"]
    parts = [
        stats[f"{part}_size_in_bytes"]
        for part in ("argument", "output", "temp", "alias", "generated_code")
    ]
    arguments, outputs, temporaries, aliased, code = parts
    peak = stats["peak_memory_in_bytes"]
    most = arguments + outputs + temporaries + code
    doubts = []
    if peak > most:
        doubts.append(
            f"a peak of {size_text(peak)}, more than arguments, outputs, temporaries and code together ({size_text(most)})"
        )
        peak = 0
    return Memory(name, arguments, outputs, temporaries, aliased, code, peak), doubts


def _loops(stages: ProgramStages) -> int:
    return sum(i.opcode == "while" for i in stages.hlo.instructions())


def _estimate(stages: ProgramStages, made: dict[str, Any], doubts: list[str]) -> float | None:
    """Microseconds the target's compiler expects a run to take at best; None where it does not know, or counts otherwise."""
    seconds = made["cost"].get("optimal_seconds", 0.0)
    if not math.isfinite(seconds) or seconds <= 0:
        doubts.append(f"a time of {seconds:.3g} s a run: the compiler has no model of this target")
        return None
    return None if _loops(stages) else seconds * 1e6


def _cost(
    here: ProgramStages, there: ProgramStages, made: dict[str, Any], doubts: list[str]
) -> Iterator[Figure]:
    cost = made["cost"]
    estimate = _estimate(there, made, doubts)
    if loops := _loops(there):
        doubts.append(
            f"{_count(cost.get('flops', 0.0))} flops and {size_text(int(cost.get('bytes accessed', 0)))} accessed: what is in "
            f"{'a loop' if loops == 1 else 'loops'} is counted once, however often it runs"
        )
        return
    own = _compiling.cost_analysis(here.executable.native)
    for what, said in (("flops", _count), ("bytes accessed", lambda x: size_text(int(x)))):
        a, b = own.get(what, 0.0), cost.get(what, 0.0)
        if b > 0:
            yield Figure("cost", what, said(a), said(b), ratio(a, b))
    if estimate is not None:
        yield Figure("cost", "best time, by its compiler's model", "", f"{estimate:,.3g} µs")


def _count(number: float) -> str:
    """A large number with its unit.

    >>> _count(1.72e10), _count(950)
    ('17.2 G', '950')
    """
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{significant(number / size)} {unit}"
    return f"{number:,.0f}"


def _instructions(here: ProgramStages, there: ProgramStages) -> Iterator[Figure]:
    mine, other = (list(stages.hlo.instructions()) for stages in (here, there))
    yield Figure(
        "program", "instructions", str(len(mine)), str(len(other)), ratio(len(mine), len(other))
    )
    for what, opcode in (("fusions", "fusion"), ("loops", "while")):
        a, b = (sum(i.opcode == opcode for i in found) for found in (mine, other))
        if a or b:
            yield Figure("program", what, str(a), str(b), ratio(a, b))
    a, b = (sum(bool(_ON_CHIP.search(i.shape)) for i in found) for found in (mine, other))
    if a or b:
        yield Figure("program", "values in memory on the chip, in no sum below", str(a), str(b))
    a, b = (sum(1 for _ in async_operations(stages)) for stages in (here, there))
    yield Figure("program", "asynchronous operations", str(a), str(b), ratio(a, b))


_ON_CHIP = re.compile(r"S\([13]\)\}")
"""Memory spaces of a core: its vector memory, and the one beside it."""

_IDLE = frozenset(("parameter", "constant", "get-tuple-element", "tuple", "bitcast"))


def async_operations(stages: ProgramStages) -> Iterator[AsyncOperation]:
    """The asynchronous operations of a scheduled module, in the order they begin."""
    module = stages.hlo
    for computation in module.computations.values():
        order = {i.name: n for n, i in enumerate(computation.instructions)}
        users: dict[str, list[Any]] = {}
        for i in computation.instructions:
            for operand in i.operands:
                users.setdefault(operand, []).append(i)
        for i in computation.instructions:
            fused = i.opcode == "fusion" and "-start" in i.name
            if not (i.opcode.endswith("-start") or fused):
                continue
            done = _done(i, users, fused)
            if done is None:
                continue
            between = [
                x
                for x in computation.instructions[order[i.name] + 1 : order[done.name]]
                if x.opcode not in _IDLE and not x.opcode.endswith(("-start", "-done"))
            ]
            number = stages.innermost(module.equations_of(i) or module.equations_of(done))
            yield AsyncOperation(
                _flying(module, i),
                i.name,
                done.name,
                len(between),
                done.bytes,
                number[0] if number else -1,
            )


def _done(start: Any, users: dict[str, list[Any]], fused: bool) -> Any:
    """The instruction that waits for an asynchronous one, followed through copies and tuples."""
    waiting, seen = [start], {start.name}
    while waiting:
        for user in users.get(waiting.pop(0).name, ()):
            if user.opcode.endswith("-done") or (
                fused and user.opcode == "fusion" and "-done" in user.name
            ):
                return user
            if user.name not in seen and (
                fused or user.opcode in _IDLE or user.opcode.endswith("-update")
            ):
                seen.add(user.name)
                waiting.append(user)
    return None


def _flying(module: _hlo.Module, i: Any) -> str:
    if i.kind:
        return i.kind
    for name in i.calls:
        inner = module.computations.get(name)
        found = (
            next((x.kind for x in inner.instructions if x.kind), None)
            if inner is not None
            else None
        )
        if found:
            return found
    return str(i.opcode.removesuffix("-start")) if i.opcode != "fusion" else "collective"


def _notices(
    name: str, stages: ProgramStages, made: dict[str, Any], doubts: list[str]
) -> list[Notice]:
    count = plural(len(made["devices"]), "device")
    out = [
        Notice(
            "info",
            f"compiled for {name} ({made['kind']}, {count}) ahead of time; nothing ran, and predicted times are a model",
        )
    ]
    estimate = _estimate(stages, made, doubts)
    if estimate is not None:
        out.append(
            Notice(
                "info",
                f"the TPU compiler estimates at best {estimate:,.3g} µs a run; an estimate, not a measurement",
            )
        )
    begun = sum(1 for _ in async_operations(stages))
    if begun:
        out.append(
            Notice(
                "info",
                f"{plural(begun, 'asynchronous operation')} in the schedule: started, and waited for later",
            )
        )
    return out + [Notice("info", f"not shown as fact: {doubt}") for doubt in doubts]
