"""Compares other shardings of a program: compiles without running, and compares the costs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.stages import ShapeDtypeStruct
from xlab.compile.tracing import own
from xlab.core.avals import ShapedArray, aval_of
from xlab.interpreters.communication_costs import Interconnect
from xlab.observe.beside.held import our_held_of, without
from xlab.observe.beside.placements import mesh_of, placed_program, tree_of
from xlab.observe.beside.recognize import belongs_to_jax
from xlab.observe.beside.values import mesh as mesh_of_jax
from xlab.observe.buffers.memory import memory as _memory
from xlab.observe.programs.analysis_only import analysis_only
from xlab.observe.programs.program import mesh_info
from xlab.observe.programs.program import program as _program
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.records import Notice, Report
from xlab.observe.sharding.program_layouts import program_layouts
from xlab.observe.sharding.reasons import spec_text
from xlab.observe.sharding.transfers import transfers_of
from xlab.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, get_mesh

LIMIT = 64


def what_if(
    fun: Any,
    args: Sequence[Any],
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    mesh: Mesh | None = None,
    link: str | Interconnect = "cpu",
    title: str = "",
) -> Report:
    """The costs of a program with its arguments placed otherwise: compiled, never run, no data moved.

    Args:
        fun, args: a function and its arguments; only their types are used. A function of JAX's is traced and compiled by JAX.
        in_shardings: a sharding or spec per argument, as a pytree prefix; None leaves an argument to the compiler.
        out_shardings: the same for the results.
        mesh: where specs lie; by default the current mesh. Of a function of JAX's meshes, specs and shardings may be JAX's.

    Returns:
        A report with the program, its layouts, transfers and memory, to be compared with another.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import PartitionSpec as P, make_mesh
        >>> what_if(lambda x: x, (np.ones(8, np.float32),), in_shardings=(P("i"),), mesh=make_mesh((1,), ("i",))).transfers
        ()
    """
    args = tuple(args)
    if belongs_to_jax(fun, args):
        with analysis_only():
            theirs, lies = placed_program(fun, args, in_shardings, out_shardings, mesh)
            stages = ProgramStages(theirs.closed, theirs.name, beside=theirs)
            return _costs(stages, mesh_of_jax(lies) if lies is not None else None, link, title)
    mesh = mesh if mesh is not None else get_mesh()
    if mesh is not None and mesh.empty:
        mesh = None
    given = (
        in_shardings
        if isinstance(in_shardings, tuple) and not isinstance(in_shardings, PartitionSpec)
        else (in_shardings,) * len(args)
    )
    specs = _tree.broadcast_prefix(given, args, is_leaf=_is_leaf)
    leaves, treedef = _tree.flatten(args)
    held = our_held_of(fun, args, {})
    typed = [_typed(x, s, mesh) if held.is_dynamic(x) else x for x, s in zip(leaves, specs)]
    outs = (
        out_shardings
        if out_shardings is None
        else _tree.map(lambda s: _sharding(s, mesh), out_shardings, is_leaf=_is_leaf)
    )
    inner = getattr(own(fun, "_xlab_jit"), "fun", fun)
    given = _tree.unflatten(treedef, typed)
    if held:
        inner, (given, _) = without(inner, held), held.dynamic(given, {})
    with analysis_only():
        stages = program_stages(jit(inner, out_shardings=outs).lower(*given).compile())
    return _costs(stages, mesh, link, title)


def _typed(x: Any, s: Any, mesh: Any) -> ShapeDtypeStruct:
    aval: Any = aval_of(x)
    return ShapeDtypeStruct(
        aval.shape, aval.dtype, sharding=_sharding(s, mesh), weak_type=aval.weak_type
    )


def _costs(stages: ProgramStages, mesh: Any, link: Any, title: str) -> Report:
    found = transfers_of(stages, link=link, tries=0)
    return Report(
        title or stages.name,
        (_program(stages),),
        program_layouts(stages),
        found,
        memory=(_memory(stages),),
        mesh=mesh_info(mesh),
        notices=(Notice("info", stages.made_by, "program"),) * bool(stages.made_by),
        counted=True,
    )


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, (PartitionSpec, Sharding))


def _sharding(s: Any, mesh: Any) -> Any:
    if s is None or isinstance(s, Sharding):
        return s
    if isinstance(s, str):
        s = PartitionSpec(s)
    if mesh is None:
        raise ValueError(f"{s} needs a mesh: pass mesh=, or set one with xlab.set_mesh(mesh)")
    return NamedSharding(mesh, s)


def predicted_us(report: Report) -> float:
    """Predicted microseconds of a report's collectives, loops multiplied."""
    return sum(
        (t.predicted_us or 0.0) * (1 if t.times is None else t.times) for t in report.transfers
    )


def peak_bytes(report: Report) -> int:
    """The largest peak per device among a report's programs."""
    return max((m.peak for m in report.memory), default=0)


def search_shardings(
    fun: Any,
    args: Sequence[Any],
    mesh: Mesh | None = None,
    *,
    arguments: Sequence[int] | None = None,
    link: str | Interconnect = "cpu",
    limit: int = LIMIT,
) -> tuple[Report, ...]:
    """Tries the sensible placements of chosen arguments and ranks them: predicted communication first, then peak memory.

    Args:
        arguments: numbers of the flat arguments to vary, by default all; the others stay as they are placed.
        limit: how many combinations to compile at most; the title of the last report says when some were left out.

    Returns:
        Reports, the best first; each title says the placement.
    """
    args = tuple(args)
    beside = belongs_to_jax(fun, args)
    leaves, treedef = tree_of(args) if beside else _tree.flatten(args)
    if beside:
        mesh = mesh_of(mesh, leaves)
    elif mesh is None:
        mesh = get_mesh()
    if mesh is None or mesh.empty:
        raise ValueError(
            "search_shardings needs a mesh: pass one, or set it with "
            + ("jax.set_mesh(mesh)" if beside else "xlab.set_mesh(mesh)")
        )
    chosen = [i for i, x in enumerate(leaves) if _is_array(x)] if arguments is None else arguments
    options = [_specs(aval_of(x), mesh) if i in chosen else [None] for i, x in enumerate(leaves)]
    combinations = itertools.product(*options)
    found = []
    for specs in itertools.islice(combinations, limit):
        title = ", ".join(
            "as placed"
            if s is None
            else spec_text(tuple(_axes(s, d) for d in range(len(getattr(aval_of(x), "shape", ())))))
            for s, x in zip(specs, leaves)
            if s is not None or _is_array(x)
        )
        own = [s if s is not None else getattr(x, "sharding", None) for s, x in zip(specs, leaves)]
        try:
            found.append(
                what_if(
                    fun,
                    args,
                    in_shardings=treedef.unflatten(own),
                    mesh=mesh,
                    link=link,
                    title=title,
                )
            )
        except ValueError:  # a dimension that does not divide somewhere inside
            continue
    found.sort(key=lambda r: (predicted_us(r), peak_bytes(r)))
    left = sum(1 for _ in combinations)
    if left and found:
        found[-1] = found[-1].replace(
            title=f"{found[-1].title} (and {left} combinations not tried: limit={limit})"
        )
    return tuple(found)


def _is_array(x: Any) -> bool:
    """Whether an argument can be placed: no function that a model holds."""
    try:
        return isinstance(aval_of(x), ShapedArray)
    except TypeError:
        return False


def _axes(spec: PartitionSpec, d: int) -> tuple:
    return tuple(spec.axes_of(d) or ()) if d < len(spec) else ()


def _specs(aval: Any, mesh: Mesh) -> list[PartitionSpec]:
    """Every way to give each mesh axis to at most one dimension that it divides, whole copies included."""
    names = [n for n in mesh.axis_names if mesh.shape[n] > 1]
    out = []
    for place in itertools.product(range(-1, aval.ndim), repeat=len(names)):
        dims: list[tuple] = [()] * aval.ndim
        for name, d in zip(names, place):
            if d >= 0:
                dims[d] = (*dims[d], name)
        parts = [1] * aval.ndim
        for d, axes in enumerate(dims):
            for a in axes:
                parts[d] *= mesh.shape[a]
        if all(aval.shape[d] % parts[d] == 0 for d in range(aval.ndim)):
            out.append(PartitionSpec(*(axes or None for axes in dims)))
    return out
