"""The kernels of a program as records, from the program alone: nothing is run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.effects import written
from xlab.core.jaxpr import JaxprEqn
from xlab.kernels.blocks import Blocked, BlockMapping
from xlab.kernels.cost import jaxpr_cost
from xlab.kernels.grid import GridMapping
from xlab.observe.kernel_runs.blocks import (
    MOST_EVENTS,
    MOST_STEPS,
    block_events,
    depends_on_data,
    grid_points,
    index_map_text,
    io_of,
    visits,
)
from xlab.observe.kernel_runs.movement import Visits, lints, movement
from xlab.observe.kernel_runs.rooflines import rooflines
from xlab.observe.programs.names import source_of
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.records.kernel import (
    PRIMITIVES,
    CorePair,
    KernelCost,
    KernelLint,
    KernelOperand,
    KernelRun,
    Movement,
)
from xlab.observe.records.units import plural

FROM_INDEX_MAPS = "from the index maps; nothing was run"


def kernels(what: Any, *args: Any, target: str = "", **kwargs: Any) -> tuple[KernelRun, ...]:
    """The kernels of a program, each with the blocks that its grid's steps read and write, in the order they run; nothing is run.

    Args:
        what: a function with its arguments, a stage of `jit`, or a `ClosedJaxpr`.
        target: the machine whose roofline is wanted, such as `tpu:v5e`; all that are known if empty.

    Raises:
        ValueError: no such target is known.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.kernels import BlockSpec, kernel_call
        >>> def double(x_ref, o_ref):
        ...     o_ref[...] = 2 * x_ref[...]
        >>> spec = BlockSpec((4,), lambda i: (i,))
        >>> x = np.ones(8, np.float32)
        >>> call = kernel_call(double, x, grid=2, in_specs=[spec], out_specs=spec, interpret=True)
        >>> print(kernels(call, x)[0].cost.movement[0].moved)
        32
    """
    roofs = rooflines(target)
    stages = program_stages(what, args, kwargs)
    return tuple(
        kernel_of(eqn, roofs=roofs).replace(equation=number)
        for number, eqn in stages.equations.items()
        if eqn.primitive.name in PRIMITIVES
    )


def kernels_of(
    stages: ProgramStages, program: int = 0, most: int = MOST_EVENTS
) -> tuple[KernelRun, ...]:
    """The kernels of a program that a report has, with at most so many block visits each."""
    return tuple(
        kernel_of(eqn, most=most).replace(equation=number, program=program)
        for number, eqn in stages.equations.items()
        if eqn.primitive.name in PRIMITIVES
    )


def kernel_of(
    eqn: JaxprEqn, *, most: int = MOST_EVENTS, values: Sequence[Any] = (), roofs: Any = None
) -> KernelRun:
    """The record of one equation that calls kernels.

    Args:
        most: block visits that are kept.
        values: the operands' values, if they are known: index maps may depend on prefetched ones.
        roofs: rooflines to compare with.
    """
    roofs = rooflines() if roofs is None else roofs
    found = (
        _grid_run(eqn.params, most, values, roofs)
        if "grid_mapping" in eqn.params
        else _pairs_run(eqn)
    )
    return found.replace(source=source_of(eqn))


def _grid_run(params: Any, most: int, values: Sequence[Any], roofs: Any) -> KernelRun:
    g: GridMapping = params["grid_mapping"]
    operands = grid_operands(params)
    name = params["name"] or params["jaxpr"].jaxpr.debug_info.name
    sizes = iter(int(np.asarray(v)) for v in (values[g.dynamic_operands] if values else ()))
    known = bool(values) or not g.num_dynamic
    grid = tuple(n if isinstance(n, int) else next(sizes, 0) for n in g.grid)
    points = grid_points(grid if known else (0,) * len(grid))
    left = [] if known else ["steps: the grid has sizes that are known only when the program runs"]
    jaxpr, first = params["jaxpr"].jaxpr, g.input_refs.start
    found: list[Visits] = []
    for place, m in enumerate(g.block_mappings):
        o = operands[first + place]
        if depends_on_data(m) and not values:
            left.append(f"blocks of {o.name}: its index map depends on prefetched values")
            continue
        prefetch = values[g.prefetch_operands] if values else ()
        found.append(visits(m, o, io_of(jaxpr, first + place, o.role), points, prefetch))
    steps = math.prod(grid) if known else 0
    events = block_events(found, points, most)
    kept = events[-1].step + 1 if events else 0
    if kept < steps and found:
        left.append(f"the blocks of {plural(steps - kept, 'step')} after the first {kept:,}")
    if steps > MOST_STEPS:
        left.append(f"what moves is counted in the first {MOST_STEPS:,} steps")
    return KernelRun(
        name,
        operands=operands,
        grid=grid,
        grid_names=tuple("" if n is None else str(n) for n in g.grid_names or ()),
        pairs=(CorePair("", "", name),),
        events=tuple(events),
        cost=stated_cost(
            params.get("cost_estimate"),
            params["jaxpr"],
            steps,
            tuple(movement(v) for v in found),
            roofs,
        ),
        lints=(*lints(found, grid), *input_writes(params, operands)) if known else (),
        steps=steps,
        made=FROM_INDEX_MAPS,
        left_out=tuple(left),
    )


def grid_operands(params: Any) -> tuple[KernelOperand, ...]:
    """The operands of a kernel call in the order of the kernel's references."""
    g: GridMapping = params["grid_mapping"]
    closed = params["jaxpr"]
    avals = closed.in_avals
    out = [
        plain_operand(f"captured[{i}]", a.inner_aval, a.memory_space, "captured")
        for i, a in enumerate(avals[g.captured_refs])
    ]
    names = list(closed.jaxpr.debug_info.arg_names or ())[: g.num_prefetch]
    out += [
        plain_operand(
            names[i] if i < len(names) else f"args[{i}]", a.inner_aval, a.memory_space, "prefetch"
        )
        for i, a in enumerate(avals[g.prefetch_refs])
    ]
    prefetched = [o.name for o in out[g.num_captured :]]
    inputs = [block_operand(m, "input") for m in g.input_mappings]
    starts = {o: i for i, o in params["input_output_aliases"]}
    flat = [*prefetched, *(o.name for o in inputs)]
    out += inputs
    out += [
        block_operand(m, "output", flat[starts[i]] if i in starts else "").replace(
            name=output_name(m.origin, i)
        )
        for i, m in enumerate(g.output_mappings)
    ]
    out += [
        plain_operand(f"scratch[{i}]", a.inner_aval, a.memory_space or "default", "scratch")
        for i, a in enumerate(g.scratch_avals)
    ]
    return tuple(out)


def output_name(origin: str, number: int) -> str:
    """An output as runs name it: the only one of a call has a number too."""
    return f"outputs[{number}]" if origin in ("", "outputs") else origin


def plain_operand(name: str, aval: Any, space: Any, role: str, **more: Any) -> KernelOperand:
    """An operand that every program sees whole."""
    return KernelOperand(
        name,
        tuple(aval.shape),
        dtypes.short_name(aval.dtype),
        "any" if space is None else str(space),
        role,
        aval.dtype.itemsize,
        **more,
    )


def block_operand(m: BlockMapping, role: str, alias: str = "") -> KernelOperand:
    """An operand of which every step sees a block."""
    whole = m.has_trivial_window()
    mode = m.pipeline_mode
    return plain_operand(
        m.origin,
        m.array_aval,
        m.memory_space,
        role,
        block=() if whole else tuple(map(_dim_text, m.block_shape)),
        index_map="" if whole else index_map_text(m),
        pipeline=""
        if mode is None
        else f"{mode.buffer_count} buffers, revisit {mode.revisit.value}",
        alias=alias,
    )


def _dim_text(dim: Any) -> str:
    return str(dim.block_size) if type(dim) is Blocked else repr(dim).replace("block_size=", "")


def input_writes(params: Any, operands: Sequence[KernelOperand]) -> tuple[Any, ...]:
    """A remark for every input that the kernel writes: what it writes stays in the call."""
    places = written(params["jaxpr"].jaxpr.effects)
    first = params["grid_mapping"].input_refs
    return tuple(
        KernelLint(
            f"the kernel writes {operands[i].name}: later steps see it, the caller's array stays as it is",
            operands[i].name,
            "alias it to an output to keep what is written",
        )
        for i in sorted(places)
        if first.start <= i < first.stop
    )


def stated_cost(
    stated: Any, jaxpr: Any, steps: int, moved: tuple[Movement, ...], roofs: Any
) -> KernelCost:
    """What moves, and the operations: as the call states them, or estimated from the kernel."""
    if stated is not None:
        return KernelCost(
            int(stated.flops), int(stated.transcendentals), "stated by the call", moved, roofs
        )
    each = jaxpr_cost(jaxpr.jaxpr)
    origin = f"{each.flops:,} a step, estimated from the kernel's equations"
    return KernelCost(
        each.flops * steps, each.transcendentals * steps, origin if each.flops else "", moved, roofs
    )


def _pairs_run(eqn: JaxprEqn) -> KernelRun:
    params = eqn.params
    refs = params["jaxprs"][0].in_avals
    captured = params.get("num_captured", 0)
    n_in, n_out = len(eqn.invars), len(params["out_avals"])
    roles = (
        [("args", "input", i) for i in range(n_in - captured)]
        + [("captured", "captured", i) for i in range(captured)]
        + [("outputs", "output", i) for i in range(n_out)]
        + [("scratch", "scratch", i) for i in range(len(refs) - n_in - n_out)]
    )
    operands = tuple(
        plain_operand(f"{word}[{i}]", a.inner_aval, a.memory_space, role)
        for (word, role, i), a in zip(roles, refs)
    )
    return KernelRun(
        params["name"] or "mpmd_map",
        "mpmd_map",
        operands,
        pairs=core_pairs(params),
        made="from the program; nothing was run",
        left_out=(
            "what the cores do over time: a run of the machine shows it (observe.kernel_run)",
        ),
    )


def core_pairs(params: Any) -> tuple[CorePair, ...]:
    """The meshes of an `mpmd_map` with the functions they run; cores count through all of them."""
    out: list[CorePair] = []
    begin = 0
    for k, (mesh, jaxpr) in enumerate(zip(params["meshes"], params["jaxprs"])):
        shape = {str(name): n for name, n in dict(mesh.shape).items()}
        cores = math.prod(shape.values())
        names = params.get("names") or ()
        text = ", ".join(f"{name}={n}" for name, n in shape.items())
        out.append(
            CorePair(
                text,
                str(mesh.core_type),
                names[k] if k < len(names) else jaxpr.jaxpr.debug_info.name,
                tuple(range(begin, begin + cores)),
                tuple(shape),
                tuple(shape.values()),
            )
        )
        begin += cores
    return tuple(out)
