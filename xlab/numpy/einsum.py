"""`einsum`: sums of products named by letters, as a sequence of pairwise `dot_general`s in a cheap order."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlab.lax.comparison import select
from xlab.lax.dot import inversions
from xlab.lax.precision import PrecisionLike
from xlab.lax.reshard import auto_axes
from xlab.numpy.arithmetic import as_array
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import cast_operand, check, dtype_of, kinds_of, promoted, shape_of
from xlab.numpy.tensor_contractions import contract

__all__ = ["einsum"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(
    subscripts: str | ArrayLike,
    /,
    *operands: Any,
    out: None = None,
    optimize: str | bool | list[tuple[int, ...]] = "auto",
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: ShardingLike | None = None,
    _dot_general: Callable = lax.dot_general,
) -> Array:
    """Sum of products over named axes.

    Args:
        subscripts: a letter (or a digit, or any other character) per axis of each operand, and those of the result: `"ij,jk->ik"`. Letters missing from
            the result are summed over. `...` stands for axes that broadcast. Also operands alternating with lists of ints.
        operands: arrays.
        optimize: False to go from left to right, otherwise pairs are chosen by cost; or a path from `einsum_path`.
        precision: see `xlab.lax.Precision`.
        preferred_element_type: dtype to accumulate in and return.
        _dot_general: what multiplies a pair, called as `lax.dot_general` is: quantized products and the like.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.einsum("bij,bjk->bik", jnp.ones((2, 3, 4)), jnp.ones((2, 4, 5))).shape
        (2, 3, 5)
    """
    if out is not None:
        raise NotImplementedError(
            "einsum: arrays are not changed in place, so out= is not supported; use the result"
        )
    spec, operands = _spelled(subscripts, operands)
    operands = check("einsum", *operands)
    inputs, result = parse(spec, [shape_of(x) for x in operands])
    sizes = _sizes(spec, inputs, [shape_of(x) for x in operands])
    path = (
        optimize[1:]
        if isinstance(optimize, (list, tuple)) and optimize and optimize[0] == "einsum_path"
        else optimize
    )
    if not isinstance(path, (list, tuple)):
        path = (
            cheap_path(inputs, result, sizes)
            if optimize is not False
            else ((0, 1),) * (len(inputs) - 1)
        )
    run = functools.partial(
        _einsum,
        inputs=tuple(inputs),
        result=result,
        path=tuple(map(tuple, path)),
        precision=precision,
        preferred=preferred_element_type,
        dot=None if _dot_general is lax.dot_general else _dot_general,
    )
    if out_sharding is None:
        return run(list(operands))
    return auto_axes(run, out_sharding=out_sharding)([as_array(x) for x in operands])


# -- reading the subscripts -------------------------------------------------------------------------------


def _spelled(subscripts, operands):
    """Subscripts as text, also for the form with lists of axis numbers."""
    if isinstance(subscripts, str):
        if not operands:
            raise TypeError("einsum needs at least one operand after the subscripts")
        return subscripts, operands
    items = [subscripts, *operands]
    arrays, lists = items[0 : len(items) - len(items) % 2 : 2], items[1::2]

    def text(axes):
        return "".join("..." if a is Ellipsis else _LETTERS[int(a)] for a in axes)

    spec = ",".join(map(text, lists))
    if len(items) % 2:
        spec += "->" + text(items[-1])
    return spec, tuple(arrays)


def parse(spec: str, shapes):
    """Letters of each operand and of the result, with `...` replaced by capital letters not in use."""
    text = spec.replace(" ", "")
    left, arrow, result = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(shapes):
        raise ValueError(f"einsum: {spec!r} names {len(inputs)} operand(s), got {len(shapes)}")
    unused = [c for c in reversed(_LETTERS) if c not in text]
    longest = 0
    for i, (letters, shape) in enumerate(zip(inputs, shapes)):
        named = letters.replace("...", "")
        if not set(named).isdisjoint(".->"):
            raise ValueError(
                f"einsum: {spec!r} has a '.', '-' or '>' that is no part of '...' or '->'"
            )
        free = len(shape) - len(named)
        if free < 0 or (free and "..." not in letters):
            raise ValueError(
                f"Einstein sum subscript {letters!r} does not contain the correct number of indices for operand "
                f"{i}, which has shape {tuple(shape)}."
            )
        if "..." in letters:
            longest = max(longest, free)
    hidden = unused[:longest][::-1]
    for i, (letters, shape) in enumerate(zip(inputs, shapes)):
        free = len(shape) - len(letters.replace("...", ""))
        inputs[i] = letters.replace("...", "".join(hidden[longest - free :]) if free else "")
    everything = "".join(inputs)
    if not arrow:
        result = "".join(hidden) + "".join(
            sorted(c for c in set(everything) - set(hidden) if everything.count(c) == 1)
        )
    else:
        result = result.replace("...", "".join(hidden))
    for c in result:
        if result.count(c) > 1:
            raise ValueError(f"einsum: the result of {spec!r} names {c!r} more than once")
        if c not in everything:
            raise ValueError(f"einsum: the result of {spec!r} names {c!r}, which no operand has")
    return inputs, result


def _sizes(spec, inputs, shapes) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for letters, shape in zip(inputs, shapes):
        for c, d in zip(letters, shape):
            if sizes.setdefault(c, d) != d:
                if 1 not in (sizes[c], d):
                    raise ValueError(
                        f"einsum: size of label {c!r} for operands of {spec!r} does not match: {sizes[c]} and {d} "
                        f"(shapes {list(map(tuple, shapes))})"
                    )
                sizes[c] = max(sizes[c], d)
    return sizes


# -- choosing the order -----------------------------------------------------------------------------------


def cheap_path(inputs, result, sizes):
    """Pairs to contract, operands removed and the product put at the end: best order for few operands, greedy for many."""
    return _cheap_path(tuple(inputs), result, tuple(sizes.items()))


@functools.lru_cache(maxsize=1024)
def _cheap_path(inputs, result, sizes):
    sizes = dict(sizes)
    sets = [frozenset(letters) for letters in inputs]
    out = frozenset(result)
    if len(sets) < 3:
        return ((0, 1),) * (len(sets) - 1)
    if len(sets) <= 6:
        return _search(tuple(sets), out, sizes, {})[1]
    path = []
    while len(sets) > 1:
        i, j = min(combinations(range(len(sets)), 2), key=lambda ij: _greed(sets, *ij, out, sizes))
        path.append((i, j))
        sets = _after(sets, i, j, out)
    return tuple(path)


def _volume(letters, sizes) -> int:
    return math.prod(sizes[c] for c in letters)


def _after(sets, i, j, out):
    rest = [s for k, s in enumerate(sets) if k not in (i, j)]
    needed = out.union(*rest)
    return [*rest, (sets[i] | sets[j]) & needed]


def _greed(sets, i, j, out, sizes):
    product = _after(sets, i, j, out)[-1]
    return (
        _volume(product, sizes) - _volume(sets[i], sizes) - _volume(sets[j], sizes),
        _volume(sets[i] | sets[j], sizes),
        i,
        j,
    )


def _search(sets, out, sizes, known):
    """Cost and path of the cheapest order, by trying all."""
    if len(sets) == 1:
        return 0, ()
    found = known.get(sets)
    if found is None:
        best = None
        for i, j in combinations(range(len(sets)), 2):
            cost, path = _search(tuple(_after(list(sets), i, j, out)), out, sizes, known)
            cost += _volume(sets[i] | sets[j], sizes)
            if best is None or cost < best[0]:
                best = (cost, ((i, j), *path))
        found = known[sets] = best
    return found


# -- computing --------------------------------------------------------------------------------------------


@jit_when_eager(static=("inputs", "result", "path", "precision", "preferred", "dot"))
def _einsum(operands, inputs, result, path, precision, preferred, dot=None):
    if preferred is None:
        dtype, weak = dtypes.result_of(kinds_of(operands))
    else:
        dtype, weak = dtypes.check_user_dtype(preferred, "einsum"), False
    terms = list(zip(operands, inputs))
    sizes = _sizes("", inputs, [shape_of(x) for x in operands])
    for positions in path:
        chosen = [terms[i] for i in positions]
        terms = [t for i, t in enumerate(terms) if i not in positions]
        needed = set(result).union(*(letters for _, letters in terms))
        product = chosen[0]
        for other in chosen[1:]:
            product = _pair(
                product, other, needed, result if not terms else "", sizes, precision, dtype, dot
            )
        terms.append(product)
    x, letters = terms[0]
    x, letters = _alone(x, letters, set(result))
    x = lax.transpose(as_array(x), [letters.index(c) for c in result])
    shape = tuple(sizes[c] for c in result)
    if x.shape != shape:
        x = lax.broadcast_in_dim(x, shape, range(len(shape)))
    return cast_operand(x, dtype, weak)


def _alone(x, letters, needed):
    """Simplifies one operand: diagonals of repeated letters, sums over unused letters, sizes of 1."""
    x = as_array(x)
    for c in dict.fromkeys(letters):
        while letters.count(c) > 1:
            i = letters.index(c)
            j = letters.index(c, i + 1)
            shape = x.shape
            rows = lax.broadcasted_iota(np.int32, shape, i)
            mask = lax.eq(rows, lax.broadcasted_iota(np.int32, shape, j))
            x = lax.reduce_sum(select(mask, x, lax.full_like(x, 0)), (i,))
            letters = letters[:i] + letters[i + 1 :]
    gone = tuple(i for i, c in enumerate(letters) if c not in needed)
    if gone:
        x = _sum(x, gone)
        letters = "".join(c for c in letters if c in needed)
    return x, letters


def _sum(x, axes):
    if dtype_of(x) == np.bool_:
        return lax.reduce_or(x, axes)
    return lax.reduce_sum(x, axes)


def _pair(one, other, needed, wanted, sizes, precision, dtype, dot):
    """The product of two operands, summed over the letters that are not used later."""
    (a, la), (b, lb) = one, other
    a, la = _alone(a, la, needed | set(lb))
    b, lb = _alone(b, lb, needed | set(la))
    a, la = _without_ones(a, la, lb, sizes)
    b, lb = _without_ones(b, lb, la, sizes)
    shared = [c for c in la if c in lb]
    batch = [c for c in shared if c in needed]
    summed = [c for c in shared if c not in needed]

    def letters(first, second):
        return (
            "".join(batch)
            + "".join(c for c in first if c not in shared)
            + "".join(c for c in second if c not in shared)
        )

    def moved(first, second):
        return inversions([wanted.index(c) for c in letters(first, second)])

    if wanted and moved(lb, la) < moved(la, lb):
        (a, la), (b, lb) = (b, lb), (a, la)
    numbers = (
        (tuple(la.index(c) for c in summed), tuple(lb.index(c) for c in summed)),
        (tuple(la.index(c) for c in batch), tuple(lb.index(c) for c in batch)),
    )
    if dot is None:
        out = contract("einsum", a, b, numbers, precision, dtype)
    else:
        a, b = (as_array(x) for x in promoted("einsum", a, b))
        out = dot(a, b, numbers, precision=precision, preferred_element_type=dtype)
    return out, letters(la, lb)


def _without_ones(x, letters, others, sizes):
    """Drops axes of size 1 whose letter has another size in the other operand."""
    gone = [
        i for i, c in enumerate(letters) if c in others and shape_of(x)[i] == 1 and sizes[c] != 1
    ]
    if gone:
        x = lax.squeeze(x, gone)
        letters = "".join(c for i, c in enumerate(letters) if i not in gone)
    return x, letters
