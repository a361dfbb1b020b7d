"""User classes that `vmap` maps over, with their own mapping specifications instead of axis numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab import tree as _tree


class _Handlers(NamedTuple):
    spec_type: type
    axis_size_type: type
    to_elt: Callable
    from_elt: Callable
    make_iota: Callable | None


_handlers: dict[type, _Handlers] = {}


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable,
    from_elt: Callable,
    make_iota: Callable | None,
) -> None:
    """Makes values of a class, leaves for pytrees, something `vmap` can map over.

    Args:
        spec_type: the class of what stands for such values in `in_axes` and `out_axes`.
        axis_size_type: the class of the number of examples, as given in `axis_size`.
        to_elt: `to_elt(map_part, get_index, value, spec)` gives one example of a value; `map_part(array, axis)` does for an array.
        from_elt: `from_elt(join_part, axis_size, example, spec)` puts examples together; `join_part(axis_size, array, axis)` does
            for an array.
        make_iota: `make_iota(axis_size)` gives the numbers of the examples as an array.
    """
    if data_type in _handlers:
        raise ValueError(f"{data_type} is vmappable already: unregister_vmappable it first")
    _handlers[data_type] = _Handlers(spec_type, axis_size_type, to_elt, from_elt, make_iota)


def unregister_vmappable(data_type: type) -> None:
    """Undoes `register_vmappable`."""
    if data_type not in _handlers:
        raise KeyError(f"{data_type} is not vmappable")
    del _handlers[data_type]


batched_in_front: set[type] = set()
"""Container classes whose buffers have their batch dimensions in front, and whose shape follows from them."""


def check_in_front(name: str, tree: Any, axes: Sequence, what: str) -> None:
    """Raises ValueError where a container of `batched_in_front` would be mapped along another dimension than the first.

    Args:
        name: what is mapped, for the message.
        tree: containers whose leaves are positions in `axes`.
        axes: the axis of each leaf.
        what: `in_axes` or `out_axes`.
    """
    own = lambda x: type(x) in batched_in_front
    for node in _tree.leaves(tree, is_leaf=own):
        if own(node):
            other = [axes[i] for i in _tree.leaves(node) if axes[i] not in (0, None)]
            if other:
                raise ValueError(
                    f"vmap of {name}: {what} is {other[0]} for a {type(node).__name__}, whose batch dimensions are a contiguous "
                    f"block of leading dimensions: map it along its first one, and transpose afterwards"
                )


def is_vmappable(x) -> bool:
    """Whether `x` is a value of a registered class."""
    return type(x) in _handlers


def is_spec(x) -> bool:
    """Whether `x` says how such values are mapped."""
    return any(isinstance(x, h.spec_type) for h in _handlers.values())


def to_example(trace: Any, x: Any, spec: Any):
    """One example of `x` under a batching trace."""
    handlers = _handlers.get(type(x))
    if handlers is None:
        return x if spec is None else trace.join(x, spec)

    def number_of_example():
        numbers = (handlers.make_iota or functools.partial(np.arange, dtype=np.int32))(
            trace.axis.size
        )
        return trace.join(numbers, 0)

    return handlers.to_elt(functools.partial(to_example, trace), number_of_example, x, spec)


def from_example(trace: Any, move_batch_dim_to: Callable, size: Any, x: Any, spec: Any):
    """All examples of `x`, a value of a batching trace, together; `move_batch_dim_to(value, dim, size, target)` places a dimension."""
    handlers = _handlers.get(type(x))
    if handlers is not None:
        return handlers.from_elt(
            functools.partial(from_example, trace, move_batch_dim_to), size, x, spec
        )
    value, dim = trace.split(x)
    return move_batch_dim_to(value, dim, size, spec)
