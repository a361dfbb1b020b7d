"""`tridiagonal_solve`: systems of equations with tridiagonal matrices."""

from __future__ import annotations

from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, costs, mlir
from xlab.interpreters.ad import Zero, add_tangents, is_undefined_primal
from xlab.lax.arithmetic import add, mul, neg
from xlab.lax.linalg.common import (
    INT32,
    broadcast_over_rows,
    call,
    define,
    lapack_ok,
    nan_unless,
    zeros,
)
from xlab.lax.shape import pad

__all__ = ["tridiagonal_solve", "tridiagonal_solve_p"]


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """Solves `a x = b` for tridiagonal `a`; NaN where it is singular.

    Args:
        dl: below the diagonal: `dl[i] == a[i, i - 1]`, with `dl[0]` unused.
        d: the diagonal.
        du: above the diagonal: `du[i] == a[i, i + 1]`, with `du[-1]` unused.
        b: right-hand sides, as columns.
        perturb_singular: replace pivots of zero by small numbers, so that singular matrices give large results.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> zero, d = np.zeros(2, np.float32), np.float32([2, 4])
        >>> print(lax.linalg.tridiagonal_solve(zero, d, zero, np.float32([[2], [2]])))
        [[1. ]
         [0.5]]
    """
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=bool(perturb_singular))


def _shapes(dl, d, du, b, *, dtype, perturb_singular):
    if not dl == d == du:
        raise TypeError(
            f"tridiagonal_solve requires that all diagonal arguments have the same shape. Got {dl}, {d} and {du}."
        )
    if b[0] != d[0]:
        raise TypeError(
            f"The leading ndim-1 dimensions of b must equal the dimensions of the diagonals: got {d[0]} diagonal "
            f"elements and b with {b[0]} rows."
        )
    return b


def _later(x):
    """Moved one place down the last dimension, zero in front."""
    aval = aval_of(x)
    return pad(x, aval.dtype.type(0), (*[(0, 0, 0)] * (aval.ndim - 1), (1, -1, 0)))


def _earlier(x):
    aval = aval_of(x)
    return pad(x, aval.dtype.type(0), (*[(0, 0, 0)] * (aval.ndim - 1), (-1, 1, 0)))


def _times(dl, d, du, x):
    """The product of a tridiagonal matrix with columns; any of the diagonals may be a zero tangent."""
    shape = aval_of(x).shape
    side = [(0, 0, 0)] * (len(shape) - 2)
    zero = aval_of(x).dtype.type(0)
    total = None
    for diagonal, rows in ((d, (0, 0, 0)), (dl, (1, -1, 0)), (du, (-1, 1, 0))):
        if type(diagonal) is not Zero:
            moved = x if rows == (0, 0, 0) else pad(x, zero, (*side, rows, (0, 0, 0)))
            total = add_tangents(total, mul(broadcast_over_rows(diagonal, shape), moved))
    return total


def _jvp(primals, tangents, *, perturb_singular):
    *diagonals, b = primals
    *moved, db = tangents
    x = tridiagonal_solve_p.bind(*diagonals, b, perturb_singular=perturb_singular)
    if all(type(t) is Zero for t in tangents):
        return x, Zero.of(x)
    right = None if all(type(t) is Zero for t in moved) else neg(_times(*moved, x))
    if type(db) is not Zero:
        right = db if right is None else add(db, right)
    return x, tridiagonal_solve_p.bind(*diagonals, right, perturb_singular=perturb_singular)


def _transpose(ct, dl, d, du, b, *, perturb_singular):
    if any(map(is_undefined_primal, (dl, d, du))):
        raise NotImplementedError(
            "tridiagonal_solve is not linear in its matrix: it cannot be transposed to it"
        )
    return [
        None,
        None,
        None,
        tridiagonal_solve_p.bind(
            _later(du), d, _earlier(dl), ct, perturb_singular=perturb_singular
        ),
    ]


def _lowering(ctx, dl, d, du, b, *, perturb_singular):
    avals, aval = ctx.avals_in, ctx.avals_out[0]
    if not aval.size:
        return zeros(ctx, aval)
    batch = aval.shape[:-2]
    if perturb_singular:
        return call(
            ctx, "tridiagonal_solve_perturbed_ffi", [dl, d, du, b], avals, [aval], len(batch)
        )[0]
    *_, x, info = call(
        ctx,
        "gtsv",
        [dl, d, du, b],
        avals,
        [*avals, aval.update(shape=batch, dtype=INT32)],
        len(batch),
        aliases=[(i, i) for i in range(4)],
    )
    return nan_unless(ctx, lapack_ok(ctx, info, batch), batch, x, aval)


tridiagonal_solve_p = define("tridiagonal_solve", _shapes, (1, 1, 1, 2))
ad.primitive_jvps[tridiagonal_solve_p] = _jvp
ad.primitive_transposes[tridiagonal_solve_p] = _transpose
mlir.register_text_lowering(tridiagonal_solve_p, _lowering)

costs.register(
    lambda avals_in, avals_out, **_: costs.Cost(8 * avals_out[0].size, unit="other"),
    tridiagonal_solve_p,
)
