"""Helpers for writing transformations: functions of pytrees as functions of leaves, and axes per leaf.

Example:
    >>> from xlab import tree
    >>> from xlab.extend import linear_util as lu
    >>> leaves, structure = tree.flatten(({"a": 1, "b": 2},))
    >>> flat, out_tree = flatten_fun_nokwargs(lu.wrap_init(lambda t: (t["a"] + t["b"], 0)), structure)
    >>> flat.call_wrapped(*leaves), out_tree()
    ([3, 0], PyTreeDef((*, *)))
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.compile.history.explain import origin_of
from xlab.compile.tracing import argument_names, function_name
from xlab.core.avals import aval_of as shaped_abstractify
from xlab.core.jaxpr import DebugInfo
from xlab.extend.linear_util import WrappedFun, transformation2, transformation_with_aux2

__all__ = [
    "argnums_partial",
    "debug_info",
    "donation_vector",
    "flatten_axes",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "rebase_donate_argnums",
    "safe_map",
    "shaped_abstractify",
]


def debug_info(
    traced_for: str,
    fun: Callable,
    args: Sequence,
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    result_paths_thunk: Callable | None = None,
    sourceinfo: str | None = None,
    signature: inspect.Signature | None = None,
) -> DebugInfo:
    """The names of a function and of its arguments, for programs and messages.

    Args:
        traced_for: what needs them.
        fun: the function.
        args, kwargs: the arguments of a call.
        static_argnums, static_argnames: those that are no arrays, and have no names in a program.
        result_paths_thunk: gives the names of results; they are found where these are.
        sourceinfo: where the function stands, in place of where it does.
        signature: that names the arguments, in place of the function's.

    Example:
        >>> debug_info("jit", lambda n, x: x, (2, {"w": 1.0}), {}, static_argnums=(0,)).arg_names
        ("x['w']",)
    """
    fixed = {operator.index(i) % max(len(args), 1) for i in static_argnums}
    dynamic = tuple(x for i, x in enumerate(args) if i not in fixed)
    named = {k: v for k, v in kwargs.items() if k not in static_argnames}
    leaves, structure = _tree.flatten((dynamic, named))
    shown = fun
    if signature is not None:
        shown = lambda: None
        shown.__signature__ = signature  # type: ignore[attr-defined]
    names = argument_names(shown, structure, len(leaves), tuple(fixed))
    return DebugInfo(function_name(fun), names, (), sourceinfo or origin_of(fun)[0])


def flatten_fun(
    fun: WrappedFun, in_tree, *, use_eq_store: bool = False, unk_names: bool = False
) -> tuple[WrappedFun, Callable]:
    """The function of `(args, kwargs)` as one of leaves, and a function that gives the structure of its result after a call."""
    return transformation_with_aux2(_flat, fun, in_tree, use_eq_store=use_eq_store)


def flatten_fun_nokwargs(
    fun: WrappedFun, in_tree, *, use_eq_store: bool = False, unk_names: bool = False
) -> tuple[WrappedFun, Callable]:
    """As `flatten_fun` for a structure of positional arguments only."""
    return transformation_with_aux2(_flat_positional, fun, in_tree, use_eq_store=use_eq_store)


def _flat(fun, store, in_tree, *leaves):
    args, kwargs = _tree.unflatten(in_tree, leaves)
    out, structure = _tree.flatten(fun(*args, **kwargs))
    store.store(structure)
    return out


def _flat_positional(fun, store, in_tree, *leaves):
    out, structure = _tree.flatten(fun(*_tree.unflatten(in_tree, leaves)))
    store.store(structure)
    return out


def argnums_partial(
    f: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence,
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, tuple]:
    """The function of the chosen arguments with the others fixed, and the chosen arguments.

    Raises:
        ValueError: when a fixed argument has to be hashable and is not.
    """
    nums = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    chosen = tuple(operator.index(i) % max(len(args), 1) for i in nums)
    fixed = tuple((i, x) for i, x in enumerate(args) if i not in chosen)
    if require_static_args_hashable:
        for i, x in fixed:
            try:
                hash(x)
            except TypeError:
                raise ValueError(
                    f"the static argument {i} of {f.__name__} is of type {type(x).__name__}, which is not hashable: "
                    f"pass it as a traced argument, or as a tuple or frozen dataclass"
                ) from None
    return transformation2(_fixed, f, chosen, fixed, len(args)), tuple(args[i] for i in chosen)


def _fixed(fun, chosen, fixed, count, *dynamic, **kwargs):
    args: list[Any] = [None] * count
    for i, x in fixed:
        args[i] = x
    for i, x in zip(chosen, dynamic, strict=True):
        args[i] = x
    return fun(*args, **kwargs)


def donation_vector(donate_argnums, donate_argnames, in_tree, kws: bool = True) -> tuple[bool, ...]:
    """Whether each leaf of `(args, kwargs)` is donated."""
    args, kwargs = (
        _tree.unflatten(in_tree, range(in_tree.num_leaves))
        if kws
        else (_tree.unflatten(in_tree, range(in_tree.num_leaves)), {})
    )
    out: list[bool] = []
    for i, arg in enumerate(args):
        out += [i in donate_argnums] * len(_tree.leaves(arg))
    for name, arg in sorted(kwargs.items()):
        out += [name in (donate_argnames or ())] * len(_tree.leaves(arg))
    return tuple(out)


def rebase_donate_argnums(donate_argnums, static_argnums) -> tuple[int, ...]:
    """The numbers of donated arguments among those that are not static.

    Raises:
        ValueError: when an argument is to be both.
    """
    if both := sorted({*donate_argnums} & {*static_argnums}):
        raise ValueError(
            f"static_argnums and donate_argnums both have {both}: a static argument has no buffer to give away"
        )
    return tuple(sorted(i - sum(s < i for s in static_argnums) for i in donate_argnums))


def flatten_axes(
    name: str, treedef, axis_tree, *, kws: bool = False, tupled_args: bool = False
) -> list:
    """One axis (or None) per leaf of the structure, from a tree that may stop early.

    Raises:
        ValueError: when it is not a prefix of the structure.
    """
    full = _tree.unflatten(treedef, [object()] * treedef.num_leaves)
    out: list = []

    def add(axes, part):
        out.extend([axes] * len(_tree.leaves(part)))

    try:
        _tree.map(add, axis_tree, full, is_leaf=lambda x: x is None)
    except ValueError:
        hint = (
            " It is matched with the tuple of positional arguments, so it may need one more pair of parentheses."
            if tupled_args
            else ""
        )
        raise ValueError(
            f"{name} has to be a prefix of the structure it describes, {treedef}; got {axis_tree}.{hint}"
        ) from None
    return out


def safe_map(fun: Callable, *iterables: Iterable) -> list:
    """The list of `fun`'s results, for iterables of one length.

    Raises:
        ValueError: when their lengths differ.
    """
    return [fun(*xs) for xs in zip(*iterables, strict=True)]
