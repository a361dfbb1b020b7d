"""Arrays that a program closes over: which are written into the module's text, and which are handed to it as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from xlab.backend.arrays import ArrayImpl
from xlab.core.array import is_native_array
from xlab.core.avals import HOST_VALUES, array_converters, aval_of
from xlab.core.jaxpr import ClosedJaxpr, Literal, open_jaxpr, subjaxprs_of_params
from xlab.core.key_array import KeyArray

# Arrays with more elements than this become arguments of the executable instead of text in the module.
INLINE_CONSTANT_LIMIT = 64

# Of integers more: they are mostly indices, and the compiler works out which of them are in bounds, sorted or slices.
INLINE_INTEGERS_LIMIT = 16384


def host_value(x):
    """A concrete value as a NumPy array."""
    if isinstance(x, HOST_VALUES):
        return np.asarray(x)
    if type(x) in array_converters:
        return host_value(array_converters[type(x)](x))
    if type(x) is ArrayImpl and not is_native_array(x):  # JAX's
        return np.asarray(x)
    check_closed_over(x)
    return np.asarray(x._host_value() if hasattr(x, "_host_value") else x)


def check_closed_over(x) -> None:
    """Raises where an array cannot become part of a program, because other processes hold some of it."""
    if not getattr(x, "is_fully_addressable", True) and not x.is_fully_replicated:
        raise RuntimeError(
            f"a program closes over an array of type {x.aval.str_short(short_dtypes=True)} that spans processes, so that it would be another "
            f"program in each. Pass the array as an argument of the function."
        )


def is_hoisted(constant) -> bool:
    """Whether an array is handed to the program as an argument instead of standing in its text."""
    aval = aval_of(constant)
    size = getattr(aval, "size", 0)
    if size <= INLINE_CONSTANT_LIMIT:
        return False
    integers = isinstance(aval.dtype, np.dtype) and aval.dtype.kind in "iu"
    if not integers or size > INLINE_INTEGERS_LIMIT:
        return True
    # An array on several devices stays there.
    return is_native_array(constant) and len(constant.sharding.device_set) > 1


_PLAIN = {bool, int, float, complex, np.bool_, np.int32, np.uint32, np.float32}


def prefetch(closed: ClosedJaxpr, hoisted: Sequence) -> None:
    """Starts reading the arrays that are written into the text, so that they are read at once and not one after the other."""
    done = set(map(id, hoisted))

    def start(x):
        x = x.base if isinstance(x, KeyArray) else x
        if id(x) not in done and is_native_array(x) and not x.is_deleted():
            done.add(id(x))
            x.copy_to_host_async()

    def visit(program):
        for c in getattr(program, "consts", ()):
            start(c)
        jaxpr = open_jaxpr(program)
        for v in chain.from_iterable(map(attrgetter("invars"), jaxpr.eqns)):
            if type(v) is Literal and type(v.val) not in _PLAIN:
                start(v.val)
        for eqn, _ in jaxpr.calls:
            for _, inner in subjaxprs_of_params(eqn.params):
                visit(inner)

    visit(closed)


def all_consts(closed: ClosedJaxpr) -> list:
    """Constants of the outer program; those of inner programs were hoisted into it while tracing."""
    seen: dict[int, Any] = {}
    for c in closed.consts:
        seen.setdefault(id(c), c)
    return list(seen.values())
