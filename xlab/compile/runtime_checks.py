"""Checks at run time: NaN under `debug_nans`, infinities under `debug_infs`, and reused keys.

Every result of a compiled program is read, shard by shard. When one holds such a value the function runs again
operation by operation, where the first operation that makes the value raises with its name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab import events
from xlab.backend import arrays as _arrays
from xlab.config import config
from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.core.jaxpr import ClosedJaxpr
from xlab.core.trace import describe_place


def watching() -> bool:
    """Whether results are checked."""
    return config.debug_nans or config.debug_infs


def observed() -> bool:
    """Whether a listener or check needs to see every call."""
    return bool(events.listeners or watching() or config.debug_key_reuse or config.no_execution)


def find(outs: Sequence) -> str | None:
    """'nan' or 'inf' if a result holds one and its check is on; reads no data if both are off."""
    if not watching():
        return None
    for x in outs:
        if (
            isinstance(x, KeyArray)
            or not is_native_array(x)
            or not dtypes.issubdtype(x.aval.dtype, np.inexact)
        ):
            continue
        for shard in _arrays.shards(x):
            value = _arrays.to_numpy(shard)
            if config.debug_nans and np.isnan(value).any():
                return "nan"
            if config.debug_infs and np.isinf(value).any():
                return "inf"
    return None


def check_eager(primitive: str, outs: list) -> list:
    """Returns the results of one operation; raises if they hold a value that is checked for."""
    kind = find(outs)
    if kind is not None:
        error = FloatingPointError(
            f"invalid value ({kind}) encountered in {primitive} at {describe_place()}"
        )
        error.primitive = primitive  # type: ignore[attr-defined]
        raise error
    return outs


class KeyWatch(NamedTuple):
    """How key reuse is checked; `random/` implements it."""

    program: Callable[[str, ClosedJaxpr, Sequence], Callable[[Sequence], None]]
    use: Callable[[str, Any], None]
    made: Callable[[Any], Any]


_keys: KeyWatch | None = None


def watch_keys(watch: KeyWatch) -> None:
    """Sets the checker of key reuse that `debug_key_reuse` turns on."""
    global _keys
    _keys = watch


def use_of_keys(
    name: str, closed: ClosedJaxpr, flat: Sequence
) -> Callable[[Sequence], None] | None:
    """Raises where a call uses a key twice; returns a function to be called with the results."""
    return None if _keys is None else _keys.program(name, closed, flat)


def use_key(name: str, key) -> None:
    """Marks a key as consumed by an eager operation; raises if it was consumed before."""
    if _keys is not None:
        _keys.use(name, key)


def made_key(key) -> None:
    """Marks keys as new, so that their use is checked."""
    if _keys is not None:
        _keys.made(key)


class _Replay(threading.local):
    """Whether a function runs again to find the operation that failed; bodies of `shard_map` then run operation by operation."""

    active = False


replay = _Replay()


def explain(kind: str, name: str, again: Callable) -> None:
    """Runs a function again, operation by operation, so that the failing operation raises; always raises."""
    if not replay.active:  # functions inside of one that runs again are not news
        print(
            f"Invalid {kind} value encountered in the output of a jitted function. Calling the de-optimized version."
        )
    before, replay.active = replay.active, True
    try:
        again()
    finally:
        replay.active = before
    raise FloatingPointError(
        f"invalid value ({kind}) encountered in the output of jit({name}), but not when its operations run one at a time. Either the "
        f"optimized program alone makes it (the compiler may reorder and fuse arithmetic), or it is a constant of the program, such "
        f"as a literal {kind} that is returned or closed over. Compare xlab.jit({name}) with xlab.disable_jit(), or leave "
        f"debug_{kind}s out around this call"
    )
