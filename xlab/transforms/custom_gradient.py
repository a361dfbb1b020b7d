"""`custom_gradient`: a function that returns its value together with its pullback."""

from __future__ import annotations

from collections.abc import Callable

from xlab import tree as _tree
from xlab.compile.tracing import trace_program
from xlab.core.avals import aval_of
from xlab.core.jaxpr import eval_jaxpr
from xlab.transforms.arguments import check_callable, wraps
from xlab.transforms.custom_vjp import custom_vjp


def custom_gradient(fun: Callable) -> Callable:
    """A function of one value from `fun`, which returns `(value, pullback)`.

    `pullback(cotangent)` gives the cotangents of the arguments: a tuple, or one cotangent for one argument.

    Example:
        >>> import xlab
        >>> @xlab.custom_gradient
        ... def f(x):
        ...     return x * x, lambda ct: (10 * ct * x,)
        >>> float(f(3.0)), float(xlab.grad(f)(3.0))
        (9.0, 30.0)
    """
    check_callable(fun, "custom_gradient")

    @wraps(fun)
    def wrapped(*args, **kwargs):
        inner = custom_vjp(lambda *args: fun(*args, **kwargs)[0])
        known: dict = {}

        def forward(*args):
            value, pullback = fun(*args, **kwargs)
            flat, tree = _tree.flatten(((value,), {}))
            program = trace_program(
                pullback, tree, [aval_of(x).to_tangent_aval().to_ct_aval() for x in flat]
            )
            known["closed"], known["tree"] = program.closed, program.out_tree
            return value, program.closed.consts

        def backward(consts, cotangent):
            given = _tree.unflatten(
                known["tree"], eval_jaxpr(known["closed"].jaxpr, consts, *_tree.leaves(cotangent))
            )
            if len(args) == 1 and not (isinstance(given, (tuple, list)) and len(given) == 1):
                given = (given,)
            return tuple(given)

        inner.defvjp(forward, backward)
        return inner(*args)

    return wrapped
