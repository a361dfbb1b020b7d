"""Determinants and their logarithms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from xlab import lax
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.lax.linalg.common import broadcast_over_rows, diagonal, matrix_transpose, stacked
from xlab.lax.linalg.common import eye as _eye
from xlab.lax.linalg.lu import lu_p, solve, take_rows
from xlab.lax.linalg.qr import geqrf_p
from xlab.numpy import reductions as _r
from xlab.numpy.arithmetic import as_array, sign
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import promoted_inexact
from xlab.numpy.searching import where
from xlab.transforms.custom_jvp import custom_jvp

__all__ = ["det", "slogdet"]


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


def _checked(name, a):
    (a,) = promoted_inexact(name, a)
    a = as_array(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Argument to {name}() must have shape [..., n, n], got {a.shape}")
    return a


@jit_when_eager
def det(a: ArrayLike) -> Array:
    """The determinant of square matrices.

    Example:
        >>> import xlab.numpy as jnp
        >>> float(jnp.linalg.det(jnp.array([[2.0, 1.0], [0.0, 3.0]])))
        6.0
    """
    a = _checked("det", a)
    n = a.shape[-1]
    if n > 3:
        return _det(a)
    if n == 0:
        return lax.full(a.shape[:-2], 1, a.dtype)
    # Leibniz's sum over permutations, the even ones before the odd ones.
    total = None
    for number, places in enumerate(_PERMUTATIONS[n]):
        term = math.prod(
            (a[..., i, j] for i, j in enumerate(places[1:], 1)), start=a[..., 0, places[0]]
        )
        even = 2 * number < len(_PERMUTATIONS[n])
        total = term if total is None else total + term if even else total - term
    return total


_PERMUTATIONS = {
    1: [(0,)],
    2: [(0, 1), (1, 0)],
    3: [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (0, 2, 1), (1, 0, 2)],
}


def _parity(pivots, dtype):
    """1 or -1, as the number of exchanges is even or odd."""
    n = aval_of(pivots).shape[-1]
    places = (
        lax.broadcasted_iota(np.int32, aval_of(pivots).shape, aval_of(pivots).ndim - 1)
        if n
        else pivots
    )
    odd = _r.sum(lax.ne(pivots, places), axis=-1, dtype=np.int32) % 2
    return lax.convert_element_type(1 - 2 * odd, dtype)


@custom_jvp
def _det(a):
    factors, pivots, _ = lu_p.bind(a)
    return _r.prod(diagonal(factors), axis=-1) * _parity(pivots, a.dtype)


@_det.defjvp
def _det_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    return _det(a), _r.sum(matrix_transpose(_adjugate(a)) * da, axis=(-2, -1))


def _adjugate(a):
    """The matrix of cofactors, transposed; also of singular matrices whose last pivot alone is zero.

    With P A = L U and U = [[U₁, u], [0, e]], it is sign(P) det(U₁) [[U₁, u], [0, 1]]⁻¹ diag(e, ..., e, 1) L⁻¹ P.
    """
    *batch, n, _ = a.shape
    factors, pivots, permutation = lu_p.bind(a)
    last = np.arange(n) == n - 1
    pivot = diagonal(factors)
    rest, e = _r.prod(pivot[..., :-1], axis=-1), pivot[..., -1:]
    corner = last[:, None] & last[None, :]
    inverted = lax.linalg.triangular_solve(
        factors,
        take_rows(stacked(_eye(n, a.dtype), batch), permutation),
        left_side=True,
        lower=True,
        unit_diagonal=True,
    )
    weighed = inverted * broadcast_over_rows(where(last, a.dtype.type(1), e), a.shape)
    out = lax.linalg.triangular_solve(
        where(corner, a.dtype.type(1), factors), weighed, left_side=True
    )
    return out * (rest * _parity(pivots, a.dtype))[..., None, None]


def slogdet(a: ArrayLike, *, method: str | None = None) -> tuple[Array, Array]:
    """Sign and logarithm of the absolute value of the determinant, where the determinant itself would overflow.

    Args:
        a: square matrices.
        method: "lu" (or None), or "qr" for real matrices.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.slogdet(jnp.array([[0.0, 1.0], [1.0, 0.0]])).sign
        Array(-1., dtype=float32)
    """
    a = _checked("slogdet", a)
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'."
        )
    if method == "qr" and a.dtype.kind == "c":
        raise NotImplementedError(
            "slogdet method='qr' not implemented for complex inputs: use method='lu'"
        )
    return SlogdetResult(*_slogdet(a, method or "lu"))


@jit_when_eager(static=("method",))
def _slogdet(a, method):
    return (_slogdet_qr if method == "qr" else _slogdet_lu)(a)


@custom_jvp
def _slogdet_lu(a):
    factors, pivots, _ = lu_p.bind(a)
    pivot = diagonal(factors)
    sizes = lax.abs(pivot)
    singular = _r.any(lax.eq(sizes, lax.full_like(sizes, 0)), axis=-1)
    direction = _r.prod(sign(pivot), axis=-1) * _parity(pivots, a.dtype)
    return (
        where(singular, a.dtype.type(0), direction),
        where(singular, sizes.dtype.type(-np.inf), _r.sum(lax.log(sizes), axis=-1)),
    )


@custom_jvp
def _slogdet_qr(a):
    packed, taus = geqrf_p.bind(a)
    pivot = diagonal(packed)
    # Every reflection that is none has a factor of zero; the others turn space inside out.
    turns = where(lax.ne(taus, lax.full_like(taus, 0)), a.dtype.type(-1), a.dtype.type(1))
    return _r.prod(sign(pivot), axis=-1) * _r.prod(turns, axis=-1), _r.sum(
        lax.log(lax.abs(pivot)), axis=-1
    )


def _slogdet_jvp(fun):
    def rule(primals, tangents):
        (a,), (da,) = primals, tangents
        direction, size = fun(a)
        slope = _r.sum(diagonal(solve(a, da)), axis=-1)
        if a.dtype.kind != "c":
            return (direction, size), (lax.full_like(direction, 0), slope)
        turn = lax.mul(direction, lax.complex(lax.full_like(size, 0), lax.imag(slope)))
        return (direction, size), (turn, lax.real(slope))

    return rule


_slogdet_lu.defjvp(_slogdet_jvp(_slogdet_lu))
_slogdet_qr.defjvp(_slogdet_jvp(_slogdet_qr))
