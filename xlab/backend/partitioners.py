"""Operations that Python partitions: the compiler calls back when it splits one over devices.

A program holds them as custom calls of one target, whose backend config is the number of a `partitioner`. A partitioner lives as long as
the lowered program that speaks of it.

Example:
    >>> number = add(lambda operands, results: None)
    >>> find(number) is None  # nobody keeps the function
    True
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xlab.backend.native import _hlo, _jax

TARGET = "xlab_custom_partitioning"

_numbers = itertools.count(1)
_known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_lock = threading.Lock()
_registered = False


def add(partitioner: Callable[..., Any]) -> int:
    """Makes a partitioner known to the compiler; gives the number that a custom call names it by.

    Args:
        partitioner: called as `partitioner(operands, results)` with the tilings of both, in compiles; returns the text of the module
            that each device runs, the tilings it takes its operands in, and those it leaves its results in.
    """
    global _registered
    with _lock:
        if not _registered:
            # Shardings are propagated by rules in the program, and these two are never asked.
            _jax.register_custom_call_partitioner(
                TARGET, _results_sharding, _partition, _results_of_operands, True
            )
            _registered = True
    number = next(_numbers)
    _known[number] = partitioner
    return number


def find(number: int) -> Any:
    """The partitioner of a number, or None where it is gone."""
    return _known.get(number)


def _results_sharding(sharding: Any, _shape: Any, _config: bytes) -> Any:
    return sharding


def _results_of_operands(
    _shapes: Sequence, shardings: Sequence, _shape: Any, _config: bytes
) -> Any:
    return shardings[0] if shardings else _hlo.HloSharding.replicate()


def _partition(
    _shapes: Sequence, operands: Sequence, shape: Any, result: Any, config: bytes
) -> tuple[bytes, list, Any]:
    partitioner = find(int(config))
    if partitioner is None:
        raise RuntimeError(
            "the function that partitions this operation was made in another process, or its program is gone"
        )
    several = shape.is_tuple()
    if several and not shape.tuple_shapes():  # an operation without results
        text, operands, _ = partitioner(list(operands), [])
        return text.encode(), operands, result
    results = _parts(result, len(shape.tuple_shapes())) if several else [result]
    text, operands, results = partitioner(list(operands), results)
    return text.encode(), operands, _together(results) if several else results[0]


def _parts(sharding: Any, n: int) -> list[Any]:
    """The tilings of the parts of a tuple, which has either one for each or one for all."""
    parts = sharding.tuple_elements()
    return list(parts) if len(parts) == n else [sharding] * n


def _together(parts: Sequence[Any]) -> Any:
    proto = _hlo.OpSharding()
    proto.type = _hlo.OpSharding.Type.TUPLE
    proto.tuple_shardings = [p.to_proto() for p in parts]
    return _hlo.HloSharding.from_proto(proto)
