"""Other placements of a call of JAX's: the meshes, specs and shardings of either package as JAX's, for JAX to trace, lower and compile with."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.observe.beside import recognize
from xlab.observe.beside.calls import JaxFunction, JaxProgram, program_of
from xlab.observe.beside.held import held_of
from xlab.sharding import Mesh, PartitionSpec, Sharding, get_mesh


def is_mesh_of_jax(mesh: Any) -> bool:
    """Whether something is a mesh of JAX's.

    >>> is_mesh_of_jax(None)
    False
    """
    found = recognize.jax()
    kinds = (found.sharding.Mesh, found.sharding.AbstractMesh) if found is not None else ()
    return isinstance(mesh, kinds)


def tree_of(args: Any) -> tuple[list[Any], Any]:
    """The leaves of arguments, and their structure, by the classes that JAX knows."""
    return recognize.jax().tree_util.tree_flatten(args)


def mesh_of(mesh: Any = None, leaves: Sequence[Any] = ()) -> Any:
    """A mesh of JAX's: the given one, JAX's current one, that of an argument, or our current one; None where there is none.

    Raises:
        ValueError: it has devices that JAX does not have.
    """
    found = recognize.jax()
    if mesh is None:
        mesh = found.sharding.get_mesh()
    if mesh is None or mesh.empty:
        placed = (getattr(getattr(x, "sharding", None), "mesh", None) for x in leaves)
        mesh = next((m for m in placed if m is not None), None) or get_mesh()
    if mesh is None or mesh.empty:
        return None
    if isinstance(mesh, found.sharding.Mesh):
        return mesh
    kinds = tuple(found.sharding.AxisType[t.name] for t in mesh.axis_types)
    present = {d.id: d for d in found.devices()}
    ids = [d.id for d in mesh.devices.flat] if isinstance(mesh, Mesh) else list(range(mesh.size))
    if not set(ids) <= set(present):
        raise ValueError(
            f"the mesh {dict(mesh.shape)} has devices that JAX does not have here, and JAX compiles for its own {len(present)}: for others, "
            "observe.Experiment(f, *args).search(axes=…) compiles what JAX traced by the rules of xlab"
        )
    grid = np.empty(len(ids), dtype=object)
    grid[:] = [present[i] for i in ids]
    return found.sharding.Mesh(grid.reshape(tuple(mesh.shape.values())), mesh.axis_names, kinds)


def sharding_of(s: Any, mesh: Any) -> Any:
    """A spec or a sharding of either package as a sharding of JAX's.

    Raises:
        ValueError: a spec without a mesh.
    """
    home = recognize.jax().sharding
    if s is None or (isinstance(s, home.Sharding) and not isinstance(s, Sharding)):
        return s
    if hasattr(s, "spec"):
        return sharding_of(s.spec, mesh_of(s.mesh))
    if isinstance(s, PartitionSpec) and not isinstance(s, home.PartitionSpec):
        free = PartitionSpec.UNCONSTRAINED
        s = home.PartitionSpec(*(home.PartitionSpec.UNCONSTRAINED if e is free else e for e in s))
    if isinstance(s, str):
        s = home.PartitionSpec(s)
    if not isinstance(s, home.PartitionSpec):
        raise TypeError(
            f"a sharding or a PartitionSpec is needed, given {s!r} of type {type(s).__name__}"
        )
    if mesh is None:
        raise ValueError(
            f"{s} needs a mesh: pass mesh=, set one with jax.set_mesh(mesh), or place an argument with jax.device_put"
        )
    return home.NamedSharding(mesh, s)


def is_leaf(x: Any) -> bool:
    """Whether something says how one value lies: nothing, or a spec or a sharding of either package."""
    home = recognize.jax().sharding
    return x is None or isinstance(
        x, (str, PartitionSpec, Sharding, home.PartitionSpec, home.Sharding)
    )


def placed_program(
    fun: Any, args: tuple, in_shardings: Any, out_shardings: Any, mesh: Any
) -> tuple[JaxProgram, Any]:
    """A call of JAX's with its arguments placed otherwise, as JAX traces it, and the mesh of JAX's where specs lie.

    Raises:
        TypeError: what is called was traced already, for the placement that it has.
        ValueError: a spec without a mesh, or shardings that do not fit the arguments.
    """
    fun = fun.fun if isinstance(fun, JaxFunction) else fun
    if recognize.kind_of(fun) in ("Traced", "Lowered", "Compiled"):
        raise TypeError(
            f"a {type(fun).__name__} of JAX's is made for the placement that it has: pass the function, or what jax.jit(f) returned"
        )
    leaves, tree = tree_of(args)
    mesh = mesh_of(mesh, leaves)
    alone = not isinstance(in_shardings, tuple) or is_leaf(in_shardings)
    given = (in_shardings,) * len(args) if alone else in_shardings
    specs = _broadcast(given, args)
    held = held_of(fun, args, {})
    typed = [
        _typed(x, sharding_of(s, mesh)) if held.is_dynamic(x) else x
        for x, s in zip(leaves, specs, strict=True)
    ]
    if out_shardings is not None:
        fun = _constrained(fun, out_shardings, mesh)
    return program_of(fun, tree.unflatten(typed)), mesh


def _broadcast(prefix: Any, full: Any) -> list[Any]:
    trees = recognize.jax().tree_util
    out: list[Any] = []

    def each(s: Any, part: Any) -> None:
        out.extend([s] * len(trees.tree_leaves(part)))

    trees.tree_map(each, prefix, full, is_leaf=is_leaf)
    return out


def _typed(x: Any, sharding: Any) -> Any:
    """The type of an argument, placed; what is no array stays as it is."""
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        if sharding is None:
            return x
        x = np.asarray(x)
    found = recognize.jax()
    aval = found.typeof(x) if not hasattr(x, "weak_type") else x
    return found.ShapeDtypeStruct(
        aval.shape, aval.dtype, sharding=sharding, weak_type=bool(getattr(aval, "weak_type", False))
    )


def _constrained(fun: Any, out_shardings: Any, mesh: Any) -> Any:
    """The function with its results placed."""
    found = recognize.jax()
    called = found.extend.core.jaxpr_as_fun(fun) if recognize.is_stage(fun) else fun

    def run(*args: Any, **kwargs: Any) -> Any:
        result = called(*args, **kwargs)
        leaves, tree = tree_of(result)
        specs = _broadcast(out_shardings, result)
        return tree.unflatten(
            x if s is None else found.lax.with_sharding_constraint(x, sharding_of(s, mesh))
            for x, s in zip(leaves, specs, strict=True)
        )

    return functools.update_wrapper(run, called)


def put(x: Any, spec: Any, mesh: Any) -> Any:
    """An array of JAX's on a mesh, by a spec of either package."""
    return recognize.jax().device_put(x, sharding_of(spec, mesh_of(mesh)))
