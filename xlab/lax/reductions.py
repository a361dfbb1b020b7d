"""Reductions over positional axes: max, min, product, all, any, argmax, argmin, and `reduce_precision`'s kin."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from xlab.config import idle_argument
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.values import i64_array
from xlab.lax import elementwise as _e
from xlab.lax import sharding_in_types
from xlab.lax.arithmetic import complex_extremum, div, mul
from xlab.lax.comparison import eq
from xlab.lax.convert import convert_element_type
from xlab.lax.reduce_sum import reduce_sum_p, reduced_shape, reduction_text
from xlab.lax.shape import canonical_axis, reshape
from xlab.sharding.typed import out_sharding as canonical_out_sharding

__all__ = [
    "argmax",
    "argmin",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_prod",
    "reduce_sum",
    "reduce_xor",
]


def _axes(x, axes):
    axes, aval = tuple(map(operator.index, axes)), aval_of(x)
    if any(not 0 <= a < aval.ndim for a in axes):
        raise ValueError(
            f"reduction axes {axes} contains out-of-bounds indices for {aval}: axes count from 0 to {aval.ndim - 1}"
        )
    return axes


def reduce_sum(
    operand: ArrayLike, axes: Sequence[int], *, out_sharding: ShardingLike | None = None
) -> Array:
    """Sum over the given axes.

    Args:
        operand: an array.
        axes: the dimensions to reduce.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.
    """
    axes = _axes(operand, axes)
    asked = (
        None
        if out_sharding is None
        else canonical_out_sharding(out_sharding, "reduce_sum", aval_of(operand).ndim - len(axes))
    )
    return reduce_sum_p.bind(operand, axes=axes, out_sharding=asked)


def lowest(dtype):
    """The identity of `max` for a dtype."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.False_
    if _e.complexes(dtype):
        return np.asarray(complex(-np.inf, -np.inf), dtype)[()]
    if dtypes.issubdtype(dtype, np.floating):
        return _end(dtype, -np.inf, dtypes.finfo(dtype).min)
    return np.asarray(dtypes.iinfo(dtype).min).astype(dtype)[()]


def _end(dtype, infinity, number):
    """An infinity, or the number farthest out where a dtype has none: 8-bit floats without infinities make NaN of one."""
    with np.errstate(invalid="ignore"):
        value = np.asarray(infinity).astype(dtype)[()]
    return value if value == infinity else np.asarray(number).astype(dtype)[()]


def highest(dtype):
    """The identity of `min` for a dtype."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.True_
    if _e.complexes(dtype):
        return np.asarray(complex(np.inf, np.inf), dtype)[()]
    if dtypes.issubdtype(dtype, np.floating):
        return _end(dtype, np.inf, dtypes.finfo(dtype).max)
    return np.asarray(dtypes.iinfo(dtype).max).astype(dtype)[()]


def _reduction(name: str, op: str, accepts, identity):
    """A reduction by one StableHLO operation, with the identity of its dtype as start."""
    prim = Primitive(name)
    bitwise = accepts is _e.integer_or_bool  # bits have no weak type

    @prim.def_abstract_eval
    def aval(x, *, axes, **_):
        if not accepts(x.dtype):
            raise TypeError(f"{name} does not accept dtype {dtypes.name(x.dtype)}")
        return ShapedArray(reduced_shape(x, axes), x.dtype, x.weak_type and not bitwise)

    def lowering(ctx, x, *, axes, **_):
        src = ctx.avals_in[0]
        if not axes:
            return x
        init = ctx.constant(np.asarray(identity(src.dtype)), src.update(shape=(), weak_type=False))
        if op in ("stablehlo.maximum", "stablehlo.minimum") and _e.complexes(src.dtype):
            scalar = src.update(shape=(), weak_type=False)
            t = mlir.tensor_type(scalar)
            body = ctx.block([t, t], lambda names: [complex_extremum(ctx, op, *names, scalar)], [t])
            return ctx.op(
                f'"stablehlo.reduce"({x}, {init}) <{{dimensions = {i64_array(axes)}}}> ({body}) : ({ctx.type_in()}, {t}) -> '
                f"{ctx.type_out()}"
            )
        return reduction_text(ctx, op, x, init, axes, src, ctx.avals_out[0])

    sharding_rules[prim] = sharding_in_types.reduction
    batching.defreducer(prim)
    mlir.register_text_lowering(prim, lowering)
    return prim


def _extremum_jvp(t, ans, x, *, axes, out_sharding=None):
    """The tangent at the extremal position; the mean over positions that tie."""
    aval = aval_of(x)
    kept = [1 if i in axes else d for i, d in enumerate(aval.shape)]
    where = convert_element_type(eq(x, reshape(ans, kept)), aval.dtype)
    return div(reduce_sum(mul(t, where), axes), reduce_sum(where, axes))


def reduce_max(
    operand: ArrayLike, axes: Sequence[int], *, out_sharding: ShardingLike | None = None
) -> Array:
    """Maximum over the given axes; -inf (or the lowest integer) where there is nothing. Complex numbers compare by real part, then by
    imaginary part.

    Args:
        operand: an array.
        axes: the dimensions to reduce.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.
    """
    idle_argument(
        "reduce_max", "out_sharding", out_sharding, "xlab.reshard brings the result to a sharding"
    )
    return reduce_max_p.bind(operand, axes=_axes(operand, axes), out_sharding=None)


def reduce_min(
    operand: ArrayLike, axes: Sequence[int], *, out_sharding: ShardingLike | None = None
) -> Array:
    """Minimum over the given axes.

    Args:
        operand: an array.
        axes: the dimensions to reduce.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.
    """
    idle_argument(
        "reduce_min", "out_sharding", out_sharding, "xlab.reshard brings the result to a sharding"
    )
    return reduce_min_p.bind(operand, axes=_axes(operand, axes), out_sharding=None)


reduce_max_p = _reduction("reduce_max", "stablehlo.maximum", _e.sortable, lowest)
reduce_min_p = _reduction("reduce_min", "stablehlo.minimum", _e.sortable, highest)
ad.defjvp2(reduce_max_p, _extremum_jvp)
ad.defjvp2(reduce_min_p, _extremum_jvp)


def reduce_prod(
    operand: ArrayLike, axes: Sequence[int], *, out_sharding: ShardingLike | None = None
) -> Array:
    """Product over the given axes.

    Args:
        operand: an array.
        axes: the dimensions to reduce.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.
    """
    idle_argument(
        "reduce_prod", "out_sharding", out_sharding, "xlab.reshard brings the result to a sharding"
    )
    return reduce_prod_p.bind(operand, axes=_axes(operand, axes))


reduce_prod_p = _reduction(
    "reduce_prod", "stablehlo.multiply", _e.numeric, lambda d: np.ones((), d)
)
# Its derivative, which needs running products, stands in cumulative.py.


def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise and over the given axes."""
    return reduce_and_p.bind(operand, axes=_axes(operand, axes))


def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise or over the given axes."""
    return reduce_or_p.bind(operand, axes=_axes(operand, axes))


def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise exclusive or over the given axes."""
    return reduce_xor_p.bind(operand, axes=_axes(operand, axes))


def _all_ones(dtype):
    return np.True_ if dtype == np.bool_ else np.asarray(~np.zeros((), dtype))


reduce_and_p = _reduction("reduce_and", "stablehlo.and", _e.integer_or_bool, _all_ones)
reduce_or_p = _reduction("reduce_or", "stablehlo.or", _e.integer_or_bool, lambda d: np.zeros((), d))
reduce_xor_p = _reduction(
    "reduce_xor", "stablehlo.xor", _e.integer_or_bool, lambda d: np.zeros((), d)
)
for _p in (reduce_and_p, reduce_or_p, reduce_xor_p):
    ad.defzero(_p)


# -- argmax, argmin ---------------------------------------------------------------------------------------


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike = np.int32) -> Array:
    """Position of the maximum along an axis; the first of several; of a NaN if there is one.

    Args:
        operand: an array.
        axis: the dimension to search.
        index_dtype: dtype of the positions.
    """
    return argmax_p.bind(
        operand,
        axes=(canonical_axis(axis, aval_of(operand).ndim),),
        index_dtype=dtypes.canonicalize_dtype(index_dtype),
    )


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike = np.int32) -> Array:
    """Position of the minimum along an axis; the first of several; of a NaN if there is one.

    Args:
        operand: an array.
        axis: the dimension to search.
        index_dtype: dtype of the positions.
    """
    return argmin_p.bind(
        operand,
        axes=(canonical_axis(axis, aval_of(operand).ndim),),
        index_dtype=dtypes.canonicalize_dtype(index_dtype),
    )


def _arg_extremum(name: str, direction: str, identity):
    prim = Primitive(name)

    @prim.def_abstract_eval
    def aval(x, *, axes, index_dtype):
        if not _e.ordered(x.dtype):
            raise TypeError(f"{name} does not accept dtype {dtypes.name(x.dtype)}")
        if not dtypes.issubdtype(index_dtype, np.integer):
            raise TypeError(f"{name} needs an integer index_dtype, got {dtypes.name(index_dtype)}")
        if x.shape[axes[0]] < 1:
            raise ValueError(f"attempt to get {name} of an empty sequence: axis {axes[0]} of {x}")
        return ShapedArray(reduced_shape(x, axes), index_dtype)

    def lowering(ctx, x, *, axes, index_dtype):
        src, out = ctx.avals_in[0], ctx.avals_out[0]
        index = ShapedArray(src.shape, index_dtype)
        positions = ctx.op(f"stablehlo.iota dim = {axes[0]} : {mlir.tensor_type(index)}")
        scalar, iscalar = src.update(shape=(), weak_type=False), ShapedArray((), index_dtype)
        best = ctx.constant(np.asarray(identity(src.dtype)), scalar)
        first = ctx.constant(np.zeros((), index_dtype), iscalar)
        ts, ti = mlir.tensor_type(scalar), mlir.tensor_type(iscalar)
        kind = (
            "FLOAT"
            if dtypes.issubdtype(src.dtype, np.inexact)
            else "UNSIGNED"
            if src.dtype == np.bool_ or dtypes.issubdtype(src.dtype, np.unsignedinteger)
            else "SIGNED"
        )
        a, i, b, j = (ctx.fresh() for _ in range(4))
        body = []

        def emit(text):
            name = ctx.fresh()
            body.append(f"      {name} = {text}")
            return name

        wins = emit(f"stablehlo.compare {direction}, {a}, {b}, {kind} : ({ts}, {ts}) -> tensor<i1>")
        if kind == "FLOAT":
            nan = emit(f"stablehlo.compare NE, {a}, {a}, FLOAT : ({ts}, {ts}) -> tensor<i1>")
            wins = emit(f"stablehlo.or {wins}, {nan} : tensor<i1>")
        same = emit(f"stablehlo.compare EQ, {a}, {b}, {kind} : ({ts}, {ts}) -> tensor<i1>")
        if kind == "FLOAT":
            both = emit(f"stablehlo.compare NE, {b}, {b}, FLOAT : ({ts}, {ts}) -> tensor<i1>")
            both = emit(f"stablehlo.and {nan}, {both} : tensor<i1>")
            same = emit(f"stablehlo.or {same}, {both} : tensor<i1>")
            # When both are NaN the position decides, so NaN on the left alone must not.
            only = emit(f"stablehlo.not {both} : tensor<i1>")
            wins = emit(f"stablehlo.and {wins}, {only} : tensor<i1>")
        earlier = emit(
            f"stablehlo.compare LT, {i}, {j}, SIGNED : ({ti}, {ti}) -> tensor<i1>".replace(
                "SIGNED",
                "UNSIGNED" if dtypes.issubdtype(index_dtype, np.unsignedinteger) else "SIGNED",
            )
        )
        tie = emit(f"stablehlo.and {same}, {earlier} : tensor<i1>")
        left = emit(f"stablehlo.or {wins}, {tie} : tensor<i1>")
        value = emit(f"stablehlo.select {left}, {a}, {b} : tensor<i1>, {ts}")
        place = emit(f"stablehlo.select {left}, {i}, {j} : tensor<i1>, {ti}")
        body.append(f"      stablehlo.return {value}, {place} : {ts}, {ti}")
        values_out = mlir.tensor_type(src.update(shape=out.shape))
        text = (
            f'"stablehlo.reduce"({x}, {positions}, {best}, {first}) <{{dimensions = array<i64: {axes[0]}>}}> ({{\n'
            f"    ^bb0({a}: {ts}, {i}: {ti}, {b}: {ts}, {j}: {ti}):\n"
            + "\n".join(body)
            + "\n    }) : "
            f"({mlir.tensor_type(src)}, {mlir.tensor_type(index)}, {ts}, {ti}) -> "
            f"({values_out}, {mlir.tensor_type(out)})"
        )
        return ctx.ops(text, 2)[1]

    def batch(xs, dims, *, axes, index_dtype):
        d = dims[0]
        axis = axes[0] + (axes[0] >= d)
        return prim.bind(xs[0], axes=(axis,), index_dtype=index_dtype), d - (axis < d)

    ad.defzero(prim)
    sharding_rules[prim] = sharding_in_types.reduction
    batching.primitive_batchers[prim] = batch
    mlir.register_text_lowering(prim, lowering)
    return prim


argmax_p = _arg_extremum("argmax", "GT", lowest)
argmin_p = _arg_extremum("argmin", "LT", highest)

costs.register(
    costs.reduction,
    reduce_max_p,
    reduce_min_p,
    reduce_prod_p,
    reduce_and_p,
    reduce_or_p,
    reduce_xor_p,
    argmax_p,
    argmin_p,
)
