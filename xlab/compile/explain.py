"""Why something was traced or compiled again. Runs on the miss path only."""

from __future__ import annotations

import logging

from xlab.config import config
from xlab.core import source
from xlab.core.avals import ShapedArray, aval_of
from xlab.errors import InvalidInputException

logger = logging.getLogger("xlab")


def trace_miss(name: str, seen: dict, key: tuple, arg_names, fun) -> str:
    """A sentence on why no earlier tracing of the function fits."""
    reason = _reason(name, seen, key, arg_names)
    if config.explain_cache_misses:
        code = getattr(fun, "__code__", None)
        where = f" defined at {code.co_filename}:{code.co_firstlineno}" if code else ""
        logger.warning("tracing cache miss at %s: %s%s", source.describe_caller(), reason, where)
    return reason


def _reason(name, seen, key, arg_names) -> str:
    if not seen:
        return f"`{name}` was never seen before"
    in_tree, avals, static, context = key
    best = max(seen, key=lambda old: _closeness(old, key))
    old_tree, old_avals, old_static, old_context = best
    if old_tree != in_tree:
        return f"the structure of the arguments of `{name}` changed from {old_tree} to {in_tree}"
    changes = []
    for i, (old, new) in enumerate(zip(old_avals, avals)):
        if old is new:
            continue
        arg = arg_names[i] if i < len(arg_names) else f"argument {i}"
        changes.append(f"`{arg}` went from {describe(old)} to {describe(new)}")
    if changes:
        more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
        return ", ".join(changes[:3]) + more
    if old_static != static:
        return f"a static argument of `{name}` changed from {_static(old_static)} to {_static(static)}"
    if old_context != context:
        return f"the configuration or the bound axes changed since `{name}` was traced"
    return f"`{name}` was traced before, but its program was not kept"


def _closeness(old, new) -> tuple:
    return (old[0] == new[0], sum(a is b for a, b in zip(old[1], new[1])), old[2] == new[2], old[3] == new[3])


def _static(values) -> str:
    text = ", ".join(repr(v) for v in values)
    return text if len(text) < 80 else text[:77] + "..."


def describe(aval) -> str:
    """A type with its weakness spelled out, since that alone can cause a miss."""
    weak = " (weak)" if isinstance(aval, ShapedArray) and aval.weak_type else ""
    return f"{aval}{weak}"


def check_result(leaf, index, result, name):
    """Raises for a result that is not an array, naming the function."""
    try:
        aval_of(leaf)
    except InvalidInputException:
        raise InvalidInputException(
            f"`{name}` returned {leaf!r} of type {type(leaf).__name__}, which is not an array value (result {index}). "
            f"A traced function returns arrays, numbers, or containers of them.") from None
