"""Traces a program again for other placements: with Explicit axes the placement is part of the types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlab.compile.lowering import MeshComputation
from xlab.compile.stages import ShapeDtypeStruct
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import ClosedJaxpr
from xlab.observe.programs.stages import ProgramStages
from xlab.sharding import Mesh, NamedSharding, set_mesh


def retraced(stages: ProgramStages, mesh: Mesh, shardings: Sequence[Any]) -> MeshComputation:
    """The function of a program, traced and lowered for other shardings of its arguments, on a mesh which is the current one meanwhile.

    Raises:
        ValueError: the function is not known, or is no program with arguments that lie so; the message says which.
    """
    advice = "call observe.what_if(f, args, in_shardings=…, mesh=…) with the function itself"
    if stages.origin is None:
        raise ValueError(
            f"the function of {stages.name} is not known any more, and with other placements it is another program: {advice}"
        )
    owner, in_tree = stages.origin
    if owner.static_argnums or owner.static_argnames:
        raise ValueError(
            f"{stages.name} has static arguments, whose values are not known any more: {advice}"
        )
    avals = stages.closed.in_avals
    if len(avals) != in_tree.num_leaves or not all(isinstance(a, ShapedArray) for a in avals):
        raise ValueError(f"{stages.name} takes arguments that are no arrays: {advice}")
    flat = [
        ShapeDtypeStruct(
            a.shape,
            a.dtype,
            sharding=s if isinstance(s, NamedSharding) else None,
            weak_type=a.weak_type,
        )
        for a, s in zip(avals, shardings)
    ]
    try:
        with set_mesh(mesh):
            program = owner.program(flat, in_tree, ())
            return owner.lower(program, tuple(x.sharding for x in flat), flat, in_tree)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{stages.name} is no program with its arguments placed so: {type(error).__name__}: {error}"
        ) from error


def names_mesh(closed: ClosedJaxpr, mesh: Mesh) -> bool:
    """Whether a program's text names a mesh, in a type or in a parameter.

    >>> import numpy as np, xlab
    >>> from xlab.sharding import make_mesh
    >>> names_mesh(xlab.make_jaxpr(lambda x: x + 1)(np.ones(3)), make_mesh((1,), ("i",)))
    False
    """

    def within(x: Any) -> bool:
        if isinstance(x, (tuple, list)):
            return any(map(within, x))
        if isinstance(x, ClosedJaxpr):
            x = x.jaxpr
        if hasattr(x, "eqns"):
            return any(within(v) for e in x.eqns for v in e.params.values())
        return (
            x is mesh
            or x == mesh.abstract_mesh
            or getattr(x, "mesh", None) in (mesh, mesh.abstract_mesh)
        )

    return within(closed)
