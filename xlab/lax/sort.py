"""`sort` of one or several arrays along a dimension, and `top_k`.

The order is total: NaN comes last, and zeros of both signs are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import dim_index, known_negative
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.lax import elementwise as _e
from xlab.lax import sharding_in_types
from xlab.lax.bits import bitwise_and, bitwise_xor, shift_right_arithmetic
from xlab.lax.comparison import ne, select
from xlab.lax.convert import bitcast_convert_type
from xlab.lax.creation import broadcasted_iota, full_like
from xlab.lax.gather import GatherDimensionNumbers, GatherScatterMode, gather
from xlab.lax.shape import canonical_axis, expand_dims, moveaxis

__all__ = ["sort", "sort_key_val", "top_k"]


def sort(
    operand: ArrayLike | Sequence[ArrayLike],
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> Array | tuple[Array, ...]:
    """The operand sorted along a dimension; several operands are permuted alike.

    Args:
        operand: an array, or a sequence of arrays of one shape.
        dimension: along which to sort.
        is_stable: whether equal elements keep their order.
        num_keys: how many of the operands, from the first, decide the order.

    Returns:
        An array, or a tuple of arrays.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.sort(np.float32([3, np.nan, 1])))
        [ 1.  3. nan]
    """
    if isinstance(operand, Sequence):
        if not operand:
            raise TypeError("sort requires at least one operand")
        if not 1 <= num_keys <= len(operand):
            raise ValueError(
                f"num_keys={num_keys} must be between 1 and the number of operands, {len(operand)}"
            )
        axis = canonical_axis(dimension, aval_of(operand[0]).ndim)
        return tuple(
            sort_p.bind(
                *operand,
                dimension=axis,
                is_stable=bool(is_stable),
                num_keys=dim_index(num_keys),
            )
        )
    if num_keys != 1:
        raise ValueError(f"num_keys={num_keys} must equal 1 for a single operand.")
    axis = canonical_axis(dimension, aval_of(operand).ndim)
    return sort_p.bind(operand, dimension=axis, is_stable=bool(is_stable), num_keys=1)[0]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Keys sorted along a dimension, and values in the same order.

    Args:
        keys: what is compared.
        values: what is brought into the same order.
        dimension: the dimension to sort along.
        is_stable: whether equal keys keep their order.
    """
    axis = canonical_axis(dimension, aval_of(keys).ndim)
    return tuple(sort_p.bind(keys, values, dimension=axis, is_stable=bool(is_stable), num_keys=1))


def argsort(operand, dimension: int = -1, is_stable: bool = True, index_dtype=np.int32):
    """The positions that sort the operand along a dimension."""
    aval = aval_of(operand)
    axis = canonical_axis(dimension, aval.ndim)
    return sort_key_val(operand, broadcasted_iota(index_dtype, aval.shape, axis), axis, is_stable)[
        1
    ]


def _sort_aval(*xs, dimension, is_stable, num_keys):
    if any(x.shape != xs[0].shape for x in xs):
        raise TypeError(f"sort requires operands of equal shapes, got {', '.join(map(str, xs))}")
    for x in xs[:num_keys]:
        if dtypes.is_extended(x.dtype):
            raise TypeError(f"sort has no order for keys of dtype {dtypes.name(x.dtype)}")
    for x in xs[num_keys:]:
        if dtypes.is_extended(x.dtype):
            raise TypeError(
                f"sort does not move arrays of dtype {dtypes.name(x.dtype)}: index them with what argsort gives"
            )
    return xs


def _sort_jvp(primals, tangents, *, dimension, is_stable, num_keys):
    shape = aval_of(primals[0]).shape
    positions = broadcasted_iota(np.uint32, shape, dimension)
    *outs, order = sort_p.bind(
        *primals, positions, dimension=dimension, is_stable=is_stable, num_keys=num_keys
    )
    return outs, [
        Zero.of(o) if type(t) is Zero else take_along(t, order, dimension)
        for o, t in zip(outs, tangents)
    ]


def take_along(x, index, axis: int):
    """Elements at one position along an axis for every place of `index`, whose other dimensions are those of `x`."""
    ndim, dtype = aval_of(x).ndim, aval_of(x).dtype
    if aval_of(x).shape[axis] == 0:
        return full_like(index, 0, dtype)  # nothing, from nowhere: a gather has no slice to take
    others = tuple(i for i in range(ndim) if i != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    # A dimension of size 0 leaves nothing to read, not even slices of size 1.
    sizes = tuple(min(d, 1) if i != axis else 1 for i, d in enumerate(aval_of(x).shape))
    return gather(
        x, expand_dims(index, (ndim,)), numbers, sizes, mode=GatherScatterMode.PROMISE_IN_BOUNDS
    )


def _sort_batch(xs, dims, *, dimension, is_stable, num_keys):
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    xs = [batching.move_batch_dim_to(x, d, size, 0) for x, d in zip(xs, dims)]
    outs = sort_p.bind(*xs, dimension=dimension + 1, is_stable=is_stable, num_keys=num_keys)
    return outs, [0] * len(outs)


class _Comparator:
    """Writes the body of a `stablehlo.sort`: whether the left element goes before the right one."""

    def __init__(self, ctx):
        self.ctx, self.lines = ctx, []

    def emit(self, text: str) -> str:
        name = self.ctx.fresh()
        self.lines.append(f"      {name} = {text}")
        return name

    def canonical(self, x: str, dtype, t: str) -> str:
        """One zero and one NaN, so that a total order treats them alike."""
        scalar = ShapedArray((), dtype)
        zero = self.emit(mlir.constant_text(np.zeros((), dtype), scalar))
        nan = self.emit(mlir.constant_text(np.full((), np.nan), scalar))
        is_zero = self.emit(f"stablehlo.compare EQ, {x}, {zero}, FLOAT : ({t}, {t}) -> tensor<i1>")
        is_nan = self.emit(f"stablehlo.compare NE, {x}, {x}, FLOAT : ({t}, {t}) -> tensor<i1>")
        x = self.emit(f"stablehlo.select {is_zero}, {zero}, {x} : tensor<i1>, {t}")
        return self.emit(f"stablehlo.select {is_nan}, {nan}, {x} : tensor<i1>, {t}")

    def keys(self, a: str, b: str, dtype):
        """Pairs to compare one after the other: (left, right, type, kind of comparison)."""
        t = mlir.tensor_type(ShapedArray((), dtype))
        if dtypes.issubdtype(dtype, np.complexfloating):
            part = _e.real_part_dtype(dtype)
            p = mlir.tensor_type(ShapedArray((), part))
            for op in ("real", "imag"):
                x, y = (
                    self.canonical(self.emit(f"stablehlo.{op} {v} : ({t}) -> {p}"), part, p)
                    for v in (a, b)
                )
                yield x, y, p, "TOTALORDER"
        elif dtypes.issubdtype(dtype, np.floating):
            yield self.canonical(a, dtype, t), self.canonical(b, dtype, t), t, "TOTALORDER"
        else:
            signed = dtypes.issubdtype(dtype, np.signedinteger)
            yield a, b, t, "SIGNED" if signed else "UNSIGNED"

    def before(self, pairs) -> str:
        """Lexicographic `<`, from the last key to the first."""
        keys = [k for a, b, dtype in pairs for k in self.keys(a, b, dtype)]
        out = None
        for x, y, t, kind in reversed(keys):
            less = self.emit(f"stablehlo.compare LT, {x}, {y}, {kind} : ({t}, {t}) -> tensor<i1>")
            if out is None:
                out = less
                continue
            same = self.emit(f"stablehlo.compare EQ, {x}, {y}, {kind} : ({t}, {t}) -> tensor<i1>")
            later = self.emit(f"stablehlo.and {same}, {out} : tensor<i1>")
            out = self.emit(f"stablehlo.or {less}, {later} : tensor<i1>")
        return out


def _sort_as_integers(x, *, dimension, is_stable, num_keys):
    """One array of floats by way of integers in the same order, for which the CPU has a sort five times as fast.

    The bits of positive floats are in order; those of negative ones are in reverse, which flipping all but the sign
    mends. Both zeros compare equal, so that -0 comes before 0 here is seen by their signs alone.
    """
    dtype = aval_of(x).dtype
    integer = np.dtype(f"int{8 * dtype.itemsize}")
    top = np.asarray(dtypes.iinfo(integer).max, integer)[()]

    def ordered(bits):
        sign = shift_right_arithmetic(bits, np.asarray(8 * dtype.itemsize - 1, integer)[()])
        return bitwise_xor(bits, bitwise_and(sign, top))

    x = select(ne(x, x), full_like(x, np.nan), x)
    bits = ordered(bitcast_convert_type(x, integer))
    (bits,) = sort_p.bind(bits, dimension=dimension, is_stable=False, num_keys=1)
    return bitcast_convert_type(ordered(bits), dtype)


_sort_floats = mlir.lower_fun(_sort_as_integers)


def _sort_lowering(ctx, *xs, dimension, is_stable, num_keys):
    if (
        len(xs) == 1
        and ctx.platform == "cpu"
        and ctx.avals_in[0].dtype in _BY_INTEGERS
        and ctx.avals_in[0].ndim
    ):
        return _sort_floats(ctx, *xs, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    avals = [mlir.values.physical_aval(a) for a in ctx.avals_in]
    scalars = [mlir.tensor_type(a.update(shape=(), weak_type=False)) for a in avals]
    if avals[0].ndim == 0:
        return list(xs)
    names = [(ctx.fresh(), ctx.fresh()) for _ in xs]
    compare = _Comparator(ctx)
    result = compare.before([(a, b, aval.dtype) for (a, b), aval in zip(names[:num_keys], avals)])
    header = ", ".join(f"{a}: {t}, {b}: {t}" for (a, b), t in zip(names, scalars))
    types = ", ".join(map(mlir.tensor_type, avals))
    body = "\n".join(compare.lines)
    return ctx.ops(
        f'"stablehlo.sort"({", ".join(xs)}) <{{dimension = {dimension} : i64, '
        f"is_stable = {str(is_stable).lower()}}}> ({{\n    ^bb0({header}):\n{body}\n"
        f"      stablehlo.return {result} : tensor<i1>\n    }}) : ({types}) -> ({types})",
        len(xs),
    )


_BY_INTEGERS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64, dtypes.bfloat16)))

sort_p = Primitive("sort", multiple_results=True)
sort_p.def_abstract_eval(_sort_aval)
ad.primitive_jvps[sort_p] = _sort_jvp
sharding_rules[sort_p] = sharding_in_types.along("sort", "dimension")
batching.primitive_batchers[sort_p] = _sort_batch
mlir.register_text_lowering(sort_p, _sort_lowering)


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The `k` largest elements along an axis, in descending order, and their positions (the first of equal ones).

    Args:
        operand: an array.
        k: how many.
        axis: the axis.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> values, positions = lax.top_k(np.float32([1, 3, 2]), 2)
        >>> print(values, positions)
        [3. 2.] [1 2]
    """
    k = dim_index(k)
    if known_negative(k):
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    return list(top_k_p.bind(operand, k=k, axis=canonical_axis(axis, aval_of(operand).ndim)))


def _top_k_aval(x, *, k, axis):
    if not _e.ordered(x.dtype):
        raise TypeError(
            f"top_k does not accept dtype {dtypes.name(x.dtype)}: it takes real or bool arrays"
        )
    if known_negative(x.shape[axis] - k):
        raise ValueError(f"k={k} of top_k is larger than dimension {axis} of {x}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, np.int32, x.weak_type)


def _top_k_jvp(primals, tangents, *, k, axis):
    values, positions = top_k_p.bind(*primals, k=k, axis=axis)
    t = tangents[0]
    return (values, positions), (
        Zero.of(values) if type(t) is Zero else take_along(t, positions, axis),
        Zero.of(positions),
    )


def _top_k_batch(xs, dims, *, k, axis):
    d = dims[0]
    return top_k_p.bind(xs[0], k=k, axis=axis + (axis >= d)), [d, d]


def _top_k_last(x, *, k, axis):
    """`top_k` along another than the last axis."""
    last = aval_of(x).ndim - 1
    return [moveaxis(v, last, axis) for v in top_k_p.bind(moveaxis(x, axis, last), k=k, axis=last)]


_top_k_moved = mlir.lower_fun(_top_k_last)


def _top_k_lowering(ctx, x, *, k, axis):
    aval = ctx.avals_in[0]
    if axis != aval.ndim - 1:
        return _top_k_moved(ctx, x, k=k, axis=axis)
    return ctx.ops(
        f"chlo.top_k({x}, k = {k}) : {ctx.type_in()} -> ({ctx.type_out(0)}, {ctx.type_out(1)})", 2
    )


top_k_p = Primitive("top_k", multiple_results=True)
top_k_p.def_abstract_eval(_top_k_aval)
ad.primitive_jvps[top_k_p] = _top_k_jvp
sharding_rules[top_k_p] = sharding_in_types.along("top_k")
batching.primitive_batchers[top_k_p] = _top_k_batch
mlir.register_text_lowering(top_k_p, _top_k_lowering)


def _comparisons(count, of):
    """Comparisons of an algorithm that takes so many rounds over its elements."""
    return costs.per_element(lambda n: max(1.0, math.log2(max(n, 2))) * count, of, "serial")


costs.register(_comparisons(1, lambda x, params: x.shape[params["dimension"]]), sort_p)
costs.register(_comparisons(1, lambda x, params: params["k"]), top_k_p)
