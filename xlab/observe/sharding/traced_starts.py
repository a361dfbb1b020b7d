"""Slices that begin where a traced value says: any entry may be asked of any device, so that a split dimension is brought together."""

from __future__ import annotations

from typing import Any

from xlab.core.jaxpr import JaxprEqn, Var
from xlab.observe.programs.stages import ProgramStages


def traced_start(stages: ProgramStages, eqn: JaxprEqn | None) -> str:
    """What an equation is in words where it slices, or makes what is sliced, at a traced place; empty for others.

    A roll by a traced amount is a slice of the array twice in a row.
    """
    if eqn is None:
        return ""
    equations = stages.equations.values()
    if _slices_traced(eqn):
        made_by = [e for e in equations if any(v is eqn.invars[0] for v in e.outvars)]
        rolls = any(_rolls(e, eqn) for e in made_by)
        return "roll by a traced amount" if rolls else f"{eqn.primitive.name} at a traced place"
    read_by = [e for e in equations if any(v is eqn.outvars[0] for v in e.invars)]
    rolls = any(_slices_traced(e) and _rolls(eqn, e) for e in read_by)
    return "roll by a traced amount" if rolls else ""


def _rolls(doubled: JaxprEqn, part: JaxprEqn) -> bool:
    """Whether a slice takes as much as an array has of that array written twice."""
    first: Any = doubled.invars[0]
    made: Any = part.outvars[0].aval
    return (
        doubled.primitive.name == "concatenate"
        and all(v is first for v in doubled.invars)
        and first.aval.shape == made.shape
    )


def _slices_traced(eqn: JaxprEqn) -> bool:
    """Whether an equation reads or writes a part of an array from a place that is no constant, along a dimension that it does not take whole."""
    of: Any = eqn.invars[0].aval
    if eqn.primitive.name == "dynamic_slice":
        starts, sizes = eqn.invars[1:], eqn.params["slice_sizes"]
    elif eqn.primitive.name == "dynamic_update_slice":
        part: Any = eqn.invars[1].aval
        starts, sizes = eqn.invars[2:], part.shape
    else:
        return False
    return any(
        type(start) is Var and size != whole
        for start, size, whole in zip(starts, sizes, of.shape, strict=False)
    )
