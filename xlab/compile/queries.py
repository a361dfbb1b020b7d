"""Questions about traced programs, asked before they are lowered: what is in them, and which devices they need.

All take a `Jaxpr` or a `ClosedJaxpr` and look into nested programs. They are public as `xlab.extend.core.has_primitive`
and so on.

>>> import xlab
>>> from xlab import lax
>>> traced = xlab.make_jaxpr(xlab.jit(lambda x: lax.sin(x) * 2.0))(1.0)
>>> has_primitive(traced, "sin"), has_primitive(traced, "cos"), list(literals(traced))
(True, False, [2.0])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from xlab.compile.devices import intermediate_shardings
from xlab.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    inner_jaxprs,
    open_jaxpr,
    subjaxprs,
)
from xlab.core.source_info import SourceInfo
from xlab.interpreters.mlir import lowered_with_devices
from xlab.sharding import AbstractMesh, NamedSharding, Sharding


def equations(jaxpr: Jaxpr | ClosedJaxpr) -> Iterator[JaxprEqn]:
    """All equations, each followed by those of the programs inside it."""
    for eqn in open_jaxpr(jaxpr).eqns:
        yield eqn
        if eqn.params:
            for inner in inner_jaxprs(eqn.params):
                yield from equations(inner)


def literals(jaxpr: Jaxpr | ClosedJaxpr) -> Iterator[Any]:
    """The values written into a program: of every operand and result that is a literal, in equation order."""
    jaxpr = open_jaxpr(jaxpr)
    for eqn in jaxpr.eqns:
        yield from (v.val for v in eqn.invars if type(v) is Literal)
        if eqn.params:
            for inner in inner_jaxprs(eqn.params):
                yield from literals(inner)
    yield from (v.val for v in jaxpr.outvars if type(v) is Literal)


def has_primitive(jaxpr: Jaxpr | ClosedJaxpr, name: str) -> bool:
    """Whether the name of a primitive in the program contains `name`, as `"si"` is in `sin`."""
    return any(name in eqn.primitive.name for eqn in equations(jaxpr))


class FixedSharding(NamedTuple):
    """A sharding that an equation of a program fixes.

    Attributes:
        sharding: what it fixes.
        primitive: name of its primitive.
        source_info: where the user wrote it.
    """

    sharding: Any
    primitive: str
    source_info: SourceInfo


def fixed_shardings(jaxpr: Jaxpr | ClosedJaxpr) -> list[FixedSharding]:
    """Shardings that equations fix, in equation order, those of nested programs last.

    Of constraints, inner jits, regions of `shard_map` and `device_put`; shardings over meshes without devices fix none.
    """
    return [
        FixedSharding(sharding, eqn.primitive.name, eqn.source_info)
        for sharding, eqn in intermediate_shardings(open_jaxpr(jaxpr))
        if isinstance(sharding, Sharding)
        and not (isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh))
    ]


def needs_devices_to_lower(jaxpr: Jaxpr | ClosedJaxpr) -> bool:
    """Whether the module of the program depends on the devices that it is for, and not only on their number.

    The module of other programs serves all devices: a call on another device compiles it, and does not lower again.
    """
    jaxpr = open_jaxpr(jaxpr)
    if not lowered_with_devices.isdisjoint({eqn.primitive for eqn in jaxpr.eqns}):
        return True
    return any(map(needs_devices_to_lower, subjaxprs(jaxpr)))


def devices_needed(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """How many devices the largest mesh or sharding inside the program has; 1 where it names none."""
    sizes = (
        s.mesh.size if isinstance(s, NamedSharding) else len(s.device_set)
        for s, _ in intermediate_shardings(open_jaxpr(jaxpr))
        if isinstance(s, Sharding)
    )
    return max(sizes, default=1)


def has_dynamic_shapes(jaxpr: Jaxpr | ClosedJaxpr) -> bool:
    """Whether a type in the program has a dimension that is not a number, as in programs for `export` with symbolic shapes."""
    jaxpr = open_jaxpr(jaxpr)
    variables = (*jaxpr.constvars, *jaxpr.invars, *(v for e in equations(jaxpr) for v in e.outvars))
    return any(type(d) is not int for v in variables for d in getattr(v.aval, "shape", ()))
