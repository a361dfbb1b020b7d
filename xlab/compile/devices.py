"""Which devices a program runs on, and the error when its parts disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from xlab.compile.placement import default_sharding
from xlab.core.jaxpr import Jaxpr, inner_jaxprs
from xlab.core.rules import RuleTable
from xlab.errors import IncompatibleDevices

sharding_sources = RuleTable(
    "compile.sharding_sources", "find shardings in",
    "rule(eqn) -> iterable of shardings the equation fixes", required=False)


class Claim(NamedTuple):
    """Somebody's demand for an ordered tuple of devices."""

    devices: tuple
    who: str


def intermediate_shardings(jaxpr: Jaxpr) -> Iterator[tuple[Any, Any]]:
    """Shardings fixed inside a program with the equation that fixes each, nested programs last."""
    find, nested = sharding_sources.get, []
    for eqn in jaxpr.eqns:
        rule = find(eqn.primitive)
        if rule is not None:
            for sharding in rule(eqn):
                if sharding is not None:
                    yield sharding, eqn
        if eqn.params:
            nested += inner_jaxprs(eqn.params)
    for inner in nested:
        yield from intermediate_shardings(inner)


def resolve(claims: Sequence[Claim], what: str) -> tuple[tuple, bool]:
    """The ordered devices everybody agrees on, and whether anybody asked for them."""
    if not claims:
        return tuple(default_sharding().devices_in_order), False
    first = claims[0]
    for other in claims[1:]:
        if other.devices != first.devices:
            raise IncompatibleDevices(
                f"{what} got incompatible devices: {first.who} is on {_devices(first.devices)}, but {other.who} is on "
                f"{_devices(other.devices)}. Put both on the same devices (xlab.device_put), or leave one "
                f"uncommitted.")
    return first.devices, True


def _devices(devices) -> str:
    ids = [d.id for d in devices]
    shown = str(ids) if len(ids) <= 16 else f"[{ids[0]}, ..., {ids[-1]}] ({len(ids)} devices)"
    return f"device ids {shown} on platform {devices[0].platform.upper()}"
