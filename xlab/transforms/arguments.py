"""Shared by transformations: selecting, flattening and checking arguments."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import numpy as np

from xlab import tree as _tree
from xlab.compile.placement import from_host
from xlab.compile.tracing import function_name
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.hi_types import NO_DERIVATIVE, is_high
from xlab.core.trace import EVAL, state


def check_callable(fun, api: str) -> Callable:
    if not callable(fun):
        raise TypeError(f"{api} takes a function, got {fun!r} of type {type(fun).__name__}")
    return fun


def wraps(fun: Callable) -> Callable:
    """`functools.wraps`, also for callables whose name is not a string."""
    return functools.wraps(fun, assigned=text_attributes(fun))


def text_attributes(fun) -> list[str]:
    """The attributes that a wrapper copies from the wrapped function."""
    return [
        name
        for name in functools.WRAPPER_ASSIGNMENTS
        if name not in ("__name__", "__qualname__") or isinstance(getattr(fun, name, None), str)
    ]


def is_single(argnums) -> bool:
    """Whether argument numbers are one number and not several."""
    try:
        operator.index(argnums)
    except TypeError:
        return False
    return True


def check_argnums(argnums, api: str) -> None:
    """Raises unless these may be argument numbers."""
    try:
        if not is_single(argnums):
            for i in argnums:
                operator.index(i)
    except TypeError:
        raise TypeError(
            f"{api} takes argnums as an int or a sequence of ints, the positions of arguments, got {argnums!r}"
        ) from None


def canonical_argnums(
    argnums, n: int, api: str, too_large: type[Exception] = ValueError
) -> tuple[int, ...]:
    """Argument numbers as non-negative ints within the call's positional arguments; `too_large` is raised for one beyond them."""
    nums = (argnums,) if is_single(argnums) else tuple(argnums)
    out = []
    for i in nums:
        i = operator.index(i)
        if not -n <= i < n:
            raise (too_large if i >= n else ValueError)(
                f"{api} was asked for argument {i}, but the function was called with {n} positional "
                f"argument{'s' if n != 1 else ''}"
            )
        out.append(i % n)
    if len(set(out)) != len(out):
        raise ValueError(f"{api} got the same argument twice in argnums={argnums}")
    return tuple(out)


def split_arguments(fun: Callable, args, kwargs, nums):
    """A function of the chosen arguments only, and those arguments."""

    def chosen_fun(*chosen):
        full = list(args)
        for i, x in zip(nums, chosen):
            full[i] = x
        return fun(*full, **kwargs)

    functools.update_wrapper(
        chosen_fun,
        fun,
        assigned=[n for n in text_attributes(fun) if n in ("__name__", "__qualname__")],
        updated=(),
    )
    return chosen_fun, tuple(args[i] for i in nums)


def check_inexact(
    leaves, api: str, fun, what: str, *, allow_int: bool = False, holomorphic: bool = False
):
    """Raises unless every leaf can be differentiated."""
    for x in leaves:
        aval = aval_of(x)
        if is_high(aval):
            if aval.to_tangent_aval() == NO_DERIVATIVE:
                raise TypeError(
                    f"{api} of {function_name(fun)} got {what} of type {aval}, which has no tangents: define `to_tangent_aval` in the class "
                    f"{type(aval).__name__}, or choose other argnums"
                )
            continue
        if holomorphic and not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(
                f"{api} of {function_name(fun)} with holomorphic=True requires {what} of a complex dtype, got "
                f"{dtypes.name(aval.dtype)}."
            )
        if dtypes.issubdtype(aval.dtype, np.inexact):
            if (
                not holomorphic
                and what == "inputs"
                and dtypes.issubdtype(aval.dtype, np.complexfloating)
            ):
                continue
            continue
        if (
            aval.to_tangent_aval().dtype != dtypes.float0
        ):  # extended, with tangents of another dtype
            continue
        if not allow_int:
            raise TypeError(
                f"{api} of {function_name(fun)} requires real- or complex-valued {what} (a sub-dtype of np.inexact), got "
                f"{dtypes.name(aval.dtype)}. Convert with x.astype(float), choose other argnums, or pass allow_int=True "
                f"for a gradient of type float0."
            )


def as_array(x):
    """A derivative for the user: NumPy data that passed through unchanged becomes an array."""
    return from_host(x) if state.trace is EVAL else x


class FlatFunction:
    """A function of pytrees as a function of leaves; remembers how its results are nested."""

    def __init__(self, fun: Callable, in_tree, *, aux: bool = False):
        self.fun, self.in_tree, self.aux = fun, in_tree, aux
        self.out_tree = None
        self.aux_value = None
        self.__name__ = function_name(fun)

    def __call__(self, *leaves):
        out = self.fun(*_tree.unflatten(self.in_tree, leaves))
        if self.aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TypeError(
                    f"with has_aux=True, {self.__name__} must return a pair (output, auxiliary data), got "
                    f"{type(out).__name__}"
                )
            out, self.aux_value = out
        flat, self.out_tree = _tree.flatten(out)
        return flat
