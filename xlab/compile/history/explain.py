"""Why a function was traced or compiled again. Runs only on a cache miss."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from xlab.backend import caches
from xlab.compile import logs
from xlab.compile.history import parts
from xlab.compile.history.parts import describe, platform
from xlab.compile.history.parts import short as _short
from xlab.compile.history.provenance import Provenance, provenance
from xlab.compile.structures import around_difference, structures_differ
from xlab.config import config
from xlab.core import source_info
from xlab.core.avals import ShapedArray
from xlab.core.trace import EVAL, state
from xlab.sharding import Format


def trace_miss(name: str, fun, seen: dict, key: tuple, arg_names, was_cleared: bool) -> Provenance:
    """What is known of a program before its function is traced: why that has to be, and where the function comes from.

    Args:
        name: what the sentence calls the function.
        seen: earlier tracings of it, by key.
        was_cleared: whether these were let go of on demand.
    """
    outermost = state.trace is EVAL
    closure = (
        {variable: _short(value) for variable, value in closed_over(fun).items()}
        if outermost
        else {}
    )
    notes = Provenance()
    if was_cleared and not seen:
        notes.reason, notes.differences = cleared(name)
    elif seen or not outermost or hasattr(fun, "_xlab_for_view"):  # a copy of the user's function
        notes.reason, notes.differences = _reason(name, seen, key, arg_names, fun)
    else:
        notes.reason, notes.differences = _first(name, fun, closure)
    if config.explain_cache_misses:
        code = getattr(fun, "__code__", None)
        where = f" defined at {code.co_filename}:{code.co_firstlineno}" if code else ""
        logs.warn(
            "tracing cache miss at %s: %s%s", source_info.describe_caller(), notes.reason, where
        )
    notes.position, notes.made_by = origin_of(fun)
    if outermost:
        notes.traced = parts.traced(fun, arg_names, key, closure)
    return notes


def cleared(name: str) -> tuple[str, tuple]:
    """The explanation for a function whose caches were cleared by the user."""
    return f"`{name}` was compiled before, but its programs were cleared", ()


def _reason(name, seen, key, arg_names, fun) -> tuple[str, tuple]:
    if not seen:
        return f"`{name}` was never seen before", ()
    in_tree, avals, static, context = key
    # Of equally near ones the latest.
    best = max(reversed(seen), key=lambda old: _similarity(old, key))
    old_tree, old_avals, old_static, old_context = best
    if old_tree != in_tree:
        were = seen[best].closed.jaxpr.debug_info.arg_names
        differ = structures_differ(old_tree, were, in_tree, arg_names)
        return (
            f"the structure of the arguments of `{name}` changed: {differ}",
            (("structure", name, *around_difference(str(old_tree), str(in_tree))),),
        )
    changes = []
    for i, (old, new) in enumerate(zip(old_avals, avals)):
        if old is new:
            continue
        arg = arg_names[i] if i < len(arg_names) else f"argument {i}"
        changes.append((_cause(old, new), arg, describe(old), describe(new)))
    if changes:
        more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
        return ", ".join(
            f"`{arg}` went from {old} to {new}" for _, arg, old, new in changes[:3]
        ) + more, tuple(changes)
    if old_static != static:
        was, now = parts.static_values(fun, old_static), parts.static_values(fun, static)
        changes = [
            ("static value", k, was.get(k, "nothing"), now.get(k, "nothing"))
            for k in {**was, **now}
            if was.get(k) != now.get(k)
        ]
        if not changes:  # different values that read the same
            changes = [("static value", k, was[k], f"another {now[k]}") for k in now] or [
                ("static value", name, "", "")
            ]
        return (
            f"the static argument of `{name}` changed: "
            + ", ".join(f"`{k}` went from {a} to {b}" for _, k, a, b in changes),
            tuple(changes),
        )
    if old_context != context:
        return _context(name, old_context, context)
    return f"`{name}` was traced before, but its program was not kept", ()


def _context(name, old, new) -> tuple[str, tuple]:
    """Names of the options that differ, or of the axes."""
    was, now = parts.options_by_name(old[0]), parts.options_by_name(new[0])
    changes = tuple(
        (
            "mesh" if "mesh" in option else "context",
            option,
            str(was.get(option)),
            str(now.get(option)),
        )
        for option in {**was, **now}
        if was.get(option) != now.get(option)
    )
    if changes:
        return ", ".join(
            f"the option `{option}` went from {a} to {b}" for _, option, a, b in changes
        ), changes
    return f"the configuration or the bound axes changed since `{name}` was traced", (
        ("context", name, "", ""),
    )


# Of the latest functions by the place of their definition, what the last object made there closed over, as text, and the functions among it.
_objects: caches.Latest[tuple, tuple[dict[str, str], dict[str, Any], str]] = caches.Latest(1000)


def origin_of(fun) -> tuple[str, tuple[str, ...]]:
    """`file:line` where the user defined a function, only the file for a whole cell, empty when unknown; and the transformations around it.

    The origin of `grad(f)` is the line of `f` and `("grad",)`.
    """
    around: tuple[str, ...] = ()
    while True:
        fun, place = getattr(fun, "func", fun), _definition_site(fun)
        inside = not place or source_info.is_internal(place.rpartition(":")[0])
        if not inside or not hasattr(fun, "__wrapped__"):
            return place, () if inside else around
        code = getattr(fun, "__code__", None)
        kind = type(fun).__name__ if code is None else code.co_qualname.partition(".")[0]
        fun, around = (
            fun.__wrapped__,
            (*around, "jit" if kind in ("PjitFunction", "donating") else kind),
        )


def _definition_site(fun) -> str:
    place = getattr(fun, "_xlab_location", None)
    # A partial stands where its function does.
    code = getattr(getattr(fun, "func", fun), "__code__", None)
    return (
        place
        if place is not None
        else f"{code.co_filename}:{code.co_firstlineno}"
        if code is not None
        else ""
    )


def _first(name, fun, now: dict[str, str]) -> tuple[str, tuple]:
    """Why a function object is new: one from the same line may have closed over other values."""
    new = f"`{name}` was never seen before", ()
    place = _definition_site(fun)
    if not place or source_info.is_internal(place.rpartition(":")[0] or place):
        return new
    key = getattr(fun, "_xlab_key", place), name
    if key[0] is None:
        return f"a transformation made a program of `{name}` that was never seen before", ()
    known = _objects.get(key)
    called = _functions_of(fun)
    _objects[key] = now, called, place
    if known is None:
        return new
    was, before, there = known
    changes = tuple(
        ("closure", v, was.get(v, "nothing"), now.get(v, "nothing"))
        for v in {**was, **now}
        if was.get(v) != now.get(v)
    )
    if changes:
        return ", ".join(
            f"`{name}` reads `{v}`, which went from {a} to {b}" for _, v, a, b in changes[:3]
        ), changes
    again = [v for v, f in called.items() if v in before and before[v]() is not f()]
    if again:
        listed = " and ".join(f"`{v}`" for v in again[:3])
        return (
            f"`{name}` calls {listed}, which {'was' if len(again) == 1 else 'were'} defined again",
            tuple(("definition", v, "an earlier definition", "the latest") for v in again),
        )
    if there != place:  # of the same text
        other = source_info.shown_name(there) or there
        return (
            f"`{name}` has the text of `{other}`, and each cell has a program of its own",
            (("text", "the cell", other, "a copy"),),
        )
    if "<locals>" in getattr(fun, "__qualname__", "<locals>"):
        return (
            f"`{name}` is a new function object; one from the same line was compiled for itself",
            (("function", name, "an earlier object", "a new object"),),
        )
    return (
        f"`{name}` was defined again, which made a new function object; the one before was compiled for itself",
        (("definition", name, "an earlier definition", "the latest"),),
    )


def _functions_of(fun) -> dict[str, Any]:
    """References to the functions that a function object holds, by name; they keep none alive."""
    found = {}
    for variable, value in closed_over(fun).items():
        if callable(value):
            with contextlib.suppress(TypeError):
                found[variable] = weakref.ref(value)
    return found


def closed_over(fun) -> dict:
    """Values a function object holds: its closure and its parameters' defaults."""
    given = getattr(fun, "_xlab_values", None)
    if given is not None:
        return given
    out = {}
    code = getattr(fun, "__code__", None)
    if code is None or "_xlab_jit" in vars(fun):
        return out
    for variable, cell in zip(code.co_freevars, fun.__closure__ or ()):
        try:
            out[variable] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    defaults = fun.__defaults__ or ()
    parameters = code.co_varnames[: code.co_argcount]
    return {
        **out,
        **dict(zip(parameters[len(parameters) - len(defaults) :], defaults)),
        **(fun.__kwdefaults__ or {}),
    }


def _cause(old, new) -> str:
    if not (isinstance(old, ShapedArray) and isinstance(new, ShapedArray)):
        return "type"
    for cause in ("shape", "dtype", "weak_type", "sharding"):
        if getattr(old, cause) != getattr(new, cause):
            return cause.replace("_", " ")
    return "type"


_OPTIONS = {
    "donate_argnames": "donated set",
    "in_shardings": "sharding",
    "out_shardings": "sharding",
    "keep_unused": "option",
    "compiler_options": "option",
}


def options_of(owner) -> dict:
    """The options of a jit that are part of what it compiles."""
    options = {option: getattr(owner, option) for option in _OPTIONS}
    # Numbers where names are not known.
    options["donate_argnames"] = owner.donate_argnames or owner.donate_argnums
    return options


def compile_miss(owner, closed, key: tuple) -> tuple[str, tuple]:
    """Why a traced program is compiled: it is new, another `jit` compiled it, or its placements changed."""
    _, placements, context = key
    name = owner.name
    if getattr(owner, "reason", ""):
        return owner.reason, ()
    others = [k for k, e in owner.executables.items() if e.lowered.closed is closed]
    if not others:
        return _other_jit(owner, closed)
    _, old, old_context, *layouts = max(
        others, key=lambda k: sum(a == b for a, b in zip(k[1], placements))
    )
    changes = []
    for i, (was, now) in enumerate(zip(old, placements)):
        if was != now:
            cause = (
                "committed"
                if was is None or now is None
                else "sharding"
                if platform(was) == platform(now)
                else "backend"
            )
            changes.append(
                (cause, closed.jaxpr.debug_info.arg_name(i), *map(parts.placement, (was, now)))
            )
    if changes:
        return ", ".join(
            f"the placement of `{a}` went from {was} to {now}" for _, a, was, now in changes[:3]
        ), tuple(changes)
    if layouts and old_context == context:
        return (
            f"`{name}` was compiled ahead of time for arguments of another layout in memory",
            (("layout", name, "as asked for", "the default"),),
        )
    return f"the current mesh changed from {old_context} to {context}", (
        ("mesh", name, str(old_context), str(context)),
    )


def _other_jit(owner, closed) -> tuple[str, tuple]:
    """Why this `jit` has no executable of a program that another one compiled; jits of views do not count."""
    name, notes = owner.name, provenance(closed)
    earlier = notes.owners
    options = options_of(owner)
    before = next((e for e in reversed(earlier) if not e[2]), None)
    for_view = any(e[2] for e in earlier)
    if any(who() is owner.programs for who, *_ in earlier):
        return cleared(name)
    earlier[:] = [*earlier[-7:], (weakref.ref(owner.programs), options, owner.for_view)]
    if weakref.ref(owner.programs) in notes.ended:
        return f"an error ended the compile of `{name}` before", ()
    if before is None and for_view:
        return f"`{name}` was compiled for a view only, before it was a jitted function", ()
    if before is None:
        return notes.reason or f"`{name}` was never seen before", notes.differences
    if owner.for_view:
        return (
            f"`{name}` is looked at as it is, without the options of the jit that compiled it",
            (),
        )
    changes = tuple(
        (
            _option_cause(option, cause, before[1][option], options[option]),
            option,
            _short(before[1][option]),
            _short(options[option]),
        )
        for option, cause in _OPTIONS.items()
        if before[1][option] != options[option]
    )
    if changes:
        return (
            f"another jit of `{name}` compiled it with other options: "
            + ", ".join(f"{option} went from {was} to {now}" for _, option, was, now in changes)
        ), changes
    return (
        f"another jit of `{name}` compiled it before, with another name or other static arguments",
        (("jit", name, "an earlier jit", "another jit"),),
    )


def compile_ended(owner, closed) -> None:
    """Notes that a compile failed, so that the next attempt is not reported as a recompile."""
    notes = provenance(closed)
    notes.owners = [one for one in notes.owners if one[0]() is not owner.programs]
    notes.ended.add(weakref.ref(owner.programs))


def _option_cause(option, cause, was, now) -> str:
    """Equal shardings in different formats differ in their layout."""

    def places(x):
        return (
            x.sharding
            if isinstance(x, Format)
            else tuple(map(places, x))
            if isinstance(x, tuple)
            else x
        )

    return "layout" if option.endswith("_shardings") and places(was) == places(now) else cause


def _similarity(old, new) -> tuple:
    return (
        old[0] == new[0],
        sum(a is b for a, b in zip(old[1], new[1])),
        old[2] == new[2],
        old[3] == new[3],
    )
