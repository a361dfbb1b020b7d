"""Why something was traced or compiled again. Runs on the miss path only."""

from __future__ import annotations

import logging

from xlab.config import config
from xlab.core import source
from xlab.core.avals import ShapedArray, aval_of
from xlab.errors import InvalidInputException

logger = logging.getLogger("xlab")


WHY = "why it was traced"   # key of a program's own note: (reason, differences)


def trace_miss(name: str, seen: dict, key: tuple, arg_names, fun) -> tuple[str, tuple]:
    """A sentence on why no earlier tracing of the function fits, and the differences as `(cause, what, was, now)`."""
    reason, differences = _reason(name, seen, key, arg_names)
    if config.explain_cache_misses:
        code = getattr(fun, "__code__", None)
        where = f" defined at {code.co_filename}:{code.co_firstlineno}" if code else ""
        logger.warning("tracing cache miss at %s: %s%s", source.describe_caller(), reason, where)
    return reason, differences


def _reason(name, seen, key, arg_names) -> tuple[str, tuple]:
    if not seen:
        return f"`{name}` was never seen before", ()
    in_tree, avals, static, context = key
    best = max(reversed(seen), key=lambda old: _closeness(old, key))     # of equally near ones the latest
    old_tree, old_avals, old_static, old_context = best
    if old_tree != in_tree:
        return (f"the structure of the arguments of `{name}` changed from {old_tree} to {in_tree}",
                (("structure", name, str(old_tree), str(in_tree)),))
    changes = []
    for i, (old, new) in enumerate(zip(old_avals, avals)):
        if old is new:
            continue
        arg = arg_names[i] if i < len(arg_names) else f"argument {i}"
        changes.append((_cause(old, new), arg, describe(old), describe(new)))
    if changes:
        more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
        return ", ".join(f"`{arg}` went from {old} to {new}" for _, arg, old, new in changes[:3]) + more, tuple(changes)
    if old_static != static:
        was, now = _static(old_static), _static(static)
        return (f"a static argument of `{name}` changed from {was} to {now}",
                (("static value", name, was, now),))
    if old_context != context:
        return (f"the configuration or the bound axes changed since `{name}` was traced",
                (("context", name, "", ""),))
    return f"`{name}` was traced before, but its program was not kept", ()


def _cause(old, new) -> str:
    if not (isinstance(old, ShapedArray) and isinstance(new, ShapedArray)):
        return "type"
    for cause in ("shape", "dtype", "weak_type", "sharding"):
        if getattr(old, cause) != getattr(new, cause):
            return cause.replace("_", " ")
    return "type"


def compile_miss(name: str, closed, executables: dict, key: tuple) -> tuple[str, tuple]:
    """Why a traced program is compiled: it is new, or its arguments lie elsewhere than before."""
    _, placements, context = key
    others = [k for k, e in executables.items() if e.lowered.closed is closed]
    if not others:
        return closed.memo(WHY, lambda: (f"`{name}` was never seen before", ()))
    _, old, old_context = max(others, key=lambda k: sum(a == b for a, b in zip(k[1], placements)))
    names = closed.jaxpr.debug_info.arg_names
    changes = []
    for i, (was, now) in enumerate(zip(old, placements)):
        if was != now:
            arg = names[i] if i < len(names) else f"argument {i}"
            cause = "committed" if was is None or now is None else "sharding"
            changes.append((cause, arg, *(("uncommitted" if s is None else str(s)) for s in (was, now))))
    if changes:
        return ", ".join(f"the placement of `{a}` went from {was} to {now}" for _, a, was, now in changes[:3]), tuple(changes)
    return f"the current mesh changed from {old_context} to {context}", (("mesh", name, str(old_context), str(context)),)


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
