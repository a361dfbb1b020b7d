"""Looking for values that should not be there: NaN under `debug_nans`, infinities under `debug_infs`, and keys used twice.

Every result of a compiled program is read, shard by shard. When one holds such a value the function runs again
operation by operation, where the first operation that makes the value raises with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab.backend import arrays as _arrays
from xlab.config import config
from xlab.core import dtypes, source_info
from xlab.core.array import KeyArray, is_native_array
from xlab.core.jaxpr import ClosedJaxpr


def watching() -> bool:
    """Whether results are to be looked at."""
    return config.debug_nans or config.debug_infs


def find(outs: Sequence) -> str | None:
    """'nan' or 'inf' when a result holds one that is watched for; reads nothing when none is."""
    if not watching():
        return None
    for x in outs:
        if isinstance(x, KeyArray) or not is_native_array(x) or not dtypes.issubdtype(x.aval.dtype, np.inexact):
            continue
        for shard in _arrays.shards(x):
            value = _arrays.to_numpy(shard)
            if config.debug_nans and np.isnan(value).any():
                return "nan"
            if config.debug_infs and np.isinf(value).any():
                return "inf"
    return None


def check_eager(primitive: str, outs: list) -> list:
    """The results of one operation, unless they hold what is watched for."""
    kind = find(outs)
    if kind is not None:
        raise FloatingPointError(f"invalid value ({kind}) encountered in {primitive} at {source_info.describe_caller()}")
    return outs


class KeyWatch(NamedTuple):
    """How the use of random keys is followed; the room of random keys says it."""

    program: Callable[[str, ClosedJaxpr, Sequence], Callable[[Sequence], None]]
    use: Callable[[str, Any], None]
    made: Callable[[Any], Any]


_keys: KeyWatch | None = None


def watch_keys(watch: KeyWatch) -> None:
    """Has keys followed by `watch` under `debug_key_reuse`."""
    global _keys
    _keys = watch


def use_of_keys(name: str, closed: ClosedJaxpr, flat: Sequence) -> Callable[[Sequence], None] | None:
    """Raises where a call of a program uses a key twice; what it returns is told the results."""
    return None if _keys is None else _keys.program(name, closed, flat)


def use_key(name: str, key) -> None:
    """A key is used up by an operation of its own; raises if it was before."""
    if _keys is not None:
        _keys.use(name, key)


def made_key(key) -> None:
    """New keys, which are followed from now on."""
    if _keys is not None:
        _keys.made(key)


def explain(kind: str, name: str, again: Callable) -> None:
    """Runs a function again, operation by operation, so that the one to blame raises; raises in any case."""
    print(f"Invalid {kind} value encountered in the output of a jitted function. Calling the de-optimized version.")
    again()
    raise FloatingPointError(
        f"invalid value ({kind}) encountered in the output of jit({name}), but not when its operations run one at a time. Either the "
        f"optimized program alone makes it (the compiler may reorder and fuse arithmetic), or it is a constant of the program, such "
        f"as a literal {kind} that is returned or closed over. Compare xlab.jit({name}) with xlab.disable_jit(), or leave "
        f"debug_{kind}s out around this call")
