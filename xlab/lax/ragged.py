"""Products whose rows, or summands, belong to groups of different sizes: `ragged_dot`."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from xlab.backend.values import value_class
from xlab.config import idle_argument
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.ad import UndefinedPrimal, is_undefined_primal
from xlab.lax.arithmetic import sub
from xlab.lax.bits import bitwise_and
from xlab.lax.comparison import le, lt, select
from xlab.lax.convert import convert
from xlab.lax.creation import broadcasted_iota, full
from xlab.lax.cumulative import cumsum
from xlab.lax.dot import dot_general
from xlab.lax.precision import PrecisionLike, canonical_precision
from xlab.lax.shape import broadcast_in_dim, moveaxis, transpose

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]


@value_class
class RaggedDotDimensionNumbers:
    """Dimensions of a `ragged_dot_general`.

    Attributes:
        dot_dimension_numbers: as for `dot_general`.
        lhs_ragged_dimensions: the one dimension of the left operand that the groups divide.
        rhs_group_dimensions: the dimension of the right operand that counts groups, if rows are what is divided.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Any
    rhs_group_dimensions: Any

    def __post_init__(self):
        (lc, rc), (lb, rb) = self.dot_dimension_numbers
        ints = lambda axes: tuple(map(operator.index, axes))
        object.__setattr__(
            self, "dot_dimension_numbers", ((ints(lc), ints(rc)), (ints(lb), ints(rb)))
        )
        object.__setattr__(self, "lhs_ragged_dimensions", ints(self.lhs_ragged_dimensions))
        object.__setattr__(self, "rhs_group_dimensions", ints(self.rhs_group_dimensions))


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Rows in groups, each group times a matrix of its own.

    Args:
        lhs: `(m, k)`, rows of the first group first.
        rhs: `(g, k, n)`, a matrix for each group.
        group_sizes: `(g,)` integers; rows beyond their sum give zeros.
        precision, preferred_element_type: as for `dot_general`.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import lax
        >>> rhs = jnp.stack([jnp.eye(2), 2 * jnp.eye(2)])
        >>> print(lax.ragged_dot(jnp.ones((3, 2)), rhs, jnp.array([1, 2])))
        [[1. 1.]
         [2. 2.]
         [2. 2.]]
    """
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        numbers,
        precision,
        preferred_element_type,
        group_offset,
        out_sharding,
    )


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """`dot_general` with groups along one dimension of the left operand.

    Where that is a dimension of rows, each group has a matrix of its own in `rhs`. Where it is a contracted one, each group
    gives a product of its own, counted by a first dimension of the result. A batch dimension may have groups, to no effect.

    Args:
        lhs, rhs: operands.
        group_sizes: sizes of the groups; with leading dimensions for what stands before the ragged one, if they differ there.
        ragged_dot_dimension_numbers: see `RaggedDotDimensionNumbers`.
        precision, preferred_element_type: as for `dot_general`.
    """
    idle_argument(
        "ragged_dot_general",
        "out_sharding",
        out_sharding,
        "xlab.reshard brings the result to a sharding",
    )
    if group_offset is not None:
        raise TypeError(
            f"ragged_dot_general takes no group_offset, as in JAX: got {group_offset}. Slice rhs and "
            f"group_sizes instead"
        )
    if not isinstance(ragged_dot_dimension_numbers, RaggedDotDimensionNumbers):
        raise TypeError(
            f"ragged_dot_general takes its dimensions as RaggedDotDimensionNumbers, got {ragged_dot_dimension_numbers!r}"
        )
    preferred = (
        None
        if preferred_element_type is None
        else dtypes.canonicalize_dtype(preferred_element_type)
    )
    return ragged_dot_general_p.bind(
        lhs,
        rhs,
        group_sizes,
        ragged_dot_dimension_numbers=ragged_dot_dimension_numbers,
        precision=canonical_precision(precision),
        preferred_element_type=preferred,
        group_offset=None,
        out_sharding=None,
    )


# -- dimensions ---------------------------------------------------------------------------------------------


def _free(ndim, *used):
    taken = {i for axes in used for i in axes}
    return tuple(i for i in range(ndim) if i not in taken)


def _mode(numbers) -> str:
    """What the groups divide: rows ("free"), summands ("contracting"), or the batch."""
    (lc, _), (lb, _) = numbers.dot_dimension_numbers
    ragged = numbers.lhs_ragged_dimensions[0]
    return "contracting" if ragged in lc else "batch" if ragged in lb else "free"


def _before(numbers, ndim) -> tuple[int, ...]:
    """Dimensions of the left operand that group sizes may differ along: the batch, and those of its kind before the ragged."""
    (lc, _), (lb, _) = numbers.dot_dimension_numbers
    ragged = numbers.lhs_ragged_dimensions[0]
    mode = _mode(numbers)
    kind = {"contracting": lc, "batch": lb, "free": _free(ndim, lc, lb)}[mode]
    earlier = kind[: kind.index(ragged)]
    return earlier if mode == "batch" else (*lb, *earlier)


def _ragged_aval(
    lhs,
    rhs,
    group_sizes,
    *,
    ragged_dot_dimension_numbers,
    precision,
    preferred_element_type,
    group_offset,
    out_sharding,
):
    numbers = ragged_dot_dimension_numbers
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    name = "ragged_dot_general"
    if not dtypes.issubdtype(group_sizes.dtype, np.integer):
        raise TypeError(
            f"{name} requires that group_sizes.dtype is subtype of np.integer, got {group_sizes}."
        )
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise TypeError(
            f"{name} expects exactly one lhs ragged dimension, got {numbers.lhs_ragged_dimensions}."
        )
    ragged, groups = numbers.lhs_ragged_dimensions[0], numbers.rhs_group_dimensions
    if not 0 <= ragged < lhs.ndim:
        raise TypeError(
            f"{name} requires lhs ragged dimension numbers to be nonnegative and less than the number of axes of the "
            f"lhs value, got {ragged} for lhs of rank {lhs.ndim}."
        )
    mode = _mode(numbers)
    if mode == "free" and len(groups) != 1:
        raise TypeError(
            f"{name} requires exactly one rhs group dimension when lhs ragged dimension is noncontracting, got "
            f"{groups}."
        )
    if mode != "free" and groups:
        raise TypeError(
            f"{name} requires zero group dimensions in the rhs when lhs ragged dimension is contracting or batch, "
            f"got {groups}."
        )
    if any(not 0 <= d < rhs.ndim or d in rc or d in rb for d in groups):
        raise TypeError(
            f"{name} requires the rhs group dimension to be one of {rhs} that is neither contracted nor batch, got "
            f"{groups}"
        )
    for kind, a, b in (("contracting", lc, rc), ("batch", lb, rb)):
        if [lhs.shape[i] for i in a] != [rhs.shape[i] for i in b]:
            raise TypeError(
                f"dot_general requires {kind} dimensions to have the same shape, got "
                f"{tuple(lhs.shape[i] for i in a)} and {tuple(rhs.shape[i] for i in b)}."
            )
    if not group_sizes.ndim:
        raise TypeError(f"{name} expected group_sizes to be a vector, got {group_sizes}")
    n, prefix = group_sizes.shape[-1], tuple(lhs.shape[i] for i in _before(numbers, lhs.ndim))
    if group_sizes.ndim > 1 and group_sizes.shape != (*prefix, n):
        raise TypeError(
            f"expected group_sizes to have shape {(*prefix, n)}, or ({n},), got {group_sizes.shape}."
        )
    if groups and rhs.shape[groups[0]] != n:
        raise TypeError(f"expected rhs group dimension size to be {n}, got {rhs.shape[groups[0]]}.")
    dtype = preferred_element_type or dtypes.promote_types(lhs.dtype, rhs.dtype)
    shape = (
        [lhs.shape[i] for i in lb]
        + [lhs.shape[i] for i in _free(lhs.ndim, lc, lb)]
        + [rhs.shape[i] for i in _free(rhs.ndim, rc, rb, groups)]
    )
    return ShapedArray(([n] if mode == "contracting" else []) + shape, dtype)


# -- what it computes ---------------------------------------------------------------------------------------


def _in_groups(lhs, group_sizes, numbers):
    """The left operand once for each group, in front, with zeros where the others are."""
    aval, (n, ragged) = (
        aval_of(lhs),
        (aval_of(group_sizes).shape[-1], numbers.lhs_ragged_dimensions[0]),
    )
    before = _before(numbers, aval.ndim) if aval_of(group_sizes).ndim > 1 else ()
    order = sorted(range(len(before)), key=lambda i: before[i])
    ends = cumsum(group_sizes, axis=len(before))
    ends, sizes = (transpose(x, (len(before), *order)) for x in (ends, group_sizes))
    shape, places = (n, *aval.shape), (0, *(before[i] + 1 for i in order))
    at = broadcasted_iota(aval_of(group_sizes).dtype, shape, ragged + 1)
    starts, ends = (broadcast_in_dim(x, shape, places) for x in (sub(ends, sizes), ends))
    lhs = broadcast_in_dim(lhs, shape, range(1, len(shape)))
    return select(bitwise_and(le(starts, at), lt(at, ends)), lhs, full(shape, 0, aval.dtype))


def _ragged_as_dot(
    lhs,
    rhs,
    group_sizes,
    *,
    ragged_dot_dimension_numbers,
    precision,
    preferred_element_type,
    group_offset,
    out_sharding,
):
    numbers = ragged_dot_dimension_numbers
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    preferred = preferred_element_type
    if preferred is None and aval_of(lhs).dtype != aval_of(rhs).dtype:
        preferred = dtypes.promote_types(aval_of(lhs).dtype, aval_of(rhs).dtype)
    if (mode := _mode(numbers)) == "batch":
        return dot_general(lhs, rhs, ((lc, rc), (lb, rb)), precision, preferred)
    wide = _in_groups(lhs, group_sizes, numbers)
    lc, lb = tuple(i + 1 for i in lc), tuple(i + 1 for i in lb)
    if mode == "free":
        return dot_general(
            wide,
            rhs,
            (((0, *lc), (numbers.rhs_group_dimensions[0], *rc)), (lb, rb)),
            precision,
            preferred,
        )
    return moveaxis(dot_general(wide, rhs, ((lc, rc), (lb, rb)), precision, preferred), len(lb), 0)


# -- derivatives, batching ----------------------------------------------------------------------------------


def _ragged_transpose(
    ct,
    lhs,
    rhs,
    group_sizes,
    *,
    ragged_dot_dimension_numbers,
    precision,
    preferred_element_type,
    **rest,
):
    numbers = ragged_dot_dimension_numbers
    params = dict(rest, preferred_element_type=preferred_element_type)
    if _mode(numbers) != "free":
        program = pe.trace_to_closed_jaxpr(
            lambda x, y, g: [
                _ragged_as_dot(
                    x, y, g, ragged_dot_dimension_numbers=numbers, precision=precision, **params
                )
            ],
            [x.aval if is_undefined_primal(x) else aval_of(x) for x in (lhs, rhs, group_sizes)],
        )
        return ad.backward_pass(program.jaxpr, program.consts, [lhs, rhs, group_sizes], [ct])
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    group, ragged, n = numbers.rhs_group_dimensions[0], numbers.lhs_ragged_dimensions[0], len(lb)
    la, ra = (x.aval if type(x) is UndefinedPrimal else aval_of(x) for x in (lhs, rhs))
    lfree, rfree = _free(la.ndim, lc, lb), _free(ra.ndim, rc, rb, (group,))
    ct_left = tuple(range(n, n + len(lfree)))
    ct_right = tuple(range(n + len(lfree), n + len(lfree) + len(rfree)))
    place = n + lfree.index(ragged)
    batch = tuple(range(n))

    def back(out, aval, produced):
        out = transpose(out, np.argsort(produced).tolist())
        return out if aval_of(out).dtype == aval.dtype else convert(out, aval.dtype)

    if is_undefined_primal(lhs):
        inner = RaggedDotDimensionNumbers(((ct_right, rfree), (batch, rb)), (place,), (group,))
        out = ragged_dot_general_p.bind(
            ct, rhs, group_sizes, ragged_dot_dimension_numbers=inner, precision=precision, **params
        )
        order = sorted(range(len(rc)), key=lambda i: rc[i])
        return [back(out, la, [*lb, *lfree, *(lc[i] for i in order)]), None, None]
    inner = RaggedDotDimensionNumbers(((lfree, ct_left), (lb, batch)), (ragged,), ())
    out = ragged_dot_general_p.bind(
        lhs, ct, group_sizes, ragged_dot_dimension_numbers=inner, precision=precision, **params
    )
    order = sorted(range(len(lc)), key=lambda i: lc[i])
    return [None, back(out, ra, [group, *rb, *(rc[i] for i in order), *rfree]), None]


def _ragged_batch(xs, dims, *, ragged_dot_dimension_numbers, **params):
    numbers = ragged_dot_dimension_numbers
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    lhs, rhs, group_sizes = xs
    n = aval_of(lhs).ndim - (dims[0] is not None)
    if dims[1] is None and dims[2] is None and _mode(numbers) == "free":
        # More rows: a dimension behind all others, where no group size can depend on it.
        out = ragged_dot_general_p.bind(
            batching.moveaxis(lhs, dims[0], n),
            rhs,
            group_sizes,
            ragged_dot_dimension_numbers=numbers,
            **params,
        )
        return out, n - len(lc)
    lhs, rhs = (
        batching.move_batch_dim_to(lhs, dims[0], size, 0),
        batching.move_batch_dim_to(rhs, dims[1], size, 0),
    )
    group_sizes = batching.move_batch_dim_to(group_sizes, dims[2], size, 0)
    prefix = tuple(aval_of(lhs).shape[i + 1] for i in _before(numbers, n))
    if aval_of(group_sizes).ndim == 2 and prefix:
        groups = aval_of(group_sizes).shape[1]
        group_sizes = broadcast_in_dim(group_sizes, (size, *prefix, groups), (0, len(prefix) + 1))

    def up(axes):
        return tuple(i + 1 for i in axes)

    inner = RaggedDotDimensionNumbers(
        ((up(lc), up(rc)), ((0, *up(lb)), (0, *up(rb)))),
        up(numbers.lhs_ragged_dimensions),
        up(numbers.rhs_group_dimensions),
    )
    out = ragged_dot_general_p.bind(
        lhs, rhs, group_sizes, ragged_dot_dimension_numbers=inner, **params
    )
    return out, int(_mode(numbers) == "contracting")


ragged_dot_general_p = Primitive("ragged_dot_general")
ragged_dot_general_p.def_abstract_eval(_ragged_aval)
ad.defjvp(
    ragged_dot_general_p,
    lambda t, x, y, g, **params: ragged_dot_general_p.bind(t, y, g, **params),
    lambda t, x, y, g, **params: ragged_dot_general_p.bind(x, t, g, **params),
    None,
)
ad.primitive_transposes[ragged_dot_general_p] = _ragged_transpose
batching.primitive_batchers[ragged_dot_general_p] = _ragged_batch
mlir.register_text_lowering(
    ragged_dot_general_p, mlir.lower_fun(_ragged_as_dot, multiple_results=False)
)


def _cost(avals_in, avals_out, *, ragged_dot_dimension_numbers, **_):
    (contracted, _), _ = ragged_dot_dimension_numbers.dot_dimension_numbers
    products = math.prod(avals_in[0].shape[d] for d in contracted)
    return costs.Cost(2 * avals_out[0].size * products, unit="matrix")


costs.register(_cost, ragged_dot_general_p)
