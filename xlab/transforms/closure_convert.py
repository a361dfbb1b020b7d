"""`closure_convert`: what a function closes over becomes arguments, where a custom derivative can see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile.tracing import function_name, trace_program
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.hi_states import typed
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.trace import Tracer
from xlab.transforms.arguments import check_callable


def closure_convert(fun: Callable, *example_args: Any) -> tuple[Callable, list]:
    """`fun` for arguments of these types as a function of its arguments and of what it closes over.

    Only traced values of floating or complex dtype are taken out, since no others can be differentiated.

    Returns:
        `(converted, values)` with `converted(*args, *values) == fun(*args)`.

    Example:
        >>> import xlab
        >>> def outer(scale):
        ...     converted, values = xlab.closure_convert(lambda x: x * scale, 1.0)
        ...     return converted(2.0, *values)
        >>> float(xlab.grad(outer)(3.0))
        2.0
    """
    check_callable(fun, "closure_convert")
    flat, in_tree = _tree.flatten((example_args, {}))
    program = trace_program(fun, in_tree, [typed(x) for x in flat])
    closed, name, n_args = program.closed, function_name(fun), len(example_args)
    taken = [
        isinstance(c, Tracer) and dtypes.issubdtype(aval_of(c).dtype, np.inexact)
        for c in closed.consts
    ]
    values = [c for c, t in zip(closed.consts, taken) if t]

    def converted(*args):
        if len(args) != n_args + len(values):
            raise TypeError(
                f"the converted {name} takes {n_args} arguments and then {len(values)} closed-over values, "
                f"got {len(args)}"
            )
        leaves, tree = _tree.flatten((args[:n_args], {}))
        if tree != in_tree:
            raise TypeError(
                f"{name} was converted for arguments with structure {in_tree}, called with {tree}"
            )
        given = iter(args[n_args:])
        consts = [next(given) if t else c for c, t in zip(closed.consts, taken)]
        return _tree.unflatten(program.out_tree, eval_jaxpr(closed.jaxpr, consts, *leaves))

    converted.__name__ = converted.__qualname__ = name
    return converted, values
