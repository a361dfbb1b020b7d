"""Loops written through `scan` and `while_loop`: `fori_loop`, `map`, `associative_scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.config import config
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import SymbolicDim, max_dim
from xlab.core.trace import Axis, is_abstract, is_tracer
from xlab.core.typing import ArrayLike
from xlab.interpreters import batching
from xlab.lax.arithmetic import add
from xlab.lax.comparison import lt
from xlab.lax.control.common import check_callables
from xlab.lax.control.scan import scan
from xlab.lax.control.while_loop import held_as_array, while_loop
from xlab.lax.convert import convert_element_type
from xlab.lax.elementwise import scalar_like
from xlab.lax.shape import canonical_axis, concatenate, pad, reshape, rev
from xlab.lax.slicing import slice_in_dim


def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable,
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Repeats `val = body_fun(i, val)` for `i` from `lower` to `upper - 1`.

    With Python int bounds the loop is a `scan` and has reverse-mode derivatives; otherwise it is a `while_loop`.

    Args:
        lower, upper: the first step, and the one after the last; integers, which may be traced.
        body_fun: `(i, value) -> value` of unchanged structure, shapes and dtypes.
        init_val: the value before the first step, a tree of arrays.
        unroll: how many steps one turn of the loop makes, where both bounds are known.

    Example:
        >>> from xlab import lax
        >>> int(lax.fori_loop(0, 5, lambda i, total: total + i, 0))
        10
    """
    check_callables("fori_loop", body_fun=body_fun)
    for name, bound in (("lower", lower), ("upper", upper)):
        if (
            not (
                dtypes.issubdtype(aval_of(bound).dtype, np.integer)
                or dtypes.issubdtype(aval_of(bound).dtype, np.floating)
            )
            or aval_of(bound).shape
        ):
            raise TypeError(
                f"fori_loop bounds must be integer scalars, got {name}={aval_of(bound)}"
            )
    dtype = _dtype_of_bounds(aval_of(lower), aval_of(upper))
    if not is_tracer(lower) and not is_tracer(upper):
        first, last = (x if isinstance(x, SymbolicDim) else int(x) for x in (lower, upper))
        length = max_dim(last - first, 0)
        if (
            config.disable_jit
            and length == 0
            and not any(is_abstract(x) for x in _tree.leaves(init_val))
        ):
            return _tree.map(held_as_array, init_val)

        def step(carry, _):
            i, val = carry
            return (_next(i), body_fun(i, val)), None

        step.__wrapped__ = body_fun  # type: ignore[attr-defined]  # whose function it is, that says what it starts with
        # The counter is an integer variable of the program, so the body may index with it.
        counter = (
            convert_element_type(first, dtypes.canonicalize_dtype(int))
            if isinstance(first, SymbolicDim)
            else np.asarray(first).astype(dtypes.canonicalize_dtype(int))[()]
        )
        (_, out), _ = scan(
            step, (counter, init_val), None, length=length, unroll=1 if unroll is None else unroll
        )
        return out
    if unroll is not None and unroll is not False:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically known."
        )
    first, last = (
        x if aval_of(x).dtype == dtype else convert_element_type(x, dtype) for x in (lower, upper)
    )

    def next_step(s):
        return _next(s[0]), s[1], body_fun(s[0], s[2])

    next_step.__wrapped__ = body_fun  # type: ignore[attr-defined]
    _, _, out = while_loop(lambda s: lt(s[0], s[1]), next_step, (first, last, init_val))
    return out


def _next(i):
    return add(i, scalar_like(1, aval_of(i)))


def _dtype_of_bounds(lower, upper):
    """The dtype of both bounds; one that is a Python number takes the dtype of the other, among those of its kind."""
    if lower.dtype == upper.dtype:
        return lower.dtype
    for weak, other in ((lower, upper), (upper, lower)):
        if weak.weak_type and not other.weak_type and weak.dtype.kind == other.dtype.kind:
            return other.dtype
    raise TypeError(
        f"lower and upper arguments to fori_loop must have equal types, got {lower} and {upper}. Convert one of them "
        f"with .astype."
    )


def map(f: Callable, xs: Any, *, batch_size: int | None = None) -> Any:
    """Applies `f` to each element along the leading axis, one after the other (or `batch_size` at once).

    Args:
        f: the function of one entry.
        xs: a tree of arrays, all of one leading length.
        batch_size: how many entries to compute at once, by `vmap`.

    Example:
        >>> from xlab import lax
        >>> import xlab.numpy as jnp
        >>> lax.map(lambda x: x + 1, jnp.arange(3)).tolist()
        [1, 2, 3]
    """
    check_callables("map", f=f)
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    flat, tree = _tree.flatten(xs)
    n = aval_of(flat[0]).shape[0]
    whole, left = divmod(n, batch_size)
    parts = []
    if whole:
        heads = [
            reshape(
                slice_in_dim(x, 0, whole * batch_size), (whole, batch_size, *aval_of(x).shape[1:])
            )
            for x in flat
        ]
        _, ys = scan(lambda _, x: ((), _batched(f, x)), (), _tree.unflatten(tree, heads))
        parts.append(
            _tree.map(lambda y: reshape(y, (whole * batch_size, *aval_of(y).shape[2:])), ys)
        )
    if left:
        parts.append(
            _batched(f, _tree.unflatten(tree, [slice_in_dim(x, n - left, n) for x in flat]))
        )
    return parts[0] if len(parts) == 1 else _tree.map(lambda a, b: concatenate([a, b], 0), *parts)


def _batched(f, xs):
    """`f` on all elements along the leading axis at once."""
    flat, tree = _tree.flatten(xs)
    out_tree = None

    def flat_fun(*leaves):
        nonlocal out_tree
        outs, out_tree = _tree.flatten(f(_tree.unflatten(tree, leaves)))
        return outs

    size = aval_of(flat[0]).shape[0]
    run, out_dims = batching.batch_flat(flat_fun, Axis(None, size, "vmap"), [0] * len(flat))
    outs = run(*flat)
    return _tree.unflatten(
        out_tree, [batching.move_batch_dim_to(x, d, size, 0) for x, d in zip(outs, out_dims.dims)]
    )


def associative_scan(fn: Callable, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes of an associative operation, in logarithmic depth.

    Args:
        fn: combines two batches of elements (pytrees with the structure of `elems`), elementwise along `axis`.

    Source: Blelloch, "Prefix sums and their applications" (1990).

    Example:
        >>> from xlab import lax
        >>> import xlab.numpy as jnp
        >>> lax.associative_scan(jnp.add, jnp.arange(4)).tolist()
        [0, 1, 3, 6]
    """
    check_callables("associative_scan", fn=fn)
    flat, tree = _tree.flatten(elems)
    axis = canonical_axis(axis, aval_of(flat[0]).ndim)
    sizes = {aval_of(x).shape[axis] for x in flat}
    if len(sizes) != 1:
        raise ValueError(
            f"associative_scan needs arrays of equal size along axis {axis}, got {sorted(sizes)}"
        )
    if reverse:
        flat = [rev(x, (axis,)) for x in flat]

    def combine(a, b):
        out = fn(_tree.unflatten(tree, a), _tree.unflatten(tree, b))
        return _tree.leaves(out)

    def prefixes(xs):
        n = aval_of(xs[0]).shape[axis]
        if n < 2:
            return xs
        # Combine neighbors, scan the pairs, then fill in the elements between.
        half = n // 2
        evens = [slice_in_dim(x, 0, 2 * half, 2, axis) for x in xs]
        odds = [slice_in_dim(x, 1, 2 * half, 2, axis) for x in xs]
        at_odds = prefixes(combine(evens, odds))
        left = at_odds if n % 2 else [slice_in_dim(x, 0, half - 1, 1, axis) for x in at_odds]
        later = [slice_in_dim(x, 2, None, 2, axis) for x in xs]
        at_evens = combine(left, later) if n > 2 else later
        at_evens = [
            concatenate([slice_in_dim(x, 0, 1, 1, axis), e], axis) for x, e in zip(xs, at_evens)
        ]
        return [_interleave(e, o, axis) for e, o in zip(at_evens, at_odds)]

    out = prefixes(flat) if sizes != {0} else flat
    if reverse:
        out = [rev(x, (axis,)) for x in out]
    return _tree.unflatten(tree, out)


def _interleave(evens, odds, axis):
    """e0 o0 e1 o1 ...: each spread by padding, then added."""
    a, b = aval_of(evens).shape[axis], aval_of(odds).shape[axis]
    dtype = aval_of(evens).dtype
    zero = np.zeros((), dtype)[()]
    ndim = aval_of(evens).ndim

    def spread(x, low, high):
        return pad(x, zero, [(low, high, 1) if i == axis else (0, 0, 0) for i in range(ndim)])

    left, right = spread(evens, 0, int(a == b)), spread(odds, 1, int(a > b))
    if dtype == np.bool_:
        from xlab.lax.bits import bitwise_or

        return bitwise_or(left, right)
    return add(left, right)
