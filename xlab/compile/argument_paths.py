"""What the user calls the arguments of a function whose library takes them apart before it jits.

flax.nnx and equinox give the runtime flat lists of the arrays in a model. Where such a call is traced, the library's frame has what the
user handed over, and an array is known by its identity.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from xlab import tree as _tree
from xlab.compile.tracing import argument_names
from xlab.core import source_info

_UNNAMED = (bool, int, float, complex, str, bytes, type(None))
"""Classes whose objects may be one although they stand in several places."""


def paths_of_user(flat: Sequence[Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of flat arguments, with the paths in the user's call for those that a library handed on.

    Args:
        flat: the arguments of the call that is being traced.
        names: their names as the runtime sees them.
    """
    call = _handed_over(sys._getframe(1))
    if call is None:
        return names
    fun, args, kwargs = call
    try:
        leaves, structure = _tree.flatten((args, kwargs))
        paths = argument_names(fun, structure, len(leaves))
    except (TypeError, ValueError):  # no tree of arrays: a library may take anything
        return names
    known: dict[int, str] = {}
    for x, path in zip(leaves, paths):
        if not isinstance(x, _UNNAMED):
            known.setdefault(id(x), path)
    return tuple(known.get(id(x), name) for x, name in zip(flat, names))


def _handed_over(frame: FrameType | None) -> tuple[Any, tuple, dict[str, Any]] | None:
    """The user's function with the arguments of the call: of the outermost of the library's frames that has them as `args` and `kwargs`.

    One that knows what the parameters are called goes before one that does not, such as that of a bound method.
    """
    found, named, met = None, False, False
    while frame is not None:
        file = frame.f_code.co_filename
        if source_info.is_library(file):
            met = True
            fun = _wrapped(frame)
            if fun is not None and (_has_names(fun) or not named):
                given = frame.f_locals
                found = fun, tuple(given["args"]), dict(given["kwargs"])
                named = _has_names(fun)
        elif met or not source_info.is_internal(file):
            break
        frame = frame.f_back
    return found


def _wrapped(frame: FrameType) -> Any:
    """What the first argument of a frame wraps, where the frame has `args` and `kwargs` for it."""
    code = frame.f_code
    given = frame.f_locals if {"args", "kwargs"} <= {*code.co_varnames} else {}
    if not (isinstance(given.get("args"), tuple) and isinstance(given.get("kwargs"), dict)):
        return None
    fun = getattr(given.get(code.co_varnames[0]), "__wrapped__", None)
    return fun if callable(fun) else None


def _has_names(fun: Any) -> bool:
    """Whether a function says what its parameters are called."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
