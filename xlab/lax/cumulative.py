"""Running sums, products, maxima, minima and log-sum-exps along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xlab.config import config
from xlab.core.avals import aval_of
from xlab.core.dims import SymbolicDim, max_dim
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.interpreters.mlir.values import i64_array
from xlab.lax import elementwise as _e
from xlab.lax import sharding_in_types
from xlab.lax.arithmetic import add, complex_extremum, div, floor, max, min, mul, sub
from xlab.lax.comparison import gt, ne, select
from xlab.lax.complexes import complex, imag, real
from xlab.lax.creation import full_like
from xlab.lax.reductions import highest, lowest, reduce_prod_p, reduce_sum
from xlab.lax.shape import (
    broadcast_in_dim,
    canonical_axis,
    concatenate,
    moveaxis,
    pad,
    reshape,
    rev,
    transpose,
)
from xlab.lax.slicing import slice_in_dim
from xlab.lax.transcendental import exp, log1p

__all__ = ["cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"]


def cumsum(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running sum along an axis, from the end if `reverse`.

    Args:
        operand: an array.
        axis: the axis.
        reverse: whether to run from the end.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.cumsum(np.int32([1, 2, 3])))
        [1 3 6]
    """
    return _bind(cumsum_p, operand, axis, reverse)


def cumprod(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running product along an axis, from the end if `reverse`.

    Args:
        operand: an array.
        axis: the axis.
        reverse: whether to run from the end.
    """
    return _bind(cumprod_p, operand, axis, reverse)


def cummax(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running maximum along an axis, from the end if `reverse`.

    Args:
        operand: an array.
        axis: the axis.
        reverse: whether to run from the end.
    """
    return _bind(cummax_p, operand, axis, reverse)


def cummin(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running minimum along an axis, from the end if `reverse`.

    Args:
        operand: an array.
        axis: the axis.
        reverse: whether to run from the end.
    """
    return _bind(cummin_p, operand, axis, reverse)


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running log of the sum of exponentials along an axis, from the end if `reverse`.

    Args:
        operand: an array.
        axis: the axis.
        reverse: whether to run from the end.
    """
    return _bind(cumlogsumexp_p, operand, axis, reverse)


def _bind(prim, operand, axis, reverse):
    if axis < 0:
        raise ValueError(
            f"lax.{prim} counts axes from the front, from 0 to ndim - 1: got axis={axis} for an operand of type {aval_of(operand)}"
        )
    return prim.bind(
        operand, axis=canonical_axis(axis, aval_of(operand).ndim), reverse=bool(reverse)
    )


def prefix_scan(combine: Callable, x, axis: int, reverse: bool = False):
    """Combines each element with all before it, in logarithmic depth.

    Pairs of neighbors are combined and scanned in half the length; that gives the odd places, and one more
    combination gives the even ones.
    """
    if reverse:
        return rev(prefix_scan(combine, rev(x, (axis,)), axis), (axis,))
    n = aval_of(x).shape[axis]
    if n < 2:
        return x

    def part(v, start, stop, step):
        return slice_in_dim(v, start, stop, step, axis)

    odd = prefix_scan(combine, combine(part(x, 0, n - 1, 2), part(x, 1, n, 2)), axis)
    half = aval_of(odd).shape[axis]
    before = odd if n % 2 else part(odd, 0, half - 1, 1)
    even = concatenate([part(x, 0, 1, 1), combine(before, part(x, 2, n, 2))], axis)
    return add(_spread_out(even, axis, 0, n), _spread_out(odd, axis, 1, n))


def _one_by_one(combine, identity, x, axis: int, reverse: bool):
    """The running combination as a loop, for a length that is not known."""
    from xlab.lax.control.scan import scan

    aval = aval_of(x)
    rest = (*aval.shape[:axis], *aval.shape[axis + 1 :])
    first = broadcast_in_dim(identity(aval.dtype), rest, ())

    def step(total, row):
        total = combine(total, row)
        return total, total

    _, out = scan(step, first, moveaxis(x, axis, 0), reverse=reverse)
    return moveaxis(out, 0, axis)


def _spread_out(x, axis: int, first: int, n: int):
    """The elements at every second place from `first`, zeros between."""
    aval = aval_of(x)
    covered = first + 2 * aval.shape[axis] - 1
    config = [(0, 0, 0)] * aval.ndim
    config[axis] = (first, n - covered, 1)
    return pad(x, np.zeros((), aval.dtype)[()], config)


def log_add_exp(x, y):
    """log(exp(x) + exp(y)) without overflow; of complex numbers the logarithm whose imaginary part lies in [-pi, pi)."""
    if _e.complexes(aval_of(x).dtype):
        first = gt(real(x), real(y))
        out = add(select(first, x, y), log1p(exp(select(first, sub(y, x), sub(x, y)))))
        angle = imag(out)
        half, turn = (np.asarray(v).astype(aval_of(angle).dtype)[()] for v in (np.pi, 2 * np.pi))
        return complex(real(out), sub(angle, mul(floor(div(add(angle, half), turn)), turn)))
    # Written so that each side of the choice is smooth where the other takes over: second derivatives hold where x equals y.
    first = gt(x, y)
    top = select(first, x, y)
    difference = sub(select(first, y, x), top)
    # Equal infinities have no difference; their sum is themselves.
    undefined = ne(difference, difference)
    difference = select(undefined, full_like(difference, 0), difference)
    return select(undefined, add(x, y), add(top, log1p(exp(difference))))


def _family(name: str, accepts, combine: Callable, identity: Callable, op: str | None) -> Primitive:
    prim = Primitive(name)

    @prim.def_abstract_eval
    def aval(x, *, axis, reverse):
        if not accepts(x.dtype):
            _e.check_dtypes(name, (x,), accepts)
        if not 0 <= axis < x.ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of shape {x.shape}")
        return x

    def jvp(primals, tangents, *, axis, reverse):
        if type(tangents[0]) is Zero:
            out = prim.bind(*primals, axis=axis, reverse=reverse)
            return out, Zero.of(out)
        # The scan is the same function, written in primitives whose derivatives are known.
        (out,), (t,) = ad.jvp(lambda x: [prefix_scan(combine, x, axis, reverse)], primals, tangents)
        return out, ad.instantiate_zeros(t)

    def batch(xs, dims, *, axis, reverse):
        return prim.bind(xs[0], axis=axis + (axis >= dims[0]), reverse=reverse), dims[0]

    scan_lowering = mlir.lower_fun(
        lambda x, *, axis, reverse: prefix_scan(combine, x, axis, reverse)
    )

    loop_lowering = mlir.lower_fun(
        lambda x, *, axis, reverse: _one_by_one(combine, identity, x, axis, reverse)
    )

    def lowering(ctx, x, *, axis, reverse):
        src = ctx.avals_in[0]
        n = src.shape[axis]
        if op is None and isinstance(n, SymbolicDim):
            return loop_lowering(ctx, x, axis=axis, reverse=reverse)[0]
        if op is None or src.size == 0 or config.jax2tf_associative_scan_reductions:
            return scan_lowering(ctx, x, axis=axis, reverse=reverse)[0] if n > 1 and src.size else x
        # A window over everything before each element; the compiler splits long ones into blocks.
        # It has a place even where there may be no elements.
        width = max_dim(n, 1)
        window = [width if i == axis else 1 for i in range(src.ndim)]
        padding = [[0, 0] for _ in range(src.ndim)]
        padding[axis] = [0, width - 1] if reverse else [width - 1, 0]
        scalar = src.update(shape=(), weak_type=False)
        init, t = ctx.constant(np.asarray(identity(src.dtype)), scalar), mlir.tensor_type(scalar)
        whole = _e.complexes(src.dtype) and combine in (max, min)
        body = ctx.block(
            [t, t],
            lambda names: [
                complex_extremum(ctx, op, *names, scalar)
                if whole
                else ctx.op(f"{op} {names[0]}, {names[1]} : {t}")
            ],
            [t],
        )
        pairs = ", ".join(f"[{lo}, {hi}]" for lo, hi in padding)
        return ctx.op(
            f'"stablehlo.reduce_window"({x}, {init}) <{{padding = dense<[{pairs}]> : tensor<{src.ndim}x2xi64>, '
            f"window_dimensions = {i64_array(window)}}}> ({body}) : ({ctx.type_in()}, {t}) -> {ctx.type_out()}"
        )

    ad.primitive_jvps[prim] = jvp
    sharding_rules[prim] = sharding_in_types.along(prim.name)
    batching.primitive_batchers[prim] = batch
    mlir.register_text_lowering(prim, lowering)
    return prim


cumsum_p = _family("cumsum", _e.numeric, add, lambda d: np.zeros((), d), "stablehlo.add")
cumprod_p = _family("cumprod", _e.numeric, mul, lambda d: np.ones((), d), "stablehlo.multiply")
cummax_p = _family("cummax", _e.numeric, max, lowest, "stablehlo.maximum")
cummin_p = _family("cummin", _e.numeric, min, highest, "stablehlo.minimum")
cumlogsumexp_p = _family("cumlogsumexp", _e.inexact, log_add_exp, lowest, None)

cumsum_p.linear_in_unreduced = True
ad.deflinear2(
    cumsum_p, lambda ct, x, axis, reverse: [cumsum_p.bind(ct, axis=axis, reverse=not reverse)]
)


def _reduce_prod_jvp(primals, tangents, *, axes):
    """d prod = sum_i t_i * prod_{j != i} x_j, the others' product from both sides so that zeros are exact."""
    (x,), (t,) = primals, tangents
    out = reduce_prod_p.bind(x, axes=axes)
    if type(t) is Zero:
        return out, Zero.of(out)
    aval = aval_of(x)
    kept = [i for i in range(aval.ndim) if i not in axes]
    shape = [aval.shape[i] for i in kept]
    size = math.prod([aval.shape[i] for i in axes])

    def flat(v):
        return reshape(transpose(v, (*axes, *kept)), (size, *shape))

    xs, ts = flat(x), flat(t)
    one = broadcast_in_dim(np.ones((), aval.dtype)[()], (1, *shape), ())
    before = concatenate([one, slice_in_dim(cumprod(xs, 0), 0, size - 1)], 0) if size else xs
    after = (
        concatenate([slice_in_dim(cumprod(xs, 0, reverse=True), 1, size), one], 0) if size else xs
    )
    return out, reduce_sum(mul(ts, mul(before, after)), (0,))


ad.primitive_jvps[reduce_prod_p] = _reduce_prod_jvp


def _cumulative_cost(avals_in, avals_out, **_):
    return costs.Cost(avals_out[0].size, unit="serial")


def _cumlogsumexp_cost(avals_in, avals_out, **_):
    return costs.Cost(2 * avals_out[0].size, 2 * avals_out[0].size, unit="serial")


costs.register(_cumulative_cost, cumsum_p, cumprod_p, cummax_p, cummin_p)
costs.register(_cumlogsumexp_cost, cumlogsumexp_p)
