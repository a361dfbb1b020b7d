"""Products: matrices, tensors, vectors. All but `outer`, `kron` and `cross` are one `dot_general`."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlab.lax.convert import convert
from xlab.lax.precision import PrecisionLike
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import cast_operand, check, kinds_of, ndim_of, promoted, shape_of
from xlab.numpy.shape import moveaxis, ravel
from xlab.sharding import PartitionSpec
from xlab.sharding.typed import out_sharding as canonical_out_sharding

__all__ = [
    "cross",
    "dot",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]


def contract(name, a, b, numbers, precision=None, preferred=None, out_sharding=None):
    """`dot_general` of operands that may differ in dtype, with the promoted dtype as the result's."""
    a, b = check(name, a, b)
    dtype, weak = dtypes.result_of(kinds_of((a, b)))
    if preferred is None:
        out = dtype
    else:
        out, weak = dtypes.check_user_dtype(preferred, name), False
    a, b = (x if _fits(aval_of(x).dtype, dtype, out) else cast_operand(x, dtype) for x in (a, b))
    return convert(
        lax.dot_general(
            as_array(a),
            as_array(b),
            numbers,
            precision,
            preferred_element_type=out,
            out_sharding=out_sharding,
        ),
        out,
        weak,
    )


def _fits(dtype, common, out) -> bool:
    """Whether the product itself can take an operand of a dtype, which it widens to that of the result."""
    if dtypes.issubdtype(dtype, np.integer) and dtype.itemsize > out.itemsize:
        return False
    return dtype == common or (dtype != np.bool_ and not dtypes.is_extended(dtype))


@jit_when_eager(static=("precision", "preferred_element_type", "out_sharding"))
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Matrix product over the last two axes, the others broadcast; vectors are rows on the left, columns on the right.

    Args:
        a, b: operands with at least one dimension.
        precision: see `xlab.lax.Precision`.
        preferred_element_type: dtype to accumulate in and return.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.matmul(jnp.ones((5, 2, 3)), jnp.ones((3, 4))).shape
        (5, 2, 4)
    """
    a, b = check("matmul", a, b)
    for i, x in enumerate((a, b)):
        if not ndim_of(x):
            raise ValueError(
                f"matmul input operand {i} must have ndim at least 1, but it has ndim 0; use multiply for scalars"
            )
    a, b = as_array(a), as_array(b)
    n, m = a.ndim, b.ndim
    ra, rb = min(n, 2), min(m, 2)
    batch_a, batch_b = a.shape[: n - ra], b.shape[: m - rb]
    if a.shape[n - 1] != b.shape[m - rb]:
        raise TypeError(
            f"matmul: the last dimension of {a.shape} and the {'first' if m == 1 else 'second to last'} of "
            f"{b.shape} must be equal, got {a.shape[n - 1]} and {b.shape[m - rb]}"
        )
    rank = max(len(batch_a), len(batch_b))
    wide_a, wide_b = (1,) * (rank - len(batch_a)) + batch_a, (1,) * (rank - len(batch_b)) + batch_b
    lax.broadcast_shapes(wide_a, wide_b)
    # A batch axis both have is a batch dimension; one that only one has stays among its free dimensions.
    drop_a, drop_b, shared, order_a, order_b = [], [], [], [], []
    for i, (p, q) in enumerate(zip(wide_a, wide_b)):
        at_a, at_b = i - (rank - len(batch_a)), i - (rank - len(batch_b))
        if p == q and at_a >= 0 and at_b >= 0:
            shared.append((i, at_a, at_b))
        elif p == 1 and at_b >= 0:
            if at_a >= 0:
                drop_a.append(at_a)
            order_b.append(i)
        else:
            order_a.append(i)
            if at_b >= 0:
                drop_b.append(at_b)
    a, b = lax.squeeze(a, drop_a), lax.squeeze(b, drop_b)
    shift_a, shift_b = (
        (lambda i: i - sum(d < i for d in drop_a)),
        (lambda i: i - sum(d < i for d in drop_b)),
    )
    numbers = (
        ((a.ndim - 1,), (b.ndim - rb,)),
        (tuple(shift_a(i) for _, i, _ in shared), tuple(shift_b(i) for _, _, i in shared)),
    )
    # Result: shared, a's own batch, a's row, b's own batch, b's column. Into the order of the batch, then rows, columns.
    places = [
        *(i for i, _, _ in shared),
        *order_a,
        *([rank] if ra == 2 else []),
        *order_b,
        *([rank + 1] if rb == 2 else []),
    ]
    if out_sharding is not None:
        asked = canonical_out_sharding(out_sharding, "matmul", len(places))
        at = {place: i for i, place in enumerate(sorted(places))}
        out_sharding = asked.update(spec=PartitionSpec(*(asked.spec[at[p]] for p in places)))
    out = contract("matmul", a, b, numbers, precision, preferred_element_type, out_sharding)
    return lax.transpose(out, sorted(range(len(places)), key=places.__getitem__))


@jit_when_eager(static=("precision", "preferred_element_type", "out_sharding"))
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Sum product over the last axis of `a` and the second to last of `b`; the product of scalars.

    Args:
        a, b: arrays whose contracted dimensions agree.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.dot(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
        Array(11., dtype=float32)
    """
    a, b = check("dot", a, b)
    n, m = ndim_of(a), ndim_of(b)
    if not n or not m:
        axes = ((), ())
    else:
        axes = ((n - 1,), (max(0, m - 2),))
        if shape_of(a)[n - 1] != shape_of(b)[axes[1][0]]:
            raise TypeError(
                f"dot requires contracting dimensions to have the same shape, got {shape_of(a)} and {shape_of(b)}"
            )
    return contract("dot", a, b, (axes, ((), ())), precision, preferred_element_type, out_sharding)


@jit_when_eager(static=("precision", "preferred_element_type"))
def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum product over the last axes.

    Args:
        a, b: arrays whose contracted dimensions agree.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.inner(jnp.ones((2, 3)), jnp.ones((4, 3))).shape
        (2, 4)
    """
    a, b = check("inner", a, b)
    axes = ((ndim_of(a) - 1,), (ndim_of(b) - 1,)) if ndim_of(a) and ndim_of(b) else ((), ())
    return contract("inner", a, b, (axes, ((), ())), precision, preferred_element_type)


@jit_when_eager
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Product of every element of one vector with every one of another.

    Args:
        a, b: arrays, flattened.
        out: has to be None: arrays are not written to.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
        Array([[3, 4],
               [6, 8]], dtype=int32)
    """
    from xlab.numpy.ufuncs import multiply

    if out is not None:
        raise NotImplementedError(
            "outer: arrays are not changed in place, so out= is not supported; use the result"
        )
    a, b = promoted("outer", a, b)
    return multiply(lax.expand_dims(ravel(a), (1,)), lax.expand_dims(ravel(b), (0,)))


@jit_when_eager(static=("precision", "preferred_element_type"))
def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum product of the flattened operands, the first conjugated.

    Args:
        a, b: arrays whose contracted dimensions agree.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.vdot(jnp.ones((2, 2)), jnp.ones((2, 2)))
        Array(4., dtype=float32)
    """
    from xlab.numpy.logic import conjugate

    a, b = check("vdot", a, b)
    return dot(
        ravel(conjugate(a)),
        ravel(b),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


@jit_when_eager(static=("axis", "precision", "preferred_element_type"))
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum product along an axis, the others broadcast; the first operand is conjugated.

    Args:
        x1, x2: arrays that broadcast but for the axis; `x1` is conjugated.
        axis: the axis to contract.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.vecdot(jnp.ones((2, 3)), jnp.ones(3))
        Array([3., 3.], dtype=float32)
    """
    from xlab.numpy.logic import conjugate

    x1, x2 = check("vecdot", x1, x2)
    sizes = [shape_of(x)[canonical_axis(axis, ndim_of(x))] for x in (x1, x2)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"vecdot requires the sizes along axis {axis} to be equal, got {shape_of(x1)} and {shape_of(x2)}"
        )
    x1, x2 = moveaxis(conjugate(x1), axis, -1), moveaxis(x2, axis, -1)
    rows, columns = lax.expand_dims(x1, (x1.ndim - 1,)), lax.expand_dims(x2, (x2.ndim,))
    out = matmul(rows, columns, precision=precision, preferred_element_type=preferred_element_type)
    return lax.squeeze(out, (out.ndim - 2, out.ndim - 1))


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrices times vectors, over the leading axes.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.matvec(jnp.ones((2, 3)), jnp.ones((5, 3))).shape
        (5, 2)
    """
    x1, x2 = check("matvec", x1, x2)
    _check_cores("matvec", "nm", shape_of(x1), "m", shape_of(x2))
    out = matmul(x1, lax.expand_dims(as_array(x2), (ndim_of(x2),)))
    return lax.squeeze(out, (out.ndim - 1,))


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Conjugated vectors times matrices, over the leading axes.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.vecmat(jnp.ones((5, 2)), jnp.ones((2, 3))).shape
        (5, 3)
    """
    from xlab.numpy.logic import conjugate

    x1, x2 = check("vecmat", x1, x2)
    _check_cores("vecmat", "n", shape_of(x1), "nm", shape_of(x2))
    out = matmul(lax.expand_dims(conjugate(x1), (ndim_of(x1) - 1,)), x2)
    return lax.squeeze(out, (out.ndim - 2,))


def _check_cores(name, core1, shape1, core2, shape2):
    """Refuses operands without their core dimensions, which a letter each stands for, or whose common one differs."""
    for i, (core, shape) in enumerate(((core1, shape1), (core2, shape2))):
        if len(shape) < len(core):
            raise ValueError(
                f"{name}: operand {i} needs at least {len(core)} dimension(s), its last being ({', '.join(core)}); got shape {shape}"
            )
    sizes1, sizes2 = (
        dict(zip(core, shape[-len(core) :])) for core, shape in ((core1, shape1), (core2, shape2))
    )
    for letter in sizes1.keys() & sizes2.keys():
        if sizes1[letter] != sizes2[letter]:
            raise ValueError(
                f"{name} of ({', '.join(core1)}) and ({', '.join(core2)}) needs one size of {letter}, got {sizes1[letter]} in "
                f"{shape1} and {sizes2[letter]} in {shape2}"
            )


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[int] | Sequence[Sequence[int]] = 2,
    *,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Sum product over pairs of axes: the last `axes` of `a` with the first of `b`, or the listed ones.

    Args:
        a, b: arrays.
        axes: how many last axes of `a` meet the first ones of `b`, or the axes of each.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.tensordot(jnp.ones((2, 3, 4)), jnp.ones((4, 3)), axes=((1, 2), (1, 0))).shape
        (2,)
    """
    a, b = check("tensordot", a, b)
    n, m = ndim_of(a), ndim_of(b)
    if isinstance(axes, (int, np.integer)):
        k = operator.index(axes)
        if k > min(n, m):
            raise TypeError(
                f"tensordot cannot contract {k} axes of operands of {n} and {m} dimensions"
            )
        ca, cb = tuple(range(n - k, n)), tuple(range(k))
    elif isinstance(axes, (tuple, list)) and len(axes) == 2:
        ca, cb = ((x,) if isinstance(x, (int, np.integer)) else tuple(x) for x in axes)
        if len(ca) != len(cb):
            raise TypeError(
                f"tensordot needs axes lists of equal length, got {axes[0]} and {axes[1]}"
            )
        ca, cb = tuple(canonical_axis(i, n) for i in ca), tuple(canonical_axis(i, m) for i in cb)
        if len(set(ca)) < len(ca) or len(set(cb)) < len(cb):
            raise TypeError(
                f"tensordot contracts an axis once: the axes of each operand must differ, got {axes[0]} and {axes[1]}"
            )
    else:
        raise TypeError(
            f"tensordot axes must be an int or a pair of axes (or of lists of them), got {axes!r}"
        )
    return _tensordot(
        a,
        b,
        numbers=((ca, cb), ((), ())),
        precision=precision,
        preferred=preferred_element_type,
        out_sharding=out_sharding,
    )


@jit_when_eager(static=("numbers", "precision", "preferred", "out_sharding"))
def _tensordot(a, b, numbers, precision, preferred, out_sharding):
    return contract("tensordot", a, b, numbers, precision, preferred, out_sharding)


@jit_when_eager
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Kronecker product: `a` with every element replaced by itself times `b`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.kron(jnp.eye(2), jnp.ones((1, 2))).shape
        (2, 4)
    """
    from xlab.numpy.ufuncs import multiply

    a, b = promoted("kron", a, b)
    n = max(ndim_of(a), ndim_of(b))
    sa, sb = (1,) * (n - ndim_of(a)) + shape_of(a), (1,) * (n - ndim_of(b)) + shape_of(b)
    a = lax.reshape(as_array(a), [s for d in sa for s in (d, 1)])
    b = lax.reshape(as_array(b), [s for d in sb for s in (1, d)])
    return lax.reshape(multiply(a, b), [p * q for p, q in zip(sa, sb)])


@jit_when_eager(static=("axisa", "axisb", "axisc", "axis"))
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Vector product of vectors of two or three components.

    Args:
        a, b: vectors of 2 or 3 components.
        axisa, axisb, axisc: the axis of the components in `a`, in `b`, and in the result.
        axis: the axis of the components.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
        Array([0, 0, 1], dtype=int32)
    """
    from xlab.numpy.joining import stack
    from xlab.numpy.ufuncs import multiply, negative, subtract

    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promoted("cross", a, b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError(
            f"Dimension must be either 2 or 3 for cross product, got {a.shape} and {b.shape}"
        )
    x, y = (
        [lax.index_in_dim(v, i, v.ndim - 1, keepdims=False) for i in range(v.shape[-1])]
        for v in (a, b)
    )
    third = subtract(multiply(x[0], y[1]), multiply(x[1], y[0]))
    if len(x) == len(y) == 2:
        return third
    if len(x) == 3 and len(y) == 3:
        first = subtract(multiply(x[1], y[2]), multiply(x[2], y[1]))
        second = subtract(multiply(x[2], y[0]), multiply(x[0], y[2]))
    elif len(x) == 3:
        first, second = negative(multiply(x[2], y[1])), multiply(x[2], y[0])
    else:
        first, second = multiply(x[1], y[2]), negative(multiply(x[0], y[2]))
    return stack([first, second, third], axis=axisc if axisc >= 0 else first.ndim + 1 + axisc)
