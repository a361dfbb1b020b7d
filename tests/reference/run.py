"""Runs a sample under a transformation and writes down what came of it, as plain numpy data."""

from __future__ import annotations

import itertools
import warnings
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from tests.reference.sample import Case, Namespaces, Sample

FLOAT0 = np.dtype([("float0", np.void, 0)])


@dataclass(frozen=True)
class Leaf:
    """One array of a result: where it stands, its type, its value as numpy (None for types alone)."""

    path: str
    kind: str
    dtype: str
    shape: tuple
    weak: bool
    value: np.ndarray | None


@dataclass(frozen=True)
class Outcome:
    """What a case gave: leaves, or a text (jaxprs), or an error."""

    leaves: tuple = ()
    text: str | None = None
    error: tuple = ()  # names of the error's class and its bases
    builtin: str | None = None  # the first of them that Python itself defines
    message: str = ""


_runs = itertools.count(1)


def run(case: Case, n: Namespaces) -> Outcome:
    """The outcome of `case` on one side; errors of the function are outcomes too."""
    sample = case.sample
    if next(_runs) % 500 == 0:
        n.jax.clear_caches()  # what thousands of samples compile is gigabytes, and more pieces of memory than a process may have
    try:
        with warnings.catch_warnings(), n.jax.enable_x64(True) if sample.x64 else nullcontext():
            warnings.simplefilter("ignore")
            return transformed(case, n)
    except Exception as error:
        names = tuple(c.__name__ for c in type(error).__mro__)
        builtin = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
        return Outcome(error=names, builtin=builtin, message=str(error))


_latest: dict[tuple, tuple[Sample, Outcome]] = {}
_KEPT = 32


def remembered(sample: Sample, transform: str, n: Namespaces) -> Outcome:
    """`run`, once for the latest samples: the laws and the reference ask for the same programs, which are slow to compile."""
    key = id(sample), transform, n.name
    if key not in _latest:
        if len(_latest) >= _KEPT:
            del _latest[next(iter(_latest))]
        _latest[key] = (
            sample,
            run(Case("", sample, transform), n),
        )  # the sample too: while it lives its id is its own
    return _latest[key][1]


def transformed(case: Case, n: Namespaces) -> Outcome:
    """Applies the transformations from the inside out, then runs or prints."""
    fun, args = (lambda *args: case.sample.fun(n, *args)), tuple(case.sample.args)
    *outer, innermost = case.transform.split(".")
    for name in [innermost, *reversed(outer)]:
        if name in ("text", "primitives", "computing"):
            jaxpr = n.jax.make_jaxpr(fun)(*args)
            if name == "text":
                return Outcome(text=str(jaxpr))
            found = primitives(jaxpr.jaxpr)
            if name == "computing":
                found = [p for p in found if p.strip() != "transpose"]
            return Outcome(text="\n".join(found))
        fun, args = TRANSFORMS[name](n, fun, args)
    return Outcome(leaves=tuple(leaves(n, fun(*placed(n, args)), "result")))


def placed(n: Namespaces, args) -> tuple:
    """The arguments as arrays of the side that runs, so that operators on them are its own."""
    return tree_map(
        lambda x: n.jnp.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x, tuple(args)
    )


# -- transformations: (namespaces, function, arguments) to (function, arguments) ---------------------------


def _eager(n, fun, args):
    return fun, args


def _jit(n, fun, args):
    return n.jax.jit(fun), args


def _checkpoint(n, fun, args):
    return n.jax.checkpoint(fun), args


def _eval_shape(n, fun, args):
    return (lambda *args: n.jax.eval_shape(fun, *args)), args


def _vmap(n, fun, args):
    return n.jax.vmap(fun), tree_map(stacked, args)


def _grad(n, fun, args):
    """The vector-Jacobian product with a fixed cotangent: `grad` for results of any shape."""
    part, where = differentiable(fun, args)

    def pulled(*args):
        out, pull = n.jax.vjp(part(args), *(args[i] for i in where))
        return pull(tree_map(cotangent, out))

    return pulled, args


def _jvp(n, fun, args):
    part, where = differentiable(fun, args)

    def pushed(*args):
        primals = tuple(args[i] for i in where)
        return n.jax.jvp(part(args), primals, tree_map(tangent, primals))

    return pushed, args


def _linearize(n, fun, args):
    part, where = differentiable(fun, args)

    def pushed(*args):
        primals = tuple(args[i] for i in where)
        out, linear = n.jax.linearize(part(args), *primals)
        return out, linear(*tree_map(tangent, primals))

    return pushed, args


TRANSFORMS = {
    "eager": _eager,
    "jit": _jit,
    "vmap": _vmap,
    "grad": _grad,
    "jvp": _jvp,
    "linearize": _linearize,
    "checkpoint": _checkpoint,
    "eval_shape": _eval_shape,
}


def differentiable(fun, args):
    """`(part, where)`: positions of inexact arguments, and `fun` as a function of those alone."""
    where = [i for i, arg in enumerate(args) if (found := flat(arg)) and all(map(inexact, found))]

    def part(args):
        def partial(*some):
            merged = list(args)
            for i, value in zip(where, some, strict=True):
                merged[i] = value
            return fun(*merged)

        return partial

    return part, where


def stacked(x):
    """Three variations of an argument along a new first axis, each a valid argument itself."""
    x = np.asarray(
        x, {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}.get(type(x))
    )
    return np.stack([x, np.roll(x, 1), x[::-1] if x.ndim else x])


def cotangent(x):
    """A fixed cotangent for a result: `float0` zeros for integers."""
    if not inexact(x):
        return np.zeros(np.shape(x), FLOAT0)
    return wave(x, np.cos)


def tangent(x):
    """A fixed tangent for an argument."""
    return wave(x, np.sin)


def wave(x, fun):
    if isinstance(x, float):
        return float(fun(1.0))
    values = fun(1.0 + np.arange(np.prod(np.shape(x), dtype=int))).reshape(np.shape(x))
    return values.astype(x.dtype)


def inexact(x) -> bool:
    if isinstance(x, (bool, int)):
        return False
    dtype = getattr(x, "dtype", None)
    if dtype is None or str(dtype).startswith("key<") or dtype == FLOAT0:
        return isinstance(x, (float, complex))
    # ml_dtypes' floats are no sub-dtypes of numpy's: tell them by name.
    return np.issubdtype(dtype, np.inexact) or "float" in str(dtype)


# -- containers, without the tree utilities of either side ------------------------------------------------


def tree_map(fun, x):
    """Applies `fun` to the leaves of lists, tuples (named ones too) and dicts."""
    if isinstance(x, dict):
        return {key: tree_map(fun, x[key]) for key in sorted(x)}  # the order both sides return
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(tree_map(fun, value) for value in x))
    if isinstance(x, (list, tuple)):
        return type(x)(tree_map(fun, value) for value in x)
    return None if x is None else fun(x)


def flat(x) -> list:
    """The leaves that `tree_map` visits."""
    found: list = []
    tree_map(found.append, x)
    return found


def leaves(n: Namespaces, x, path: str):
    """The leaves of a result as records, in order, with their paths."""
    if isinstance(x, dict):
        for key in sorted(x):
            yield from leaves(n, x[key], f"{path}[{key!r}]")
    elif isinstance(x, (list, tuple)):
        fields = getattr(x, "_fields", None)
        for i, value in enumerate(x):
            yield from leaves(n, value, f"{path}.{fields[i]}" if fields else f"{path}[{i}]")
        if not len(x):
            yield Leaf(path, f"empty {type(x).__name__}", "", (), False, None)
    elif x is None:
        yield Leaf(path, "None", "", (), False, None)
    else:
        yield leaf(n, x, path)


def leaf(n: Namespaces, x, path: str) -> Leaf:
    dtype = str(getattr(x, "dtype", type(x).__name__))
    shape = tuple(np.shape(x) if not hasattr(x, "shape") else x.shape)
    weak = bool(getattr(x, "weak_type", False))
    if isinstance(x, (np.ndarray, np.generic)):
        return Leaf(path, "numpy", dtype, shape, weak, None if x.dtype == FLOAT0 else np.asarray(x))
    if isinstance(x, (bool, int, float, complex)):
        return Leaf(path, "python", dtype, shape, weak, np.asarray(x))
    if not hasattr(x, "dtype"):
        return Leaf(path, type(x).__name__, repr(x), (), False, None)
    if type(x).__name__ == "ShapeDtypeStruct":
        return Leaf(path, "type", dtype, shape, weak, None)
    data = n.random.key_data(x) if dtype.startswith("key<") else x
    return Leaf(path, "array", dtype, shape, weak, np.asarray(data))


def primitives(jaxpr, depth: int = 0) -> list[str]:
    """Names of a jaxpr's primitives in order, those of nested jaxprs indented below their equation."""
    out = []
    for eqn in jaxpr.eqns:
        out.append("  " * depth + eqn.primitive.name)
        for inner in nested(list(eqn.params.values())):
            out.extend(primitives(inner, depth + 1))
    return out


def nested(values):
    """Jaxprs among parameter values, inside tuples too."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from nested(value)
        elif hasattr(value, "eqns") and hasattr(value, "invars"):
            yield value
        elif hasattr(getattr(value, "jaxpr", None), "eqns"):
            yield value.jaxpr
