"""Operations that work row by row: how the devices may share the rows where the partitioner gives each of them all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlab.core.jaxpr import JaxprEqn
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.sharding.reasons import PartitionedValue, Try
from xlab.observe.sharding.whole_matrices import WHOLE

_ALONG = {"sort": "dimension", "cumsum": "axis", "cumprod": "axis", "cummax": "axis", "cummin": "axis", "cumlogsumexp": "axis"}  # fmt: skip


def rows_of(eqn: JaxprEqn) -> tuple[int, ...]:
    """The dimensions of an equation's operands along which it does the same for each entry; empty where that is not known."""
    shapes = {getattr(v.aval, "shape", ()) for v in eqn.invars}
    name, rank = eqn.primitive.name, len(getattr(eqn.invars[0].aval, "shape", ())) if eqn.invars else 0  # fmt: skip
    if name == "fft":
        return tuple(range(rank - len(eqn.params["fft_lengths"])))
    if len(shapes) == 1 and name in _ALONG:
        return tuple(d for d in range(rank) if d != eqn.params[_ALONG[name]])
    if name in WHOLE and len({s[:-2] for s in shapes}) == 1:
        return tuple(range(rank - 2))
    return ()


def ways_apart(
    stages: ProgramStages, number: int, read: Sequence[PartitionedValue], axes: Sequence[str]
) -> tuple[Try, ...]:
    """How each device may do its rows of an equation: these mesh axes split a dimension that holds rows."""
    eqn = stages.equations.get(number)
    mesh = stages.mesh
    rows = rows_of(eqn) if eqn is not None else ()
    if eqn is None or not rows or not axes or mesh is None or not mesh.are_all_axes_auto:
        return ()
    shape = getattr(eqn.invars[0].aval, "shape", ())
    known = next((v.type.spec for v in read if v.type.shape == shape and v.type.spec), None)
    lies = [tuple(a.split(":")[0] for a in dim) for dim in known or ((),) * len(shape)]
    sizes = dict(zip(mesh.axis_names, mesh.axis_sizes))
    spec = [dim if d in rows else () for d, dim in enumerate(lies)]
    left = tuple(a for a in axes if not any(a in dim for dim in spec))
    for d in sorted(rows, key=lambda d: -shape[d]):
        if shape[d] % math.prod(sizes[a] for a in (*spec[d], *left)) == 0:
            spec[d] = (*spec[d], *left)
            return (Try(apart=(number, tuple(spec))),)
    return ()
