"""Functions of functions: vectorizing, applying along axes and where conditions hold."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from xlab import lax
from xlab.core.typing import Array, ArrayLike, AxisLike
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array, select_promoted
from xlab.numpy.creation import asarray, astype
from xlab.numpy.logic import truth
from xlab.numpy.operands import check, ndim_of, shape_of, spread_to
from xlab.numpy.reductions import axes_of
from xlab.transforms.vmap import vmap

__all__ = ["apply_along_axis", "apply_over_axes", "piecewise", "vectorize"]


def apply_along_axis(
    func1d: Callable, axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """The results of a function of vectors, for every vector along an axis; they stand where the vectors stood.

    Args:
        func1d: takes a vector, and returns an array.
        axis: the axis the vectors lie along.
        arr: an array.
        args: further arguments of `func1d`.
        kwargs: further arguments of `func1d`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.apply_along_axis(jnp.sum, 0, jnp.ones((2, 3)))
        Array([2., 2., 2.], dtype=float32)
    """
    arr = as_array(*check("apply_along_axis", arr))
    axis = canonical_axis(axis, arr.ndim)
    fun = lambda v: asarray(func1d(v, *args, **kwargs))
    for _ in range(axis):
        fun = vmap(fun, in_axes=0, out_axes=0)
    for _ in range(arr.ndim - axis - 1):
        fun = vmap(fun, in_axes=-1, out_axes=-1)
    return fun(arr)


def apply_over_axes(func: Callable, a: ArrayLike, axes: AxisLike) -> Array:
    """A reducing function applied to one axis after another, each kept as a dimension of size 1.

    Args:
        func: called as `func(a, axis)`.
        a: an array.
        axes: the axes, one call each.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3, 4)), (0, 2)).shape
        (1, 3, 1)
    """
    a = as_array(*check("apply_over_axes", a))
    for axis in axes_of("apply_over_axes", axes, a.ndim):
        out = func(a, axis)
        if out.ndim == a.ndim - 1:
            out = lax.expand_dims(out, (axis,))
        elif out.ndim != a.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        a = out
    return a


def piecewise(
    x: ArrayLike,
    condlist: ArrayLike | Sequence[ArrayLike],
    funclist: Sequence[ArrayLike | Callable],
    *args: Any,
    **kw: Any,
) -> Array:
    """Each element under the function of the last condition that holds for it.

    Args:
        x: array.
        condlist: conditions that broadcast to the shape of `x`: a list of them, or an array with one along its first axis.
        funclist: a function or a number per condition, and one more for elements of which none holds (0 by default). Functions
            are called on scalars under `vmap`; results are converted to the dtype of `x`.
        args, kw: passed to the functions.

    Raises:
        ValueError: no condition, or too few or too many functions.

    Example:
        >>> import xlab.numpy as jnp
        >>> x = jnp.array([-1.0, 2.0])
        >>> jnp.piecewise(x, [x < 0], [lambda x: -x, lambda x: 10 * x])
        Array([ 1., 20.], dtype=float32)
    """
    x = as_array(*check("piecewise", x))
    for what, given in (("condlist", condlist), ("funclist", funclist)):
        if isinstance(given, (dict, set, str)):
            raise TypeError(
                f"piecewise takes its {what} in a list, one after the other; got {given!r}"
            )
    conditions = (
        list(condlist)
        if isinstance(condlist, (list, tuple))
        else [condlist[i] for i in range(len(condlist))]
    )
    n, given = len(conditions), len(funclist)
    if not n:
        raise ValueError("piecewise needs at least one condition")
    if given not in (n, n + 1):
        raise ValueError(
            f"with {n} condition(s), either {n} or {n + 1} functions are expected; got {given}. An array of conditions "
            f"has one along its first axis: write [x < 0] for one condition"
        )
    masks = [spread_to(truth(asarray(c)), x.shape) for c in conditions]
    functions = [funclist[n] if given > n else 0, *funclist[:n]]
    # The default stands first, under a condition that always holds; of several that hold the last one counts.
    out = None
    for i, function in enumerate(functions):
        value = _piece(function, x, masks[i - 1 : i], masks[i:], args, kw)
        out = value if out is None else select_promoted(masks[i - 1], value, out)
    return out


def _piece(function, x, mine, later, args, kw):
    """A function's values at every element; no derivative flows, not even NaN, where its condition is not the one that counts."""
    if not callable(function):
        return spread_to(_scalar(function, x.dtype), x.shape)

    def one(v):
        return _scalar(function(v, *args, **kw), x.dtype)

    for _ in range(x.ndim):
        one = vmap(one)
    taken = [*mine, *([lax.bitwise_not(functools.reduce(lax.bitwise_or, later))] if later else [])]
    return as_array(
        one(select_promoted(functools.reduce(lax.bitwise_and, taken), x, lax.stop_gradient(x)))
    )


def _scalar(value, dtype):
    if ndim_of(value):
        raise TypeError(
            f"piecewise: each function gives one number per element, got a value of shape {shape_of(value)}. Combine arrays "
            f"with select or where"
        )
    return astype(asarray(value), dtype)


def _parse(signature: str):
    """Names of the core dimensions of each argument and of each result."""
    if not isinstance(signature, str):
        raise TypeError(
            f"vectorize: signature must be a string such as '(n),(n)->()', got {signature!r}"
        )
    one = r"\((?:\w+(?:,\w+)*)?\)"
    text = signature.replace(" ", "")
    if not re.fullmatch(f"{one}(?:,{one})*->{one}(?:,{one})*", text):
        raise ValueError(
            f"not a valid gufunc signature: {signature!r}; expected something like '(n),(n)->()'"
        )
    return [
        [tuple(g.strip("()").split(",")) if g != "()" else () for g in re.findall(one, side)]
        for side in text.split("->")
    ]


def vectorize(
    pyfunc: Callable,
    *,
    excluded: set[int | str] | frozenset[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable:
    """A function of scalars (or of small arrays, by a signature) as one of arrays that broadcast.

    Args:
        pyfunc: the function.
        excluded: positions and names of arguments passed as they are.
        signature: core dimensions, such as `"(n),(n)->()"`; scalars by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> f = jnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")
        >>> f(jnp.ones((4, 3)), jnp.ones(3)).shape
        (4,)
    """
    excluded = set(excluded)
    if any(not isinstance(e, (int, str)) for e in excluded) or any(
        isinstance(e, int) and e < 0 for e in excluded
    ):
        raise ValueError(
            f"vectorize: excluded must hold positions and names of arguments, got {excluded}"
        )
    wanted = None if signature is None else _parse(signature)

    @functools.wraps(pyfunc)
    def wrapped(*args, **kwargs):
        fixed = {i: args[i] for i in excluded if isinstance(i, int) and i < len(args)}
        names = [k for k in kwargs if k not in excluded]
        arrays = [asarray(a) for i, a in enumerate(args) if i not in fixed] + [
            asarray(kwargs[k]) for k in names
        ]

        def core(*values):
            values = list(values)
            given = dict(zip(names, values[len(values) - len(names) :]))
            positional = iter(values[: len(values) - len(names)])
            full = [fixed[i] if i in fixed else next(positional) for i in range(len(args))]
            return pyfunc(*full, **{**{k: v for k, v in kwargs.items() if k in excluded}, **given})

        inputs = [()] * len(arrays) if wanted is None else wanted[0]
        if len(inputs) != len(arrays):
            raise TypeError(
                f"vectorize: wrong number of positional arguments: expected {len(inputs)}, got {len(arrays)}"
            )
        sizes: dict[str, int] = {}
        leads = []
        for a, dims in zip(arrays, inputs):
            if a.ndim < len(dims):
                raise ValueError(
                    f"vectorize: input with shape {a.shape} does not have enough dimensions for all core dimensions "
                    f"{dims} of signature {signature!r}"
                )
            leads.append(a.shape[: a.ndim - len(dims)])
            for name, size in zip(dims, a.shape[a.ndim - len(dims) :]):
                if sizes.setdefault(name, size) != size:
                    raise ValueError(
                        f"vectorize: inconsistent size for core dimension {name!r}: {size} and {sizes[name]}"
                    )
        shape = lax.broadcast_shapes(*leads)
        fun = core if wanted is None else _checked(core, wanted[1], sizes, signature)
        ready = []
        for a, lead in zip(arrays, leads):
            gone = [
                i for i, d in enumerate(lead) if d == 1 and shape[len(shape) - len(lead) + i] != 1
            ]
            ready.append(
                (
                    lax.squeeze(a, gone),
                    {len(shape) - len(lead) + i for i in range(len(lead)) if i not in gone},
                )
            )
        for i in reversed(range(len(shape))):
            axes = [0 if i in has else None for _, has in ready]
            if any(a is not None for a in axes):
                fun = vmap(fun, in_axes=tuple(axes))
        out = fun(*[a for a, _ in ready])
        missing = [i for i in range(len(shape)) if not any(i in has for _, has in ready)]
        if missing:
            expand = lambda x: lax.expand_dims(x, missing)
            return tuple(map(expand, out)) if isinstance(out, tuple) else expand(out)
        return out

    return wrapped


def _checked(core, results, sizes, signature):
    def fun(*args):
        out = core(*args)
        outs = out if isinstance(out, tuple) else (out,)
        if len(outs) != len(results):
            raise TypeError(
                f"vectorize: wrong number of results: signature {signature!r} has {len(results)}, got {len(outs)}"
            )
        known = dict(sizes)
        for x, dims in zip(outs, results):
            if ndim_of(x) != len(dims):
                raise ValueError(
                    f"vectorize: a result of shape {shape_of(x)} does not match core dimensions {dims} of "
                    f"{signature!r}"
                )
            for name, size in zip(dims, shape_of(x)):
                if known.setdefault(name, size) != size:
                    raise ValueError(
                        f"vectorize: inconsistent size for core dimension {name!r}: {size} and {known[name]}"
                    )
        return out

    return fun
