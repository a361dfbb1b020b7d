"""Lists the residuals that reverse mode keeps from the forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab.core.jaxpr import Var
from xlab.transforms.arguments import check_callable
from xlab.transforms.make_jaxpr import make_jaxpr
from xlab.transforms.vjp import vjp


def saved_residuals(fun: Callable, *args: Any, **kwargs: Any) -> list[tuple]:
    """The values that the derivative of `fun` keeps, each as `(type, where it comes from)`.

    Args:
        fun: the function.
        args: its arguments.
        kwargs: its arguments by name.

    Example:
        >>> import xlab.numpy as jnp
        >>> [(str(t), where.split(" from")[0]) for t, where in saved_residuals(lambda x: jnp.sin(jnp.sin(x)), 1.0)]
        [('~float32[]', 'output of cos'), ('~float32[]', 'output of cos')]
    """
    check_callable(fun, "saved_residuals")
    closed = make_jaxpr(lambda *a: vjp(lambda *b: fun(*b, **kwargs), *a)[1])(*args)
    jaxpr = closed.jaxpr
    names = jaxpr.debug_info.arg_names
    came: dict = dict.fromkeys(jaxpr.constvars, "a constant")
    came.update(
        (v, f"the argument {names[i]}" if i < len(names) else f"argument {i}")
        for i, v in enumerate(jaxpr.invars)
    )
    for eqn in jaxpr.eqns:
        came.update(
            (v, f"output of {eqn.primitive.name} from {eqn.source_info}") for v in eqn.outvars
        )
    return [(v.aval, came[v] if type(v) is Var else "a literal") for v in jaxpr.outvars]


def print_saved_residuals(fun: Callable, *args: Any, **kwargs: Any) -> None:
    """Prints `saved_residuals`, one a line.

    Args:
        fun: the function.
        args: its arguments.
        kwargs: its arguments by name.
    """
    for aval, where in saved_residuals(fun, *args, **kwargs):
        print(
            f"{aval.str_short(short_dtypes=True)} {'' if where.startswith('output') else 'from '}{where}"
        )
