"""From the functions of an `mpmd_map` to jaxprs that all take the same references."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.core import effects as _effects
from xlab.core import source_info as _source_info
from xlab.core.avals import aval_of
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Var
from xlab.core.refs import AbstractRef
from xlab.core.trace import Axis, bound_axes
from xlab.interpreters import partial_eval as pe
from xlab.kernels.mesh import mesh_of
from xlab.kernels.operands import in_kernel, operand_ref, output_ref
from xlab.kernels.semaphores import is_semaphore
from xlab.kernels.trace import check_captured, trace_open_kernel
from xlab.lax.refs import get_p

_WHOLE = _tree.structure(())


def kernel_refs(
    what: str, leaves: Sequence[Any], paths: Sequence[str], meshes: Sequence[Any]
) -> list[AbstractRef]:
    """The types of the references that the functions get for operands, outputs or scratch.

    Args:
        what: "operand", "output" or "scratch".
        leaves, paths: what was given, and where it stands.
        meshes: those of the functions.

    Raises:
        ValueError: one is no type of an array, or names no memory space where the meshes have different defaults.
        NotImplementedError: scratch of several meshes that belongs to no core and is not shared.
    """
    defaults = list(dict.fromkeys(m.default_memory_space for m in meshes))
    refs = []
    for x, path in zip(leaves, paths):
        ref = (operand_ref if what == "operand" else output_ref)(x, path)
        if what == "scratch":
            _check_scratch(ref, path, meshes)
        elif ref.memory_space is None:
            if len(defaults) > 1:
                raise ValueError(
                    f"{path}, of type {ref.inner_aval}, names no memory space, and the meshes have different ones by default "
                    f"({', '.join(f'{m}: {m.default_memory_space}' for m in meshes)}): give it one explicitly, an output as "
                    f"MemorySpace.ANY(shape, dtype), an operand as xlab.new_ref(x, memory_space=MemorySpace.ANY)"
                )
            ref = AbstractRef(ref.inner_aval, defaults[0], ref.kind)
        refs.append(ref)
    return refs


def _check_scratch(ref, path, meshes) -> None:
    space = ref.memory_space
    shared = space is not None and not getattr(space, "per_core", True)
    if len(meshes) > 1 and mesh_of(space) is None and not shared:
        raise NotImplementedError(
            f"mpmd_map with several meshes requires scratch in a memory space with a core_type, or in one that all cores share: "
            f"{path} is {ref}, which belongs to no core. Tie it to a mesh, as CoreMemorySpace(MemorySpace.LOCAL, mesh)(shape, "
            f"dtype), or share it, as MemorySpace.SHARED(shape, dtype)."
        )


def trace_pairs(
    meshes: Sequence[Any],
    functions: Sequence[Callable[..., Any]],
    call: Callable[[Callable[..., Any], Sequence[Any]], Any],
    refs: tuple[Sequence[AbstractRef], Sequence[AbstractRef], Sequence[AbstractRef]],
    names: Sequence[str],
    super_shape: Mapping[Any, int],
    label: str | None,
) -> tuple[tuple[ClosedJaxpr, ...], list]:
    """A jaxpr per function, and what they close over.

    All take inputs, what is closed over by any of them, outputs, scratch, in this order, as references.

    Args:
        call: `call(function, refs)` runs one on flat references.
        refs: types of inputs, outputs and scratch.
        names: paths of inputs and outputs.
        super_shape: the axes of all meshes with their sizes; all are bound.
        label: stands for the functions' names.

    Raises:
        ValueError: a function returns something, closes over arrays, or touches memory of another mesh's cores.
    """
    inputs, outputs, scratch = refs
    flat = [*map(in_kernel, (*inputs, *outputs)), *scratch]
    names = [*names, *(f"scratch[{i}]" for i in range(len(scratch)))]
    traced = []
    for mesh, fn in zip(meshes, functions):
        with bound_axes(_foreign_axes(mesh, super_shape)), mesh.tracing_context():
            jaxpr, consts = trace_open_kernel(
                fn,
                lambda *given, fn=fn: call(fn, given),
                flat,
                list(mesh.shape.values()),
                list(mesh.shape),
                names,
                label,
            )
        check_captured(
            fn, [a for a in map(aval_of, consts) if type(a) is not AbstractRef and a.shape]
        )
        # What nothing reads any more is not captured.
        closed = pe.prune_closed_consts(ClosedJaxpr(pe.dce_jaxpr_eqns(jaxpr), consts))
        _check_homes(mesh, fn, closed.jaxpr, names)
        traced.append(closed)
    captured = list({id(c): c for closed in traced for c in closed.consts}.values())
    return tuple(_unified(closed, captured, len(inputs), names) for closed in traced), captured


def _foreign_axes(mesh, super_shape):
    """Axes of other meshes: they have a size here, and no index."""

    def index(name):
        def refuse():
            raise NameError(
                f"axis_index({name!r}) at {_source_info.describe_caller()}: this function runs on the mesh {mesh}, which has no such "
                f"axis; another mesh of the mpmd_map has it"
            )

        return refuse

    return [
        Axis(name, size, "grid", index=index(name))
        for name, size in super_shape.items()
        if name not in mesh.shape
    ]


def _check_homes(mesh, fn, jaxpr, names) -> None:
    """Memory of the cores of one mesh is out of reach for functions on another; semaphores are signaled from anywhere."""
    for i in {e.input for e in jaxpr.effects if isinstance(e, _effects.RefEffect) and e.input >= 0}:
        space = jaxpr.invars[i].aval.memory_space
        home = mesh_of(space)
        if home not in (None, mesh) and not is_semaphore(jaxpr.invars[i].aval):
            raise ValueError(
                f"{names[i]}, in memory space {space}, belongs to the cores of {home}, but the function "
                f"{_source_info.describe_function(fn)} on {mesh} uses it"
            )


def _unified(closed: ClosedJaxpr, captured: Sequence[Any], n_in: int, names) -> ClosedJaxpr:
    """The jaxpr with all that is captured as references after the inputs. Numbers among it are read first."""
    jaxpr = closed.jaxpr
    own = {id(c): v for v, c in zip(jaxpr.constvars, closed.consts)}
    extra, reads = [], []
    for c in captured:
        var, aval = own.get(id(c)), aval_of(c)
        if type(aval) is AbstractRef:
            extra.append(Var(aval) if var is None else var)
            continue
        ref = Var(AbstractRef(aval))
        extra.append(ref)
        if var is not None:
            reads.append(
                JaxprEqn(
                    [ref],
                    [var],
                    get_p,
                    {"tree": _WHOLE},
                    frozenset((_effects.ReadEffect(0),)),
                    _source_info.UNKNOWN,
                )
            )
    paths = [*names[:n_in], *(f"captured[{i}]" for i in range(len(captured))), *names[n_in:]]
    info = jaxpr.debug_info
    return ClosedJaxpr(
        Jaxpr(
            [],
            [*jaxpr.invars[:n_in], *extra, *jaxpr.invars[n_in:]],
            [],
            [*reads, *jaxpr.eqns],
            debug_info=DebugInfo(info.name, tuple(paths), (), info.position),
        )
    )
