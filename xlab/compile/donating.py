"""Calls with donated arguments: the check before each call, and the record of donated arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab.backend import arrays as _arrays
from xlab.backend.pytree import registry
from xlab.core import donation
from xlab.core.trace import EVAL, state


def donating(jitted, native: Callable) -> Callable:
    """Wraps a jitted function with donated arguments: calls `native` and records which arrays it took.

    Donated arrays must not share buffers, and a later use of one must raise an error that names this call. Native code checks
    neither; on several devices it would end the process.
    """
    name = f"jit({jitted.name})"
    numbers, names = {*jitted.donate_argnums}, {*jitted.donate_argnames}
    static, static_names = {*jitted.static_argnums}, {*jitted.static_argnames}
    flatten, all_apart, take, arrays_only = (
        registry.flatten,
        _arrays.all_apart,
        donation.take,
        {_arrays.ArrayImpl},
    )
    # By how many positional arguments: those donated, and others.
    splits: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def split(n: int):
        at = [i for i in range(n) if i not in static and i - n not in static]
        donated = tuple(i for i in at if i in numbers or i - n in numbers)
        found = splits[n] = donated, tuple(i for i in at if i not in donated)
        return found

    def call_donating(*args: Any, **kwargs: Any) -> Any:
        if state.trace is not EVAL:
            return native(*args, **kwargs)
        donated, others = splits.get(len(args)) or split(len(args))
        if others or kwargs:
            given = flatten(
                ([args[i] for i in donated], [v for k, v in kwargs.items() if k in names]), None
            )[0]
            rest = (
                [args[i] for i in others],
                [v for k, v in kwargs.items() if k not in names and k not in static_names],
            )
            flat = given + flatten(rest, None)[0]
        else:
            flat = given = (
                args
                if {*map(type, args)} == arrays_only
                else flatten([args[i] for i in donated], None)[0]
            )
        if (
            len(flat) > 1
            and not all_apart(flat)
            and donation.clash(flat, range(len(given))) is not None
        ):
            # Which sees whether the program takes any of those.
            return jitted.cache_miss(*args, **kwargs)[0]
        out = native(*args, **kwargs)
        take(given, name)
        return out

    call_donating.__name__ = call_donating.__qualname__ = jitted.name
    return call_donating
