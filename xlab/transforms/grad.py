"""Gradients of scalar functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xlab import tree as _tree
from xlab.compile.placement import host_array, on_default_device
from xlab.compile.tracing import function_name, made_of
from xlab.config import idle_argument
from xlab.core import dtypes
from xlab.core.avals import INVARYING, ShapedArray, aval_of
from xlab.core.trace import find_axis, state
from xlab.interpreters.constants import made_while_traced
from xlab.lax.creation import full_like
from xlab.transforms.arguments import (
    canonical_argnums,
    check_argnums,
    check_callable,
    check_inexact,
    is_single,
    split_arguments,
    wraps,
)
from xlab.transforms.vjp import vjp_of


def value_and_grad(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence = (),
) -> Callable:
    """A function that returns the value of `fun` and its gradient.

    Args:
        fun: returns a scalar (or `(scalar, auxiliary data)` with `has_aux`).
        argnums: which positional arguments to differentiate; an int gives one gradient, a tuple gives a tuple.
        holomorphic: `fun` is holomorphic, inputs and output are complex.
        allow_int: integer inputs are allowed and get gradients of type `float0`.

    Example:
        >>> import xlab
        >>> value, slope = xlab.value_and_grad(lambda x: x ** 3)(2.0)
        >>> float(value), float(slope)
        (8.0, 12.0)
    """
    idle_argument(
        "value_and_grad",
        "reduce_axes",
        reduce_axes,
        "types say over which axes a derivative is summed",
    )
    check_callable(fun, "value_and_grad")
    check_argnums(argnums, "grad")

    @made_of(fun, "value_and_grad", argnums, has_aux, holomorphic, allow_int)
    @wraps(fun)
    def value_and_grad_fun(*args, **kwargs):
        nums = canonical_argnums(argnums, len(args), "grad", too_large=TypeError)
        chosen_fun, chosen = split_arguments(fun, args, kwargs, nums)
        check_inexact(
            _tree.leaves(chosen),
            "grad",
            fun,
            "inputs",
            allow_int=allow_int,
            holomorphic=holomorphic,
        )
        out, pull, aux = vjp_of(chosen_fun, chosen, has_aux=has_aux)
        _check_scalar(fun, out, holomorphic)
        aval = aval_of(out)
        seed = np.ones((), aval.dtype)[()]
        if aval.weak_type and aval_of(seed.item()) is aval:
            seed = made_while_traced(on_default_device(host_array(seed, aval), aval))
        if aval.mat:
            seed = _seed(aval.to_ct_aval())
        grads = pull(seed)
        grads = grads[0] if is_single(argnums) else grads
        return ((out, aux), grads) if has_aux else (out, grads)

    return value_and_grad_fun


def _seed(aval):
    """The cotangent 1 of a type; where that type is unreduced, each device gets an equal summand."""
    parts = (
        1 if state.manual is None else math.prod([find_axis(n).size for n in aval.mat.unreduced])
    )
    return state.match(full_like(aval.update(mat=INVARYING), 1 / parts), aval)


def grad(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence = (),
) -> Callable:
    """A function that returns the gradient of `fun`; arguments as for `value_and_grad`.

    Args:
        fun: the function.
        argnums: which arguments to differentiate in, one number or several.
        has_aux: whether the function returns a pair, of which the second is handed through.
        holomorphic: whether it is a complex function with a complex derivative.
        allow_int: whether integers may be differentiated in; their derivatives are of type float0.
        reduce_axes: has no effect.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> float(xlab.grad(jnp.tanh)(0.0))
        1.0
    """
    with_value = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @made_of(fun, "grad", argnums, has_aux, holomorphic, allow_int)
    @wraps(fun)
    def grad_fun(*args, **kwargs):
        if has_aux:
            (_, aux), g = with_value(*args, **kwargs)
            return g, aux
        return with_value(*args, **kwargs)[1]

    return grad_fun


def _brief(out) -> str:
    """What a function returned: the container and the types in it, and not their values."""
    found = _tree.leaves(out)
    if out is None or not found:
        return "None" if out is None else f"an empty {type(out).__name__}"
    more = f" and {len(found) - 4:,} more" * (len(found) > 4)
    return f"a {type(out).__name__} of {', '.join(str(aval_of(x)) for x in found[:4])}{more}"


def _paired(out) -> str:
    """What to write where a number comes along with something else."""
    number = type(out) is tuple and len(out) == 2 and getattr(out[0], "shape", None) == ()
    return ", or pass has_aux=True where the second of a pair is not to be differentiated" * number


def _check_scalar(fun, out, holomorphic):
    name = function_name(fun)
    try:
        aval = aval_of(out)
    except TypeError:
        raise TypeError(
            f"Gradient only defined for scalar-output functions: {name} returned {_brief(out)}. "
            f"Return one number, for example the sum or mean{_paired(out)}."
        ) from None
    if not isinstance(aval, ShapedArray) or aval.shape:
        raise TypeError(
            f"Gradient only defined for scalar-output functions: {name} returned {aval}. Reduce it to one "
            f"number (.sum(), .mean()), or use jacrev / vjp for an output with dimensions."
        )
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(
                f"grad of {name} with holomorphic=True requires a complex output, got {aval}"
            )
    elif not dtypes.issubdtype(aval.dtype, np.floating):
        raise TypeError(
            f"grad of {name} requires a real-valued output (a sub-dtype of np.floating), got {aval}. For complex "
            f"functions pass holomorphic=True, or use vjp."
        )
