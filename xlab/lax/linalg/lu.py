"""`lu`: triangular factors by elimination with row exchanges, and solutions of systems from them."""

from __future__ import annotations

import numpy as np

from xlab.core.avals import aval_of
from xlab.core.dims import min_dim
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.lax.arithmetic import add
from xlab.lax.comparison import eq, select
from xlab.lax.control.linear_solve import custom_linear_solve
from xlab.lax.convert import stop_gradient
from xlab.lax.creation import broadcasted_iota, full_like
from xlab.lax.gather import GatherDimensionNumbers, GatherScatterMode, gather
from xlab.lax.linalg.common import (
    INT32,
    broadcast_over_rows,
    call,
    define,
    eye,
    lapack_ok,
    lower_rule,
    nan_unless,
    product,
    repeat,
    stacked,
    tril,
    triu,
    zeros,
)
from xlab.lax.linalg.triangular import triangular_solve
from xlab.lax.reductions import reduce_sum
from xlab.lax.shape import expand_dims, pad
from xlab.lax.slicing import slice
from xlab.lax.sort import argsort

__all__ = ["lu", "lu_p", "lu_pivots_to_permutation", "lu_pivots_to_permutation_p"]


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """Elimination with row exchanges: `x[permutation] == l @ u`.

    Returns:
        Both factors in one array (the ones on the diagonal of `l` are left out), the exchanges as LAPACK writes them (row i
        with row pivots[i], one after the other), and the permutation they make.

    Source:
        Its derivative: de Hoog, Anderssen and Lukas (2011), Differentiation of matrix functionals
            using triangular factorization.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> factors, pivots, permutation = lax.linalg.lu(np.float32([[1, 2], [4, 4]]))
        >>> print(factors, permutation)
        [[4.   4.  ]
         [0.25 1.  ]] [1 0]
    """
    return tuple(lu_p.bind(x))


def _lu_shapes(x, *, dtype):
    m, n = x
    return [(x, dtype), ((min_dim(m, n),), INT32), ((m,), INT32)]


def _lu_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    out, pivots, permutation = lu_p.bind(x)
    if type(dx) is Zero:
        return [out, pivots, permutation], [Zero.of(o) for o in (out, pivots, permutation)]
    *batch, m, n = aval_of(out).shape
    k, dtype = min_dim(m, n), aval_of(out).dtype
    # Both factors are made square by an identity, so that they have inverses.
    l = _grown(tril(_corner(out, m, k), -1), 0, m - k)
    l = add(l, stacked(eye(m, dtype), batch))
    u = _grown(triu(_corner(out, k, n)), n - k, 0)
    if n > k:
        u = add(u, stacked(pad(eye(n - k, dtype), dtype.type(0), ((k, 0, 0), (k, 0, 0))), batch))
    # dx = dl u + l du gives l⁻¹ dx u⁻¹ = l⁻¹ dl + du u⁻¹: strictly lower and upper triangular.
    inner = triangular_solve(
        l, take_rows(dx, permutation), left_side=True, lower=True, unit_diagonal=True
    )
    inner = triangular_solve(u, inner)
    return (
        [out, pivots, permutation],
        [
            add(product(l, tril(inner, -1)), product(triu(inner), u)),
            Zero.of(pivots),
            Zero.of(permutation),
        ],
    )


def _corner(x, rows: int, columns: int):
    shape = aval_of(x).shape
    if shape[-2:] == (rows, columns):
        return x
    return slice(x, (0,) * len(shape), (*shape[:-2], rows, columns))


def _grown(x, rows: int, columns: int):
    """The matrix with rows and columns of zeros at its end."""
    aval = aval_of(x)
    if not rows and not columns:
        return x
    return pad(
        x, aval.dtype.type(0), (*[(0, 0, 0)] * (aval.ndim - 2), (0, rows, 0), (0, columns, 0))
    )


def take_rows(x, permutation):
    """The rows of each matrix in the order of its permutation."""
    shape = aval_of(x).shape
    n = len(shape)
    batch = tuple(range(n - 2))
    numbers = GatherDimensionNumbers((n - 1,), (n - 2,), (n - 2,), batch, batch)
    sizes = (*(min_dim(d, 1) for d in shape[:-1]), shape[-1])
    return gather(
        x,
        expand_dims(permutation, (n - 1,)),
        numbers,
        sizes,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def _lu_lowering(ctx, x):
    aval, (out_aval, pivots_aval, permutation_aval) = ctx.avals_in[0], ctx.avals_out
    batch = aval.shape[:-2]
    if not aval.size:
        order = ctx.op(f"stablehlo.iota dim = {len(batch)} : {mlir.tensor_type(permutation_aval)}")
        return [x, zeros(ctx, pivots_aval), order]
    out, pivots, info = call(
        ctx,
        "getrf",
        [x],
        [aval],
        [out_aval, pivots_aval, pivots_aval.update(shape=batch)],
        len(batch),
        aliases=[(0, 0)],
    )
    # LAPACK counts from one. A singular matrix has factors too: only bad arguments fail.
    one = ctx.fill(1, pivots_aval)
    pivots = ctx.op(f"stablehlo.subtract {pivots}, {one} : {mlir.tensor_type(pivots_aval)}")
    out = nan_unless(ctx, lapack_ok(ctx, info, batch, "GE"), batch, out, out_aval)
    (permutation,) = lower_rule(
        ctx, _permutation, [pivots], [pivots_aval], permutation_size=aval.shape[-2]
    )
    return [out, pivots, permutation]


lu_p = define("lu", _lu_shapes, (2,), multiple_results=True)
ad.primitive_jvps[lu_p] = _lu_jvp
mlir.register_text_lowering(lu_p, _lu_lowering)


# -- exchanges and permutations -----------------------------------------------------------------------------


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The permutation of `permutation_size` rows that exchanges of row i with row pivots[i] make.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.linalg.lu_pivots_to_permutation(np.int32([2, 2]), 3))
        [2 0 1]
    """
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=int(permutation_size))


def _permutation_shape(pivots, *, dtype, permutation_size):
    if permutation_size < pivots[0]:
        raise ValueError(
            f"Output permutation size {permutation_size} has to exceed the trailing dimension of the pivots. Got "
            f"pivots size {pivots[0]}"
        )
    return (permutation_size,)


def _exchange(pivots, *, permutation_size):
    *batch, k = aval_of(pivots).shape
    last = len(batch)
    shape = (*batch, permutation_size)
    places, pivot_places = (
        broadcasted_iota(np.int32, shape, last),
        broadcasted_iota(np.int32, (*batch, k), last),
    )

    def pick(where, x):
        """The one element of each row where `where` holds."""
        return broadcast_over_rows(reduce_sum(select(where, x, full_like(x, 0)), (last,)), shape)

    def step(i, permutation):
        here, there = eq(places, i), eq(places, pick(eq(pivot_places, i), pivots))
        mine, other = pick(here, permutation), pick(there, permutation)
        return select(here, other, select(there, mine, permutation))

    return repeat(k, step, places) if k else places


_permutation = mlir.lower_fun(_exchange)
lu_pivots_to_permutation_p = define(
    "lu_pivots_to_permutation", _permutation_shape, (1,), accepts=lambda d: d == np.int32
)
ad.defzero(lu_pivots_to_permutation_p)
mlir.register_text_lowering(lu_pivots_to_permutation_p, _permutation)


# -- solutions ------------------------------------------------------------------------------------------------


def lu_solve(factors, permutation, b, trans: int = 0):
    """Solves `op(x) y = b` from `lu(x)`, where `op` is nothing (0), the transpose (1) or its conjugate (2)."""
    if trans == 0:
        y = triangular_solve(
            factors, take_rows(b, permutation), left_side=True, lower=True, unit_diagonal=True
        )
        return triangular_solve(factors, y, left_side=True)
    conj = trans == 2
    y = triangular_solve(factors, b, left_side=True, transpose_a=True, conjugate_a=conj)
    y = triangular_solve(
        factors,
        y,
        left_side=True,
        lower=True,
        transpose_a=True,
        conjugate_a=conj,
        unit_diagonal=True,
    )
    return take_rows(y, argsort(permutation, aval_of(permutation).ndim - 1))


def solve(a, b):
    """Solves `a x = b` for columns `b`; one matrix `a`, or a stack with the batch dimensions of `b`.

    Derivatives solve again with the same factors.
    """
    factors, _, permutation = lu_p.bind(stop_gradient(a))
    return custom_linear_solve(
        lambda x: product(a, x),
        b,
        solve=lambda _, x: lu_solve(factors, permutation, x),
        transpose_solve=lambda _, x: lu_solve(factors, permutation, x, trans=1),
    )


costs.register(
    costs.on_matrices(lambda m, n, params: min(m, n) ** 2 * (max(m, n) - min(m, n) / 3)), lu_p
)
costs.register(costs.moves, lu_pivots_to_permutation_p)
