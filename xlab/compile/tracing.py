"""Traces a Python function to a jaxpr, cached by function, argument types and context."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

from xlab import events
from xlab import tree as _tree
from xlab.backend import caches
from xlab.compile import logs
from xlab.compile.history import explain
from xlab.compile.history.provenance import Provenance
from xlab.config import config
from xlab.core.avals import aval_of, value_and_type
from xlab.core.hi_states import AvalQDD, typed
from xlab.core.hi_types import in_use
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo
from xlab.core.refs import is_ref
from xlab.core.trace import EVAL, Tracer, state
from xlab.errors import InvalidInputException
from xlab.interpreters import partial_eval as pe


class TracedProgram(NamedTuple):
    """A traced function: its jaxpr, and how its results are nested."""

    closed: ClosedJaxpr
    out_tree: Any
    name: str
    ref_discharge: Any = (
        None  # of a program made for values: how it works on references (`ref_discharge.py`)
    )


# By function and transformations.
_cache: weakref.WeakKeyDictionary[Callable, dict] = weakref.WeakKeyDictionary()
_NOTHING: dict = {}
# Dropped on request.
_forgotten: weakref.WeakKeyDictionary[Callable, set[tuple]] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


@caches.register
def _clear():
    with _lock:
        _cache.clear()


METHODS = (
    "trace",
    "lower",
    "eval_shape",
    "clear_cache",
    "_cache_size",
    "_clear_cache",
    "_xlab_jit",
)
"""What a jitted function has besides being called."""


def made_of(fun: Callable, how: str, *options) -> Callable[[Callable], Callable]:
    """Marks a wrapper as determined by `fun`, `how` and the options alone.

    Two such wrappers are then one function to the caches: `jit(grad(f))` in a loop traces and compiles once.
    """

    def note(wrapper: Callable) -> Callable:
        # `functools.wraps` has copied the methods of a jitted function as well; what is made of it is another program.
        own = vars(wrapper)
        for method in METHODS if "_xlab_jit" in own else ():
            own.pop(method, None)
        # With its own id: `functools.wraps` copies attributes to functions that do something else.
        wrapper._xlab_made_of = id(wrapper), fun, how, options  # type: ignore[attr-defined]
        return wrapper

    return note


def own(fun: Any, name: str) -> Any:
    """An attribute of this very function; None if `functools.wraps` copied it from a wrapped one."""
    found = attribute(fun, name)
    return None if found is attribute(attribute(fun, "__wrapped__"), name) else found


def attribute(x: Any, name: str) -> Any:
    """An attribute of any object; None if it has none, or answers by raising, as the proxies of web frameworks do."""
    try:
        return getattr(x, name, None)
    except Exception:
        return None


def _frozen(option):
    if isinstance(option, list | tuple) and not hasattr(option, "_fields"):
        return type(option), tuple(map(_frozen, option))
    if isinstance(option, dict):
        return dict, tuple((k, _frozen(v)) for k, v in option.items())
    return type(option), frozenset(option) if isinstance(option, set) else option


def identity(fun: Callable) -> tuple[Callable, tuple]:
    """The user's function and the transformations around it, innermost last; unhashable options end the search."""
    path: tuple = ()
    while (made := getattr(fun, "_xlab_made_of", None)) is not None and made[0] == id(fun):
        _, inner, how, options = made
        try:
            way = how, *map(_frozen, options)
            hash(way)
        except TypeError:
            break
        fun, path = inner, (*path, way)
    return fun, path


def forget(fun: Callable) -> None:
    """Drops the cached tracings of a function."""
    with _lock, suppress(TypeError):  # an unhashable one has no cached tracings
        written, path = identity(fun)
        if _cache.get(written, {}).pop(path, None) is not None:
            _forgotten.setdefault(written, set()).add(path)


def forget_tracings(fun: Callable) -> None:
    """Drops what a function was traced to, by itself and under transformations, as if it had not been."""
    with _lock:
        _cache.pop(fun, None)


def structures_of(fun: Callable) -> list[tuple[Any, tuple, tuple]]:
    """For what a function was traced so far, the latest last: structures of arguments, their types, and static values.

    >>> def total(tree):
    ...     return sum(tree)
    >>> import xlab
    >>> out = [xlab.jit(total)(x) for x in ([1.0], (1.0, 2.0))]
    >>> [(str(tree), len(types)) for tree, types, _ in structures_of(total)]
    [('PyTreeDef((([*],), {}))', 1), ('PyTreeDef((((*, *),), {}))', 2)]
    """
    with _lock, suppress(TypeError):
        written, path = identity(fun)
        known = _cache.get(written, {}).get(path, {})
        return [(tree, avals, static) for tree, avals, static, _ in known]
    return []


def _was_forgotten(fun: Callable) -> bool:
    """Whether the tracings of a function were dropped on request."""
    with suppress(TypeError):
        written, path = identity(fun)
        return path in _forgotten.get(written, ())
    return False


def function_name(fun) -> str:
    """The name a function goes by in programs and messages."""
    name = getattr(fun, "__name__", None)
    if not isinstance(name, str):
        inner = getattr(fun, "func", None)
        name = function_name(inner) if inner is not None else type(fun).__name__
    return name


def context_key() -> tuple:
    """The context that tracing depends on, besides function and argument types."""
    axes = state.axes
    return (
        config.trace_context(),
        tuple((a.name, a.size, a.kind) for a in axes.values()) if axes else (),
        state.manual,
        state.manual_mesh,
        state.kernel and state.kernel.key,
    )


def argument_names(fun, in_tree, n: int, static: Sequence[int] = ()) -> tuple[str, ...]:
    """Names of flat arguments by path: `x`, `params['w']`, `args[0][1]`. Those at `static` positions are not among them."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return tuple(f"args[{i}]" for i in range(n))
    count = len(_tree.treedef_children(_tree.treedef_children(in_tree)[0]))
    star = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    dynamic = [i for i in range(count + len(static)) if i not in static]
    roots = [
        plain[i] if i < len(plain) else f"{star or 'args'}[{i - len(plain)}]"
        for i in dynamic[:count]
    ]
    return tuple(
        (root.key if keywords.idx else roots[root.idx]) + _tree.keystr(path)
        for keywords, root, *path in _tree.leaf_paths(in_tree)
    )


@functools.lru_cache(maxsize=512)
def result_names(out_tree) -> tuple[str, ...]:
    """Names of flat results by path: `result['loss']`, or what a container that is no value itself calls its parts."""
    return tuple(
        next((key for key in path if isinstance(key, str)), None) or f"result{_tree.keystr(path)}"
        for path in _tree.leaf_paths(out_tree)
    )


def result_name(out_tree, i: int) -> str:
    """The name of a flat result, or its number where there is no such path."""
    return result_namer(out_tree)(i)


def result_namer(out_tree) -> Callable[[int], str]:
    """The `result_name` of each result of one structure, which is looked up once, and only if one is asked for."""
    names: tuple[str, ...] = ()

    def name(i: int) -> str:
        nonlocal names
        names = names or result_names(out_tree)
        return names[i] if i < len(names) else f"result {i}"

    return name


def trace_program(
    fun: Callable,
    in_tree,
    in_avals: Sequence,
    *,
    static: tuple = (),
    rebuild: Callable | None = None,
    names: Callable | None = None,
    label: str | None = None,
) -> TracedProgram:
    """Traces `fun` for arguments of the given structure and types, or finds the earlier tracing.

    `in_tree` is the structure of `(args, kwargs)`; `rebuild(args, kwargs)` puts static arguments back, and `static`
    stands for them in the key. `label` is what events and explanations call it.
    """
    in_avals = tuple(in_avals)
    key = (in_tree, in_avals, static, context_key())
    try:
        written, path = identity(fun)
        per_fun = _cache.get(written, _NOTHING).get(path)
        if per_fun is None:
            with _lock:
                per_fun = _cache.setdefault(written, {}).setdefault(path, {})
    except TypeError:  # neither hashable nor weakly referable: trace every time
        per_fun = {}
    found = per_fun.get(key)
    if found is not None:
        if not in_use.mutable or states_fit(found.closed):
            return found
        # The same function closing over values of mutable hi types that are in other states now.
        others = found.closed.memo("other states", list)
        for other in others:
            if states_fit(other.closed):
                return other
    name = function_name(fun)
    if config.no_tracing:
        raise RuntimeError(
            f"re-tracing function {name} for `jit`, but 'no_tracing' is set: it was not traced before for arguments of "
            f"these types, {', '.join(map(str, in_avals))}, in this context"
        )
    arg_names = names() if names is not None else argument_names(fun, in_tree, len(in_avals))
    events.count("trace_cache_miss")
    label = label or name
    notes = explain.trace_miss(
        label, fun, per_fun, key, arg_names, not per_fun and _was_forgotten(fun)
    )
    with (
        events.span("trace", name=label, reason=notes.reason) as attrs,
        logs.timed("Finished tracing %s for jit in %.9f sec", label)
        if state.trace is EVAL
        else nullcontext(),
    ):
        # Few frames of our own per level: programs nest a hundred calls deep before Python's stack ends.
        flat_fun, out = _flattened(fun, in_tree, rebuild, name, arg_names)
        # A program that is run as a function has the place of one of which it may be the gradient.
        info = DebugInfo(
            name,
            arg_names,
            (),
            notes.position,
            None if hasattr(fun, "_xlab_location") else notes.made_by,
        )
        closed = ClosedJaxpr(
            *pe.trace_to_jaxpr(
                flat_fun,
                in_avals,
                info,
                lambda *so_far: attrs.update(closed=ClosedJaxpr(*so_far)),
                # An operation of its own, on constants too, is what is compiled.
                pe.DynamicJaxprTrace(name) if hasattr(fun, "_apply_primitive") else None,
            )
        )
        info.named_by(functools.partial(result_names, out["tree"]))
        program = TracedProgram(closed, out["tree"], name)
        attrs.update(equations=len(closed.jaxpr.eqns), closed=closed)
    closed.memo(Provenance, lambda: notes)
    if not any(isinstance(c, Tracer) for c in program.closed.consts):
        if found is None:
            per_fun[key] = program
        else:
            others.append(program)
    return program


def states_fit(closed: ClosedJaxpr) -> bool:
    """Whether the values of mutable hi types that a traced program closes over are in the states that it was traced for."""
    return all(
        type(v.aval) is not AvalQDD or typed(c) == v.aval
        for v, c in zip(closed.jaxpr.constvars, closed.consts)
    )


def _flattened(fun, in_tree, rebuild, name, arg_names):
    """The function on flat arguments and results, and the place where it stores the result's structure."""
    out: dict[str, Any] = {}

    def flat_fun(*flat):
        args, kwargs = _tree.unflatten(in_tree, flat)
        if rebuild is not None:
            args, kwargs = rebuild(args, kwargs)
        result = fun(*args, **kwargs)
        leaves, out["tree"] = _tree.flatten(result)
        for i, leaf in enumerate(leaves):
            if not isinstance(leaf, Tracer):
                _check_result(leaf, i, out["tree"], name)
            if is_ref(leaf):
                raise _returned_ref(leaf, i, result, name, flat, arg_names)
        return leaves

    return flat_fun, out


def _check_result(leaf, index, out_tree, name):
    """Raises for a result that is not an array, naming the function and where in its result that is."""
    try:
        aval_of(leaf)
    except InvalidInputException:
        raise InvalidInputException(
            f"`{name}` returned {value_and_type(leaf)} as its {result_name(out_tree, index)}, which is not an array value. "
            f"A traced function returns arrays, numbers, or containers of them."
        ) from None


def _returned_ref(x, i, result, name, arguments, names) -> ValueError:
    """The error for a function that returns a reference; only values can be returned."""
    given = next((n for a, n in zip(arguments, names) if a is x), None)
    where = (
        f"was passed in as the argument {given}"
        if given is not None
        else f"was made at {x.origin()}"
    )
    path = _tree.keystr(_tree.flatten_with_path(result)[0][i][0])
    return ValueError(
        f"function {name} returned a mutable array reference of type {x.aval}{f' at result{path}' if path else ''}, but "
        f"mutable array references cannot be returned. It {where}. Return its value, ref[...], or "
        f"xlab.ref.freeze(ref) if it is not needed any more."
    )


def trace_flat(fun: Callable, in_tree, in_avals, key: tuple = ()) -> tuple[ClosedJaxpr, Any]:
    """Traces a body of a structured primitive, called as `fun(*args)`; constants stay in the closed jaxpr."""
    program = trace_program(
        fun, in_tree, in_avals, static=("flat", *key), rebuild=lambda args, kwargs: (args, kwargs)
    )
    return program.closed, program.out_tree
