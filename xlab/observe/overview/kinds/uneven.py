"""Dimensions that do not divide by the devices they are split over: the last devices hold and compute padding."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

from xlab.core.jaxpr import JaxprEqn
from xlab.lax.constraint import with_sharding_constraint
from xlab.observe.overview.inspection import Inspection, kind
from xlab.observe.overview.measures import Measures, Proof, operations, peak, sent
from xlab.observe.programs.rewriting import changed
from xlab.observe.records.finding import Finding
from xlab.observe.sharding.reasons import spec_text
from xlab.sharding import NamedSharding, PartitionSpec

PART = 0.05
"""The part of what is held that must be padding for a word on it."""


@kind("uneven split")
def uneven_splits(at: Inspection) -> Iterable[Finding]:
    """Constraints on values whose dimensions do not divide."""
    for place in at.places:
        eqn = place.eqn
        if eqn.primitive.name != "sharding_constraint":
            continue
        sharding = eqn.params.get("sharding")
        if not isinstance(sharding, NamedSharding):
            continue
        aval: Any = eqn.invars[0].aval
        sizes = dict(sharding.mesh.shape)
        spec = [tuple(sharding.spec.axes_of(d) or ()) if d < len(sharding.spec) else () for d in range(aval.ndim)]  # fmt: skip
        ways = [math.prod(sizes.get(a, 1) for a in axes) for axes in spec]
        padded = [-(-n // w) * w for n, w in zip(aval.shape, ways)]
        extra = math.prod(padded) / max(1, aval.size) - 1
        odd = [d for d, (n, p) in enumerate(zip(aval.shape, padded)) if n != p]
        if not odd or extra < PART:
            continue
        d = odd[0]
        over = " and ".join(spec[d])
        found = at.finding(
            "uneven split",
            f"dimension {d} of {at.called(eqn.invars[0])} has {aval.shape[d]} entries over {ways[d]} devices of {over}: {padded[d]} are held, "
            f"{100 * extra:.0f} % of it padding",
            eqn,
            nbytes=round(extra * aval.nbytes / math.prod(ways)),
            tab="shardings",
        )
        for other in range(aval.ndim):
            if other != d and not spec[other] and aval.shape[other] % ways[d] == 0:
                moved = tuple(
                    spec[d] if k == other else () if k == d else axes for k, axes in enumerate(spec)
                )
                yield from at.offered(
                    found,
                    f"split a dimension that divides: with_sharding_constraint(…, {spec_text(moved)}), or pad dimension {d} to {padded[d]}",
                    functools.partial(_constrained, at, eqn, moved),
                    _no_worse,
                )
                break
        else:
            yield found


def _constrained(at: Inspection, eqn: JaxprEqn, spec: tuple) -> Any:
    mesh = eqn.params["sharding"].mesh
    sharding = NamedSharding(mesh, PartitionSpec(*(axes or None for axes in spec)))
    return changed(
        at.stages, lambda _e, given: [with_sharding_constraint(given[0], sharding)], [eqn]
    )


def _no_worse(before: Measures, after: Measures) -> Proof | None:
    """What became less of work, memory and communication, where none became more."""
    known = [measure(before, after) for measure in (operations, peak, sent)]
    less = tuple(x for x in known if x.after < x.before)
    if not less or any(1.02 * x.before < x.after for x in known):
        return None
    return Proof("compiled like that", less)
