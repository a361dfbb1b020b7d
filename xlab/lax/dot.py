"""Products: `dot_general` and what is written through it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of, explicit_types
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import is_undefined_primal
from xlab.lax import sharding_in_types
from xlab.lax.convert import convert
from xlab.lax.precision import (
    DotDimensionNumbers,
    PrecisionLike,
    canonical_precision,
    flipped,
    precision_text,
)
from xlab.lax.precision import Precision as Precision
from xlab.lax.shape import canonical_axes, transpose
from xlab.sharding import NamedSharding, PartitionSpec
from xlab.sharding.typed import out_sharding as canonical_out_sharding

__all__ = ["batch_matmul", "dot", "dot_general"]


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Generalized product: contract and batch any dimensions.

    Args:
        lhs, rhs: operands. Of two types the wider is that of the result: floats before integers, then the one that
            reaches further.
        dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`.
        precision: see `Precision`.
        preferred_element_type: dtype to accumulate and return.
        out_sharding: how the result should lie over Explicit mesh axes, where the operands leave that open.

    Returns:
        Batch dimensions, then the remaining dimensions of `lhs`, then those of `rhs`.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import lax
        >>> lax.dot_general(jnp.ones((2, 3)), jnp.ones((3, 4)), (((1,), (0,)), ((), ()))).shape
        (2, 4)
    """
    (lc, rc), (lb, rb) = dimension_numbers
    la, ra = aval_of(lhs), aval_of(rhs)
    numbers = (
        (canonical_axes(lc, la.ndim), canonical_axes(rc, ra.ndim)),
        (canonical_axes(lb, la.ndim), canonical_axes(rb, ra.ndim)),
    )
    preferred = (
        None
        if preferred_element_type is None
        else dtypes.canonicalize_dtype(preferred_element_type)
    )
    rank = la.ndim + ra.ndim - 2 * len(numbers[0][0]) - len(numbers[1][0])
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=numbers,
        precision=canonical_precision(precision),
        preferred_element_type=preferred,
        out_sharding=canonical_out_sharding(out_sharding, "dot_general", rank),
    )


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Products of vectors and matrices: contracts the last dimension of `lhs` with the first of `rhs`.

    With `dimension_numbers` it is `dot_general`.

    Args:
        lhs, rhs: the operands.
        dimension_numbers: contracting and batch dimensions, as for `dot_general`; by default the
            last of `lhs` meets the last but one of `rhs`.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import lax
        >>> lax.dot(jnp.ones((2, 3)), jnp.ones(3))
        Array([3., 3.], dtype=float32)
    """
    if dimension_numbers is None:
        if not np.ndim(lhs) or not np.ndim(rhs):
            raise ValueError(
                f"lax.dot: dimension_numbers must be specified when not performing simple un-batched matrix-matrix, "
                f"matrix-vector, or vector-vector products; got {lhs!r} and {rhs!r}"
            )
        la, ra = aval_of(lhs), aval_of(rhs)
        if not (1 <= la.ndim <= 2 and 1 <= ra.ndim <= 2 and la.shape[-1] == ra.shape[0]):
            raise ValueError(
                f"lax.dot: dimension_numbers must be specified when not performing simple un-batched "
                f"matrix-matrix, matrix-vector, or vector-vector products; got lhs_shape={la.shape} "
                f"rhs_shape={ra.shape}"
            )
        dimension_numbers = (((la.ndim - 1,), (0,)), ((), ()))
    return dot_general(
        lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding
    )


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike | None = None) -> Array:
    """Matrix products over equal leading dimensions.

    Args:
        lhs, rhs: stacks of matrices of equal batch dimensions.
        precision: how exact products are, as in `lax.dot`.
    """
    n = aval_of(lhs).ndim
    if min(n, aval_of(rhs).ndim) < 2:
        raise ValueError(
            f"batch_matmul takes matrices, arrays of two dimensions or more; got {aval_of(lhs)} and {aval_of(rhs)}"
        )
    batch = tuple(range(n - 2))
    return dot_general(lhs, rhs, (((n - 1,), (n - 2,)), (batch, batch)), precision)


def _remaining(ndim, *used):
    taken = {i for group in used for i in group}
    return [i for i in range(ndim) if i not in taken]


def _range_of(dtype) -> tuple:
    """What orders types by the numbers they hold: the kind first, then how far they reach."""
    if dtype == np.bool_:
        return (0,)
    if dtypes.issubdtype(dtype, np.integer):
        return 1, dtypes.iinfo(dtype).bits, dtypes.issubdtype(dtype, np.signedinteger)
    return 2 + dtypes.issubdtype(dtype, np.complexfloating), float(dtypes.finfo(dtype).max)


def _type_of_both(a, b):
    """The wider of two types, in which their product is; None where both reach as far."""
    if a == b:
        return a
    first, second = _range_of(a), _range_of(b)
    return None if first == second else a if first > second else b


def _check_not_narrower(preferred, dtype) -> None:
    """Integers would wrap in fewer bits, and complex numbers need the bits of their parts."""
    if dtype is None or dtype == np.bool_ or dtypes.issubdtype(dtype, np.floating):
        return
    bits = [
        1
        if d == np.bool_
        else (dtypes.iinfo if dtypes.issubdtype(d, np.integer) else dtypes.finfo)(d).bits
        for d in (preferred, dtype)
    ]
    if bits[0] < bits[1]:
        raise TypeError(
            f"`preferred_element_type` must not be narrower than the original type, got preferred_element_type of "
            f"{dtypes.name(preferred)} for result type of {dtypes.name(dtype)}."
        )


def _dot_aval(lhs, rhs, *, dimension_numbers, precision, preferred_element_type, out_sharding):
    (lc, rc), (lb, rb) = dimension_numbers
    if len(lc) != len(rc) or len(lb) != len(rb):
        raise TypeError(
            f"dot_general needs equally many contracting and batch dimensions on both sides, got "
            f"{dimension_numbers}"
        )
    for kind, a, b in (("contracting", lc, rc), ("batch", lb, rb)):
        sizes = [lhs.shape[i] for i in a], [rhs.shape[i] for i in b]
        if sizes[0] != sizes[1]:
            raise TypeError(
                f"dot_general requires {kind} dimensions to have equal sizes, got {sizes[0]} and {sizes[1]} for "
                f"{lhs} and {rhs}"
            )
    dtype = _type_of_both(lhs.dtype, rhs.dtype)
    if preferred_element_type is not None:
        _check_not_narrower(preferred_element_type, dtype)
    elif dtype is None:
        raise TypeError(
            f"lax.dot_general: neither of {dtypes.name(lhs.dtype)} and {dtypes.name(rhs.dtype)} is the wider type; convert "
            f"one, or give preferred_element_type"
        )
    shape = (
        [lhs.shape[i] for i in lb]
        + [lhs.shape[i] for i in _remaining(lhs.ndim, lc, lb)]
        + [rhs.shape[i] for i in _remaining(rhs.ndim, rc, rb)]
    )
    return ShapedArray(
        shape,
        preferred_element_type or dtype,
        lhs.weak_type and rhs.weak_type,
    )


def _dot_transpose(
    ct, lhs, rhs, *, dimension_numbers, precision, preferred_element_type, out_sharding
):
    (lc, rc), (lb, rb) = dimension_numbers
    ad.check_one_side("dot_general", lhs, rhs)
    if is_undefined_primal(lhs):
        return [
            _transpose_left(ct, rhs, lhs.aval, lc, rc, lb, rb, precision, preferred_element_type),
            None,
        ]
    return [
        None,
        _transpose_left(
            ct, lhs, rhs.aval, rc, lc, rb, lb, flipped(precision), preferred_element_type, swap=True
        ),
    ]


def _transpose_left(ct, other, aval, mc, oc, mb, ob, precision, preferred, swap=False):
    """The cotangent of one operand (contracting mc, batch mb): ct and the other multiplied in the order that leaves least to move."""
    n_batch = len(mb)
    mine_free = _remaining(aval.ndim, mc, mb)
    other_free = _remaining(aval_of(other).ndim, oc, ob)
    # ct dimensions: batch, lhs free, rhs free.
    second = n_batch + (0 if swap else len(mine_free))
    numbers = (
        (tuple(range(second, second + len(other_free))), tuple(other_free)),
        (tuple(range(n_batch)), tuple(ob)),
    )
    # The other's remaining dimensions are its contracting ones, in increasing order.
    summed = [mc[i] for i in sorted(range(len(oc)), key=lambda i: oc[i])]
    factors, produced = (ct, other), [*mb, *mine_free, *summed]
    turned = [*mb, *summed, *mine_free]
    if inversions(turned) < inversions(produced):
        factors, produced = (other, ct), turned
        numbers, precision = tuple((b, a) for a, b in numbers), flipped(precision)
    out = dot_general_p.bind(
        *factors,
        dimension_numbers=numbers,
        precision=precision,
        preferred_element_type=preferred,
        out_sharding=_sharding_like(aval, produced, ct, other) if explicit_types.in_use else None,
    )
    out = transpose(out, tuple(int(i) for i in np.argsort(produced)))
    return convert(out, aval.dtype) if aval_of(out).dtype != aval.dtype else out


def inversions(places: Sequence[int]) -> int:
    """How many pairs of dimensions stand in the wrong order: none where nothing has to be transposed."""
    return sum(p > q for i, p in enumerate(places) for q in places[i + 1 :])


def _sharding_like(aval, produced, *operands):
    """The `out_sharding` of a product whose dimension `i` is sharded as dimension `produced[i]` of a type."""
    lies = next(
        (
            like
            for like in (sharding_in_types.like(aval, aval_of(x)) for x in operands)
            if like is not None
        ),
        None,
    )
    return lies and NamedSharding(lies.mesh, PartitionSpec(*(lies.spec[d] for d in produced)))


def _dot_batch(xs, dims, *, dimension_numbers, precision, preferred_element_type, out_sharding):
    lhs, rhs = xs
    dl, dr = dims
    (lc, rc), (lb, rb) = dimension_numbers

    def shift(axes, d):
        return tuple(a + (d is not None and a >= d) for a in axes)

    lc, lb, rc, rb = shift(lc, dl), shift(lb, dl), shift(rc, dr), shift(rb, dr)
    if dl is not None and dr is not None:
        lb, rb = (dl, *lb), (dr, *rb)
        out_dim = 0
    elif dl is not None:
        out_dim = len(lb) + _remaining(aval_of(lhs).ndim, lc, lb).index(dl)
    else:
        out_dim = (
            len(lb)
            + len(_remaining(aval_of(lhs).ndim, lc, lb))
            + _remaining(aval_of(rhs).ndim, rc, rb).index(dr)
        )
    if out_sharding is not None:
        x, d = (lhs, dl) if dl is not None else (rhs, dr)
        spec = list(out_sharding.spec)
        spec.insert(out_dim, aval_of(x).sharding.spec[d])
        out_sharding = NamedSharding(out_sharding.mesh, PartitionSpec(*spec))
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=((lc, rc), (lb, rb)),
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    ), out_dim


def _dot_lowering(
    ctx, lhs, rhs, *, dimension_numbers, precision, preferred_element_type, out_sharding
):
    (lc, rc), (lb, rb) = dimension_numbers
    a, b = ctx.avals_in
    out = ctx.avals_out[0]
    if a.dtype != b.dtype:
        wide = out.dtype
        if a.dtype != wide:
            lhs = ctx.op(
                f"stablehlo.convert {lhs} : ({mlir.tensor_type(a)}) -> {mlir.tensor_type(a.update(dtype=wide))}"
            )
            a = a.update(dtype=wide)
        if b.dtype != wide:
            rhs = ctx.op(
                f"stablehlo.convert {rhs} : ({mlir.tensor_type(b)}) -> {mlir.tensor_type(b.update(dtype=wide))}"
            )
            b = b.update(dtype=wide)
    dims_text = mlir.values.dims_text
    batch = f", batching_dims = {dims_text(lb)} x {dims_text(rb)}" if lb else ""
    exactness = precision_text(precision, ctx.platform, (a.dtype, b.dtype), out.dtype)
    return ctx.op(
        f"stablehlo.dot_general {lhs}, {rhs}{batch}, contracting_dims = {dims_text(lc)} x {dims_text(rc)}"
        f"{exactness} : ({mlir.tensor_type(a)}, {mlir.tensor_type(b)}) -> {mlir.tensor_type(out)}"
    )


dot_general_p = Primitive("dot_general")
dot_general_p.linear_in_unreduced = ()
dot_general_p.def_abstract_eval(_dot_aval)
ad.defjvp(
    dot_general_p,
    lambda t, x, y, **params: dot_general_p.bind(t, y, **params),
    lambda t, x, y, **params: dot_general_p.bind(x, t, **params),
)
ad.primitive_jvps[dot_general_p].form = "bilinear"
ad.primitive_transposes[dot_general_p] = _dot_transpose
sharding_rules[dot_general_p] = sharding_in_types.dot
batching.primitive_batchers[dot_general_p] = _dot_batch
mlir.register_text_lowering(dot_general_p, _dot_lowering)


def _cost(avals_in, avals_out, *, dimension_numbers, **_):
    (contracted, _), _ = dimension_numbers
    products = math.prod(avals_in[0].shape[d] for d in contracted)
    return costs.Cost(2 * avals_out[0].size * products, unit="matrix")


costs.register(_cost, dot_general_p)
