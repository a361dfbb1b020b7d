"""`replay`: a collective of a program, carried out step by step on the values that its devices hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab.core.jaxpr import JaxprEqn
from xlab.interpreters import dataflow
from xlab.interpreters.communication_costs import Interconnect
from xlab.observe.programs.program import mesh_info, type_of
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import MeshInfo, Transfer
from xlab.observe.records.replay import FlowEvent, Replay
from xlab.observe.records.units import plural
from xlab.observe.sharding.collectives import call_name, collectives, written
from xlab.observe.stepping.devices import Devices
from xlab.observe.stepping.machine import JaxprMachine, can_run
from xlab.observe.stepping.started import started

MOST_ENTRIES = 64
"""Entries of a device's buffer that a tile shows."""
MOST_TILES = 2048
"""Tiles, one for each device and step, that a record has."""
MOST_STEPS = 20_000
"""Equations that are run to come to a collective."""


def replay(
    fun: Any,
    *args: Any,
    which: int = 0,
    algorithm: str = "ring",
    link: str | Interconnect = "cpu",
    **kwargs: Any,
) -> Replay:
    """A collective that a function writes, as events on its devices: slices, steps and bytes, and what each device holds after each step.

    The program is run up to the collective to know its operands; where that cannot be, the events are there without values.

    Args:
        fun: a function, a stage of `jit`, or a `ClosedJaxpr`; with its arguments.
        which: the number of the collective, in the order they are written.
        algorithm: one of `interpreters.schedules.ALGORITHMS`; where it does not fit, a ring.
        link: the interconnect that the time is predicted for.

    Raises:
        ValueError: the function writes no collective with that number.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import AxisType, PartitionSpec as P
        >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
        >>> f = xlab.shard_map(lambda x: xlab.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
        >>> replay(f, np.arange(2.0, dtype=np.float32)).tiles[-1]
        (('0', '1'),)
    """
    stages, values, _ = started(fun, args, kwargs)
    found = list(written(stages.closed.jaxpr, stages))
    if not 0 <= which < len(found):
        count = plural(len(found), "collective")
        raise ValueError(
            f"the function writes {count} between devices; which={which} is none of them"
            + (
                f": give 0 to {len(found) - 1}"
                if found
                else ". Those over an axis of vmap send nothing"
            )
        )
    wanted = found[which]
    eqn, mesh = wanted.eqn, wanted.mesh
    if mesh is None:
        raise ValueError(
            f"{call_name(eqn.primitive.name)} runs over {wanted.move.axes}, axes of no mesh: give the function that binds them"
        )
    concrete = hasattr(mesh, "devices_in_order")  # an abstract one has nothing to run on
    record = _transfer(stages, wanted.equation, link, algorithm, concrete)
    reached = _operands(stages, values, eqn) if concrete and can_run() else None
    held = [] if reached is None else [np.asarray(v) for v in reached]
    ids = [int(i) for i in np.ravel(mesh.device_ids)] if concrete else []
    ids = ids or list(range(int(np.prod(mesh.axis_sizes))))
    whole = bool(held) and len(held[0]) == len(ids)
    sizes = None
    if wanted.move.kind == "ragged_all_to_all" and whole:
        sizes = {d: [v[k] for v in held[2:5]] for k, d in enumerate(ids)}
    flow = dataflow.dataflow(eqn, mesh, algorithm, number=wanted.equation, sizes=sizes)
    inputs, tiles = _tiles(flow, held, ids) if whole else ((), ())
    nans = tuple(d for k, d in enumerate(ids) if whole and _has_nan(held[0][k]))
    carried_out = record.kind if record is not None and record.kind != flow.kind else ""
    info = mesh_info(mesh) or MeshInfo(tuple(mesh.axis_names), tuple(mesh.axis_sizes))
    return Replay(
        f"{call_name(eqn.primitive.name)} of {stages.name}",
        call_name(eqn.primitive.name),
        flow.kind,
        flow.algorithm,
        type_of(eqn.invars[0].aval),
        type_of(eqn.outvars[0].aval),
        info,
        flow.reduction,
        algorithm if algorithm != flow.algorithm and flow.kind != "collective_permute" else "",
        tuple(map(str, wanted.move.axes)),
        flow.groups,
        wanted.move.bytes_in,
        wanted.move.bytes_out,
        flow.wire_bytes,
        flow.steps,
        carried_out,
        round(record.sent * len(ids)) if record is not None and carried_out else None,
        record.predicted_us if record is not None else None,
        record.formula if record is not None else "",
        record.stablehlo if record is not None else "",
        record.source if record is not None else None,
        wanted.equation,
        wanted.times,
        flow.exact,
        tuple(_event(e) for e in flow.events),
        tuple(ids),
        inputs,
        tiles,
        nans,
    )


def _has_nan(x: np.ndarray) -> bool:
    return x.dtype.kind not in "biuSOM" and bool(np.any(x != x))


def _event(e: dataflow.SliceEvent) -> FlowEvent:
    return FlowEvent(**{**e._asdict(), "src": -1 if e.src is None else e.src})


def _transfer(
    stages: ProgramStages, equation: int, link: Any, algorithm: str, compiled: bool
) -> Transfer | None:
    """The collective as it runs; as it is written where the program cannot be compiled here."""
    for compile in (True, False) if compiled else (False,):
        try:
            found, _ = collectives(stages, link, algorithm, compile)
        except (NotImplementedError, ValueError):
            if not compile:
                raise
            continue
        return next((t for t in found if t.equation == equation and t.origin == "user"), None)
    return None


def _operands(stages: ProgramStages, values: list, wanted: JaxprEqn) -> list | None:
    """What each device holds of the operands of an equation, the first time it runs; None where the run does not come to it."""
    machine = JaxprMachine(stages.closed, values, stages.name)
    while not machine.finished and machine.count < MOST_STEPS:
        machine.settle(True)
        if machine.finished:
            break
        frame = machine.stack[-1]
        if machine.next_equation is wanted and frame.pc < len(frame.jaxpr.eqns):
            if not isinstance(machine.mode, Devices):
                return None
            return machine._values(frame, wanted.invars)
        machine.step(True)
    return None


def _tiles(flow: dataflow.Flow, held: list, ids: list[int]) -> tuple[tuple, tuple]:
    """The operand of each device, and after each step what it holds of the result, or of the sums that become it."""
    operands = {d: held[0][k] for k, d in enumerate(ids)}
    results = {d: held[1][k] for k, d in enumerate(ids)} if len(held) > 1 else None
    steps = len({e.step for e in flow.events}) + 1
    sums = flow.kind == "reduce_scatter"
    shown = max(int(np.prod(s)) for s in (flow.shape_in, flow.shape_out))
    if shown > MOST_ENTRIES or steps * len(ids) > MOST_TILES:
        return (), ()
    tiles = []
    for n, at in enumerate(dataflow.held(flow, operands, results)):
        name = "work" if sums and n + 1 < steps else "output"
        tiles.append(tuple(_entries(at[name, d]) for d in ids))
    return tuple(_entries(operands[d]) for d in ids), tuple(tiles)


def _entries(x: Any) -> tuple[str, ...]:
    """Entries as short text; a point where nothing is written yet."""
    mask = np.ma.getmaskarray(x).ravel() if isinstance(x, np.ma.MaskedArray) else None
    flat = np.asarray(x).ravel()
    return tuple("·" if mask is not None and mask[i] else _entry(v) for i, v in enumerate(flat))


def _entry(v: Any) -> str:
    if np.issubdtype(np.asarray(v).dtype, np.bool_):
        return "T" if v else "F"
    if np.issubdtype(np.asarray(v).dtype, np.complexfloating):
        return f"{complex(v):.3g}"
    try:
        return f"{float(v):.4g}"
    except (TypeError, ValueError):
        return str(v)
