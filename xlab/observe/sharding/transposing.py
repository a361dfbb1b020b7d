"""`transposed`: what the derivative of a program communicates, beside what the program does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.interpreters.communication_costs import Interconnect
from xlab.observe.beside.calls import ours_of, program_of
from xlab.observe.beside.recognize import belongs_to_jax, is_stage
from xlab.observe.programs import names as _names
from xlab.observe.programs.stages import program_stages
from xlab.observe.records import Transfer
from xlab.observe.records.transposed import Transposed
from xlab.observe.sharding.collectives import collectives
from xlab.transforms.make_jaxpr import eval_shape
from xlab.transforms.vjp import vjp


def transposed(
    fun: Callable,
    *args: Any,
    link: str | Interconnect = "cpu",
    algorithm: str = "ring",
    **kwargs: Any,
) -> Transposed:
    """The collectives that a function writes, and beside each those of its transpose (reverse-mode derivative).

    Derivatives are taken by all arguments of floating or complex dtype. Nothing is compiled or run.

    Args:
        fun: a function.
        args, kwargs: its arguments, or shapes and dtypes of them.
        link, algorithm: what the times are predicted for, as for `observe.transfers`.

    Raises:
        TypeError: no argument has a derivative.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import AxisType, PartitionSpec as P
        >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
        >>> def gather(x):
        ...     return xlab.lax.all_gather(x, "i", tiled=True)
        >>> f = xlab.shard_map(gather, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
        >>> found = transposed(f, np.ones(2, np.float32))
        >>> [t.call for t in found.forward], [t.call for t in found.backward]
        (['all_gather'], ['psum_scatter'])
    """
    if not callable(fun) and not is_stage(fun):
        raise TypeError(f"transposed takes a function and its arguments, got {fun!r}")
    name, made_by = getattr(fun, "__name__", type(fun).__name__), ""
    if belongs_to_jax(fun, args, kwargs):
        theirs = program_of(fun, args, kwargs)
        name = theirs.name
        made_by = f"traced by {theirs.version}, transposed by the rules of xlab"
        fun, args = ours_of(theirs, args, kwargs)
        kwargs = {}
    leaves, tree = _tree.flatten((args, kwargs))
    derived = [i for i, x in enumerate(leaves) if _has_derivative(x)]
    if not derived:
        raise TypeError(
            "transposed: no argument has a derivative; give some of floating or complex dtype"
        )

    def of_derived(*given):
        full = list(leaves)
        for i, x in zip(derived, given):
            full[i] = x
        args, kwargs = _tree.unflatten(tree, full)
        return [x for x in _tree.leaves(fun(*args, **kwargs)) if _has_derivative(x)]

    given = [leaves[i] for i in derived]
    cotangents = [np.zeros(s.shape, s.dtype) for s in eval_shape(of_derived, *given)]

    def backwards(given, cotangents):
        return vjp(of_derived, *given)[1](list(cotangents))

    first = program_stages(fun, args, kwargs)
    forward, _ = collectives(first, link, algorithm, False)
    second = program_stages(backwards, (given, cotangents))
    found, _ = collectives(second, link, algorithm, False)
    backward = [t for t in found if _names.is_transposed(second.equations[t.equation])]
    return Transposed(
        name,
        tuple(forward),
        tuple(backward),
        _beside(forward, backward),
        made_by,
    )


def _has_derivative(x: Any) -> bool:
    dtype = getattr(aval_of(x), "dtype", None)  # what is no array has none
    return dtype is not None and dtypes.issubdtype(dtype, np.inexact)


def _beside(forward: list[Transfer], backward: list[Transfer]) -> tuple[tuple[int, ...], ...]:
    """The transposes of each: from the same call, the last one first."""
    left: dict[Any, list[int]] = {}
    for j, t in enumerate(backward):
        left.setdefault(t.source, []).append(j)
    count: dict[Any, int] = {}
    for t in forward:
        count[t.source] = count.get(t.source, 0) + 1
    out: list[tuple[int, ...]] = []
    for t in reversed(forward):  # a transpose runs the calls of one place in the other order
        mine = left.get(t.source, []) if t.source is not None else []
        share = -(-len(mine) // count[t.source]) if mine else 0
        out.append(tuple(mine[:share]))
        left[t.source] = mine[share:]
        count[t.source] -= 1
    out.reverse()
    # What is started is waited for elsewhere, and there the transpose is started.
    for i, t in enumerate(forward):
        if not out[i] and t.call.endswith("_start"):
            later = [
                j
                for j in sorted(j for rest in left.values() for j in rest)
                if backward[j].axes == t.axes
            ]
            if later:
                out[i] = (later[-1],)
                for rest in left.values():
                    if later[-1] in rest:
                        rest.remove(later[-1])
    return tuple(out)
