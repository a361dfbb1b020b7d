"""Which arguments of a function its user means, by number or by name."""

from __future__ import annotations

import inspect
import operator

import numpy as np

from xlab.compile.tracing import function_name


def static_positions(fun, nums, names) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Completes argument numbers from names or names from numbers, by the function's signature.

    Where both were given they are taken as they are: a wrapper may pass its arguments on in other places than its signature says.
    """
    complete = nums is None or names is None
    nums = () if nums is None else tuple(map(operator.index, nums)) if np.iterable(nums) else (operator.index(nums),)
    names = () if names is None else (names,) if isinstance(names, str) else tuple(names)
    if not nums and not names:
        return (), ()
    found = _parameters(fun)
    if found is None:
        return nums, names
    positional, known, star, variadic = found
    for n in names:
        if n not in known and not variadic:
            raise ValueError(f"jitted function {function_name(fun)} has no argument named {n!r}; its arguments are "
                             f"{sorted(known)}")
    for i in nums:
        if not star and not -len(positional) <= i < len(positional):
            raise ValueError(f"argument number {i} is out of range: {function_name(fun)} takes {len(positional)} "
                             f"positional arguments")
    counted = [i + len(positional) if i < 0 and not star else i for i in nums]
    if not complete:
        return tuple(dict.fromkeys(counted)), tuple(dict.fromkeys(names))
    by_name = tuple(i for i, p in enumerate(positional) if p in names)
    all_nums = tuple(dict.fromkeys((*counted, *by_name)))
    all_names = tuple(dict.fromkeys((*names, *(positional[i] for i in all_nums if 0 <= i < len(positional)))))
    return all_nums, all_names


def check_apart(fun, static: tuple, donated: tuple) -> None:
    """Raises where an argument is static and donated: what is part of the program has no buffer to give away."""
    if donated[0] or donated[1]:
        both = [*sorted({*static[1]} & {*donated[1]}), *([] if static[1] and donated[1] else sorted({*static[0]} & {*donated[0]}))]
        if both:
            raise ValueError(f"static and donated arguments of {function_name(fun)} cannot intersect, got both for {', '.join(map(repr, both))}: "
                             f"a static argument has no buffer to donate")


def _parameters(fun):
    """Positional names, all names, and whether there are `*args` and `**kwargs`; None where nobody can tell."""
    code = getattr(fun, "__code__", None)
    if code is not None and not hasattr(fun, "__wrapped__") and not hasattr(fun, "__signature__"):
        # Read off the code object: `inspect` takes a hundred times as long, and this runs for every function at import.
        n, m = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        return (list(code.co_varnames[:n]), set(code.co_varnames[:m]), bool(code.co_flags & inspect.CO_VARARGS),
                bool(code.co_flags & inspect.CO_VARKEYWORDS))
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return None
    return ([p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)],
            {p.name for p in parameters}, any(p.kind is p.VAR_POSITIONAL for p in parameters),
            any(p.kind is p.VAR_KEYWORD for p in parameters))


def check_outermost(options, name: str, source=None) -> None:
    """Raises where a program with compiler options of its own would become part of another."""
    if options:
        raise ValueError(f"compiler_options can only be given to the outermost jit: {dict(options)} of jit({name}){f' at {source}' if source else ''} "
                         f"would be lost, since it is compiled as a part of the program around it. Give them to that one.")
