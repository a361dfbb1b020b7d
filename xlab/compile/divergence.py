"""Programs whose devices may diverge at a collective: a warning or an error, and a timeout."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from xlab.backend import caches, watchdog
from xlab.config import config
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, inner_jaxprs
from xlab.core.source_info import warn
from xlab.core.trace import state
from xlab.errors import DivergenceError, DivergenceWarning
from xlab.interpreters.divergence import Divergence, divergences, divergences_of_body

_reported: caches.Latest[tuple, None] = caches.Latest(1000)


def check_body(jaxpr: Jaxpr, mesh, in_specs: Sequence, check_vma: bool) -> None:
    """Reports divergences in the traced body of an outermost `shard_map`."""
    if mesh.size > 1 and state.manual_mesh is None:
        for found in divergences_of_body(jaxpr, mesh, in_specs, check_vma):
            _report(found, "")


def watched(
    closed: ClosedJaxpr, name: str, devices: Sequence
) -> Callable[[list[int], list[int], float], str] | None:
    """For a program that may deadlock, the message to raise then; reports divergences not yet reported."""
    found = divergences(closed) if _mapped(closed.jaxpr) else []
    for one in found:
        if one.places not in _reported:
            _report(one, f"In a program made of jit({name}), such as its derivative: ")
    if not found:
        return None
    return lambda ended, waiting, seconds: _deadlock_text(
        found, name, devices, ended, waiting, seconds
    )


def _mapped(jaxpr: Jaxpr) -> bool:
    return any(
        e.primitive.name == "shard_map" or any(map(_mapped, inner_jaxprs(e.params)))
        for e in jaxpr.eqns
    )


def _report(found: Divergence, introduction: str) -> None:
    _reported[found.places] = None
    decider = found.deciders[-1]
    loop = decider.primitive.name == "while"
    along = found.axes[0] if len(found.axes) == 1 else found.axes
    text = (
        f"{introduction}{found}. Devices that {'leave the loop earlier' if loop else 'take another branch'} do not come to it, and the "
        f"others wait for them{_everybody(found)}. {'Test' if loop else 'Decide by'} something that is the same along {along!r}, as what "
        f"lax.pmax, lax.psum or lax.all_gather give, or communicate outside of the {decider.primitive.name} and select."
    )
    if config.strict_divergence:
        raise DivergenceError(text)
    place = found.collective.source_info.position()
    message = f"{text} config.strict_divergence makes this an error."
    if place is None:
        warn(message, DivergenceWarning)
    else:
        warnings.warn_explicit(message, DivergenceWarning, place.file, place.line)


def _everybody(found: Divergence) -> str:
    own = found.collective.params.get("axis_name", ())
    return (
        ""
        if set(found.axes) & set(own if isinstance(own, tuple) else (own,))
        or "axes" in found.collective.params
        else (": on CPU all devices of the mesh take part in it, whichever pairs it names")
    )


def _deadlock_text(found: Sequence[Divergence], name, devices, ended, waiting, seconds) -> str:
    def named(numbers):
        return (
            "device"
            + "s" * (len(numbers) > 1)
            + " "
            + ", ".join(str(devices[i].id) for i in numbers)
        )

    who = (
        f"{named(waiting)} wait in a collective to which {named(ended)}, which {'have' if len(ended) > 1 else 'has'} ended, did not come"
        if ended and waiting
        else "its devices wait for one another in different collectives"
    )
    where = "; ".join(map(str, found[:5])) + (
        f"; and {len(found) - 5} more" if len(found) > 5 else ""
    )
    return (
        f"jit({name}) has done nothing but wait for {seconds:g} s: {who}. Where that can happen: {where}. A started program cannot be "
        f"called back, so these threads stay occupied: programs in which devices communicate no longer run in this process, others do. "
        f"Save what you need and restart the process (in a notebook, the kernel); the runtime itself ends it after "
        f"{watchdog.GRACE // 60} minutes. config.collective_timeout sets how long to wait."
    )
