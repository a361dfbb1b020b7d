"""Products of narrow numbers in blocks, each block with a scale: `scaled_dot`."""

from __future__ import annotations

import math

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax.arithmetic import mul
from xlab.lax.convert import convert, convert_element_type
from xlab.lax.creation import full
from xlab.lax.dot import dot_general
from xlab.lax.precision import DotDimensionNumbers
from xlab.lax.shape import broadcast_in_dim, canonical_axes, reshape

__all__ = ["scaled_dot"]


def scaled_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    lhs_scale: ArrayLike | None = None,
    rhs_scale: ArrayLike | None = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Product of operands in blocks with scales: of `lhs * lhs_scale` and `rhs * rhs_scale`, each scale spread over its block.

    Args:
        lhs, rhs: operands with at least two dimensions.
        lhs_scale, rhs_scale: scales of the same rank, whose sizes divide the operands'; ones by default.
        dimension_numbers: as for `dot_general`; by default that of matrices, with leading dimensions as the batch.
        preferred_element_type: dtype of the result, bfloat16 by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import lax
        >>> x = jnp.ones((2, 64), jnp.float8_e4m3fn)
        >>> lax.scaled_dot(x, x.T, lhs_scale=jnp.full((2, 2), 0.5, jnp.float8_e8m0fnu))[0, 0]
        Array(32., dtype=bfloat16)
    """
    la, ra = aval_of(lhs), aval_of(rhs)
    if la.ndim < 2 or ra.ndim < 2:
        raise TypeError(
            f"scaled_dot does not support 0-rank and 1-rank operands, got {la} and {ra}."
        )
    if dimension_numbers is None:
        batch = tuple(range(la.ndim - 2))
        dimension_numbers = (((la.ndim - 1,), (ra.ndim - 2,)), (batch, batch))
    (lc, rc), (lb, rb) = dimension_numbers
    numbers = (
        (canonical_axes(lc, la.ndim), canonical_axes(rc, ra.ndim)),
        (canonical_axes(lb, la.ndim), canonical_axes(rb, ra.ndim)),
    )
    preferred = dtypes.canonicalize_dtype(
        dtypes.bfloat16 if preferred_element_type is None else preferred_element_type
    )
    scales = (
        _ones(la, numbers[0][0], numbers[1][0]) if lhs_scale is None else lhs_scale,
        _ones(ra, numbers[0][1], numbers[1][1]) if rhs_scale is None else rhs_scale,
    )
    return scaled_dot_p.bind(
        lhs, rhs, *scales, dimension_numbers=numbers, preferred_element_type=preferred
    )


def _ones(aval, contracting, batch):
    """One scale for each row."""
    shape = [1 if i in contracting else d for i, d in enumerate(aval.shape)]
    return convert_element_type(full(shape, 1, dtypes.bfloat16), dtypes.to_dtype("float8_e8m0fnu"))


def _scaled_aval(lhs, rhs, lhs_scale, rhs_scale, *, dimension_numbers, preferred_element_type):
    (lc, rc), (lb, rb) = dimension_numbers
    if not lhs.ndim == lhs_scale.ndim or not rhs.ndim == rhs_scale.ndim or lhs.ndim != rhs.ndim:
        raise TypeError(
            f"All input tensors must have the same rank. Got lhs rank: {lhs.ndim} rhs rank: {rhs.ndim} lhs_scale "
            f"rank: {lhs_scale.ndim} rhs_scale rank: {rhs_scale.ndim}."
        )
    for kind, a, b in (("contracting", lc, rc), ("batch", lb, rb)):
        for i, j in zip(a, b, strict=True):
            if lhs.shape[i] != rhs.shape[j]:
                raise TypeError(
                    f"LHS {kind} dim {i} of size {lhs.shape[i]} does not match RHS {kind} dim {j} of size "
                    f"{rhs.shape[j]}."
                )
    for name, x, scale, contracting in (("LHS", lhs, lhs_scale, lc), ("RHS", rhs, rhs_scale, rc)):
        for i, (n, m) in enumerate(zip(x.shape, scale.shape)):
            if i in contracting and (m == 0 or n % m):
                raise TypeError(
                    f"{name} contracting dim {i} of size {n} must be divisible by its scale's dim size {m}."
                )
            if i not in contracting and n != m:
                raise TypeError(f"{name} dim {i} of size {n} does not match scale dim size {m}.")
    shape = (
        [lhs.shape[i] for i in lb]
        + [d for i, d in enumerate(lhs.shape) if i not in (*lc, *lb)]
        + [d for i, d in enumerate(rhs.shape) if i not in (*rc, *rb)]
    )
    return ShapedArray(shape, preferred_element_type)


def _spread(x, scale):
    """An operand times its scales, in bfloat16, which holds such products."""
    shape, blocks = aval_of(x).shape, aval_of(scale).shape
    wide = [d for n, m in zip(shape, blocks) for d in (m, n // m)]
    scale = reshape(broadcast_in_dim(scale, wide, range(0, len(wide), 2)), shape)
    return mul(convert(x, dtypes.bfloat16), convert(scale, dtypes.bfloat16))


def _scaled_as_dot(lhs, rhs, lhs_scale, rhs_scale, *, dimension_numbers, preferred_element_type):
    return dot_general(
        _spread(lhs, lhs_scale),
        _spread(rhs, rhs_scale),
        dimension_numbers,
        preferred_element_type=preferred_element_type,
    )


def _scaled_batch(xs, dims, *, dimension_numbers, preferred_element_type):
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    xs = [batching.move_batch_dim_to(x, d, size, 0) for x, d in zip(xs, dims)]
    (lc, rc), (lb, rb) = (
        tuple(tuple(i + 1 for i in axes) for axes in pair) for pair in dimension_numbers
    )
    return scaled_dot_p.bind(
        *xs,
        dimension_numbers=((lc, rc), ((0, *lb), (0, *rb))),
        preferred_element_type=preferred_element_type,
    ), 0


scaled_dot_p = Primitive("scaled_dot")
scaled_dot_p.def_abstract_eval(_scaled_aval)
ad.not_differentiable(
    scaled_dot_p, "its operands are rounded; xlab.nn.scaled_dot_general has a derivative"
)
batching.primitive_batchers[scaled_dot_p] = _scaled_batch
mlir.register_text_lowering(scaled_dot_p, mlir.lower_fun(_scaled_as_dot, multiple_results=False))


def _cost(avals_in, avals_out, *, dimension_numbers, **_):
    (contracted, _), _ = dimension_numbers
    products = math.prod(avals_in[0].shape[d] for d in contracted)
    return costs.Cost(2 * avals_out[0].size * products, unit="matrix")


costs.register(_cost, scaled_dot_p)
