"""Whose call is it: JAX's or ours? Decided by what is called, then by the arrays it is given; never guessed."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from xlab import tree as _tree
from xlab.backend.arrays import ArrayImpl
from xlab.backend.native import neighbor_present
from xlab.compile.tracing import attribute, own
from xlab.core.array import KeyArray, is_native_array

MOST_FUNCTIONS = 400
"""Functions that are looked at for what they call."""

_STAGES = ("Traced", "Lowered", "Compiled")


def jax() -> Any:
    """JAX, where the user imported it (and it is no other name of ours); else None."""
    return sys.modules["jax"] if neighbor_present() else None


def extended() -> Any:
    """`jax.extend.core`, which JAX loads when it is asked for."""
    return importlib.import_module(f"{jax().__name__}.extend.core")


def version() -> str:
    """`jax 0.10.2`."""
    return f"jax {getattr(jax(), '__version__', '')}".rstrip()


def kind_of(what: Any) -> str:
    """What something of JAX's is: `Traced`, `Lowered`, `Compiled`, `ClosedJaxpr`, `Jaxpr` or `jit`; empty for anything else."""
    if not neighbor_present():
        return ""
    kind = type(what)
    home, name = kind.__module__, kind.__name__
    if home.startswith("jax.") and (name in _STAGES or name in ("ClosedJaxpr", "Jaxpr")):
        return name
    # Functions of both packages have it, on objects of the same classes: whose it is decides.
    lower = own(what, "lower")
    jitted = getattr(lower, "__module__", None) and lower.__module__.startswith("jax.")
    # What `jax.pmap` returns has no `trace`, and is traced as any other function.
    return "jit" if jitted and own(what, "trace") is not None else ""


def is_stage(what: Any) -> bool:
    """Whether something of JAX's was traced already: a stage or a jaxpr, which knows the types of its arguments.

    >>> is_stage(len)
    False
    """
    return kind_of(what) not in ("", "jit")


def held_stage(what: Any) -> Any:
    """The stage inside of a library's own `Traced`, `Lowered` or `Compiled`; anything else is given back.

    flax.nnx and equinox wrap those of the runtime, to take apart and put together the objects that they hand over.

    >>> held_stage(3)
    3
    """
    kind = type(what)
    if kind.__module__.partition(".")[0] not in ("jax", "xlab"):
        for stage in _STAGES:
            if kind.__name__.endswith(stage):
                return getattr(what, stage.lower(), what)
    return what


def is_theirs(x: Any) -> bool:
    """Whether a value is an array or a key of JAX's.

    >>> import xlab
    >>> is_theirs(xlab.numpy.ones(3)), is_theirs(1.0)
    (False, False)
    """
    if type(x) is ArrayImpl:
        return not is_native_array(x) and neighbor_present()
    return type(x).__name__ == "PRNGKeyArray" and type(x).__module__.startswith("jax.")


def is_traced(x: Any) -> bool:
    """Whether a value stands for an array while JAX traces."""
    found = jax()
    return found is not None and isinstance(x, found.core.Tracer)


def is_ours(x: Any) -> bool:
    """Whether a value is an array or a key of ours."""
    return is_native_array(x) or isinstance(x, KeyArray)


def leaves(tree: Any) -> list[Any]:
    """The leaves of arguments, by the classes that JAX knows: libraries register theirs there."""
    found = jax()
    return found.tree_util.tree_leaves(tree) if found is not None else _tree.leaves(tree)


def belongs_to_jax(what: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> bool:
    """Whether JAX is to trace a call, or made what is asked about.

    A function belongs to the package whose names it uses; one that uses neither belongs to the package of its arrays.

    Raises:
        TypeError: the function is one package's and an array the other's, or it uses both and no array decides.

    >>> belongs_to_jax(lambda x: x + 1, (1.0,))
    False
    """
    if not neighbor_present() or own(what, "_xlab_jit") is not None:
        return False
    if attribute(what, "_xlab_beside"):
        return True
    kind = kind_of(what)
    if kind and kind != "jit":
        return True
    if not callable(what):
        return False
    given = leaves((args, kwargs or {}))
    theirs = next((x for x in given if is_theirs(x)), None)
    ours = next((x for x in given if is_ours(x)), None)
    used = {"jax"} if kind else packages(what)
    name = getattr(what, "__name__", type(what).__name__)
    if used == {"jax"} and ours is not None:
        raise TypeError(_mixed(name, "jax", "xlab", ours, "jax.numpy.asarray(numpy.asarray(x))"))
    if used == {"xlab"} and theirs is not None:
        raise TypeError(_mixed(name, "xlab", "jax", theirs, "xlab.numpy.asarray(x)"))
    if theirs is not None and ours is not None:
        raise TypeError(
            f"{name} is given arrays of both packages, of types {_type(theirs)} (jax) and {_type(ours)} (xlab): in one call all are "
            "of one. Bring them over with jax.numpy.asarray(numpy.asarray(x)) or xlab.numpy.asarray(x)."
        )
    if len(used) == 2 and theirs is None and ours is None:
        raise TypeError(
            f"{name} uses names of jax and of xlab, and no argument is an array of either, so it is not known which is to trace it: "
            "pass jax.jit(f) or xlab.jit(f), or arrays of one of them."
        )
    return theirs is not None or (used == {"jax"})


def _mixed(name: str, whose: str, other: str, x: Any, how: str) -> str:
    return (
        f"{name} is a function of {whose}'s and is given an array of {other}'s, of type {_type(x)}: nothing runs on the other runtime "
        f"unasked. Hand the array over with {how}."
    )


def _type(x: Any) -> str:
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"


def packages(fun: Any) -> set[str]:
    """Which of `jax` and `xlab` a function uses, itself or in functions it calls.

    >>> import xlab.numpy as jnp
    >>> packages(lambda x: jnp.sin(x)), packages(len)
    ({'xlab'}, set())
    """
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [fun]
    while waiting and len(seen) < MOST_FUNCTIONS and len(found) < 2:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        whose = _package(one)
        if whose:
            found.add(whose)
        if whose != "xlab" or one is fun:
            # What a function of either package names is its own affair; what it holds, such as the function that it maps, is the user's.
            waiting.extend(_used(one, named=not whose))
    return found


def _package(x: Any) -> str:
    """The package of a module, a function, a class or an object."""
    home = x.__name__ if isinstance(x, types.ModuleType) else attribute(x, "__module__")
    if not isinstance(home, str):
        home = type(x).__module__
    root = home.partition(".")[0]
    return root if root in ("jax", "xlab") and not home.startswith("xlab.notebook.tour") else ""


def _used(x: Any, named: bool) -> Iterator[Any]:
    """What a function holds: its inner function and its closure; where `named` also its globals and the methods of a class."""
    x = attribute(x, "__func__") or x
    owner = attribute(x, "__self__")
    if owner is not None and not isinstance(owner, types.ModuleType):
        yield type(owner)
    for held in ("__wrapped__", "func", "fun"):
        inner = attribute(x, held) if not isinstance(x, types.ModuleType) else None
        if callable(inner):
            yield inner
    if isinstance(x, type):
        if named:
            yield from (v for v in vars(x).values() if isinstance(v, types.FunctionType))
        return
    if not isinstance(x, types.FunctionType):
        call = vars(type(x)).get("__call__")
        if isinstance(call, types.FunctionType):
            yield call
        return
    for cell in x.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if callable(held) or isinstance(held, types.ModuleType):
            yield held
    for name in _names(x.__code__) if named else ():
        value = x.__globals__.get(name)
        if callable(value) or isinstance(value, types.ModuleType):
            yield value


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)
