"""What `pmap` had before it became a `shard_map`: replicas inside larger programs, and the collectives allowed between processes.

With the option `pmap_replica_mode`, a map that is part of a larger program takes and returns whole arrays: every device picks its own
example, and writes its result into zeros that are added up over the devices.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np

from xlab.core.avals import aval_of
from xlab.core.jaxpr import Jaxpr, inner_jaxprs
from xlab.core.primitive import Primitive
from xlab.interpreters.communication import collective_rules
from xlab.lax.collectives import all_gather, axis_index, psum
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import full
from xlab.lax.shape import expand_dims
from xlab.lax.slicing_in_dim import dynamic_index_in_dim, dynamic_update_slice_in_dim

multi_host_supported_collectives: set[Primitive] = set(collective_rules)
"""The collectives that bodies of `pmap` over devices of several processes may use: all there are, until it is changed."""


def some_are_refused() -> bool:
    """Whether `multi_host_supported_collectives` lacks any."""
    return not multi_host_supported_collectives.issuperset(collective_rules)


def check_collectives(jaxpr: Jaxpr, label: str) -> None:
    """Raises TypeError where a body has collectives that are not in `multi_host_supported_collectives`."""
    bad = sorted({p.name for p in _collectives(jaxpr)} - _names())
    if bad:
        raise TypeError(
            f"pmap of {label} runs on devices of several processes and uses the collectives {', '.join(bad)}, which are not in "
            f"multi_host_supported_collectives: {', '.join(sorted(_names())) or 'it is empty'}"
        )


def _names() -> set[str]:
    return {p.name for p in multi_host_supported_collectives}


def _collectives(jaxpr: Jaxpr) -> Iterable[Primitive]:
    for eqn in jaxpr.eqns:
        if eqn.primitive in collective_rules:
            yield eqn.primitive
        for inner in inner_jaxprs(eqn.params):
            yield from _collectives(inner)


def warn_of_jit(label: str, size: int) -> None:
    """Says that a program around a map in replica mode gathers what the map spreads."""
    warnings.warn(
        f"The jitted program around pmap of {label} moves data inefficiently: with pmap_replica_mode each of its {size} devices holds the "
        f"arguments and results of the map whole. Remove the outer jit, or the option.",
        stacklevel=2,
    )


def own_example(x, axis: int | None, name):
    """This device's example of a whole array."""
    return x if axis is None else dynamic_index_in_dim(x, axis_index(name), axis, keepdims=False)


def spread(x, axis: int | None, name, size: int):
    """The whole array of the examples of all devices."""
    if axis is None:
        return x
    aval = aval_of(x)
    if not isinstance(aval.dtype, np.dtype):  # keys cannot be added
        return all_gather(x, name, axis=axis)
    if aval.dtype == np.bool_:
        whole = spread(convert_element_type(x, np.float32), axis, name, size)
        return convert_element_type(whole, np.bool_)
    row = expand_dims(x, (axis,))
    shape = aval_of(row).shape
    zeros = full((*shape[:axis], size, *shape[axis + 1 :]), 0, aval.dtype)
    return psum(dynamic_update_slice_in_dim(zeros, row, axis_index(name), axis), name)
