"""Forms reached by orthogonal changes of basis: Schur and Hessenberg."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.lax.linalg.common import eye as _eye
from xlab.lax.linalg.common import repeat, stacked
from xlab.numpy.arithmetic import as_array
from xlab.numpy.conversion import from_lists
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.linalg.decompositions import hermitian_transpose
from xlab.numpy.operands import check
from xlab.numpy.searching import where
from xlab.numpy.tensor_contractions import matmul
from xlab.numpy.triangles import triu

__all__ = ["hessenberg", "rsf2csf", "schur"]


def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """`a == z @ t @ z.conj().T` with unitary `z` and upper triangular `t`.

    Args:
        a: square matrices.
        output: "real" leaves 2x2 blocks on the diagonal of `t` for pairs of complex eigenvalues of real matrices; "complex" does
            not.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> t, z = sl.schur(np.float32([[1, 2], [0, 3]]))
        >>> print(t)
        [[1. 2.]
         [0. 3.]]
    """
    if output not in ("real", "complex"):
        raise ValueError(
            f"Expected 'output' to be either 'real' or 'complex', got output={output!r}."
        )
    return _schur(a, output)


@jit_when_eager(static=("output",))
def _schur(a, output):
    a = as_array(*check("schur", a))
    if output == "complex":
        a = lax.convert_element_type(a, dtypes.result_type(a, np.complex64))
    return tuple(lax.linalg.schur(a))


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form from the real one.

    Args:
        T, Z: what `schur(a)` gives for real `a`.
        check_finite: changes nothing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> t, z = sl.rsf2csf(*sl.schur(np.float32([[0, 1], [-1, 0]])))
        >>> print(t.round(3))
        [[0.+1.j 0.+0.j]
         [0.+0.j 0.-1.j]]
    """
    T, Z = map(as_array, check("rsf2csf", from_lists(T), from_lists(Z)))
    if T.ndim != 2 or T.shape[0] != T.shape[1]:
        raise ValueError(
            f"rsf2csf takes one square matrix as T, got shape {T.shape}; use vmap for stacks"
        )
    if Z.shape != T.shape:
        raise ValueError(f"Input array shapes must match: Z: {Z.shape} vs. T: {T.shape}")
    return _rsf2csf(T, Z)


@jit_when_eager
def _rsf2csf(T, Z):
    dtype = dtypes.result_type(T, Z, np.complex64)
    T, Z = (lax.convert_element_type(x, dtype) for x in (T, Z))
    n = T.shape[0]
    eps = float(np.finfo(dtype).eps)
    places = lax.iota(np.int32, n)

    def rotation(T, m):
        """The rotation of rows m - 1 and m that makes their block triangular."""
        block = lax.dynamic_slice(T, (m - 1, m - 1), (2, 2))
        (w,) = lax.linalg.eig(
            block, compute_left_eigenvectors=False, compute_right_eigenvectors=False
        )
        x, y = w[0] - block[1, 1], block[1, 0]
        length = lax.sqrt(lax.square(lax.abs(x)) + lax.square(lax.abs(y)))
        c, s = x / length, y / length
        return lax.reshape(
            lax.concatenate([lax.reshape(v, (1,)) for v in (lax.conj(c), s, -s, c)], 0), (2, 2)
        )

    def turn(k, carry):
        m = np.int32(n - 1) - k

        def apply(carry):
            T, Z = carry
            g = rotation(T, m)
            gh = hermitian_transpose(g)
            rows = lax.dynamic_slice(T, (m - 1, np.int32(0)), (2, n))
            rows = where((places >= m - 1)[None, :], matmul(g, rows, precision="highest"), rows)
            T = lax.dynamic_update_slice(T, rows, (m - 1, np.int32(0)))
            columns = lax.dynamic_slice(T, (np.int32(0), m - 1), (n, 2))
            columns = where(
                (places <= m)[:, None], matmul(columns, gh, precision="highest"), columns
            )
            T = lax.dynamic_update_slice(T, columns, (np.int32(0), m - 1))
            columns = matmul(
                lax.dynamic_slice(Z, (np.int32(0), m - 1), (n, 2)), gh, precision="highest"
            )
            return T, lax.dynamic_update_slice(Z, columns, (np.int32(0), m - 1))

        T, _ = carry
        block = lax.abs(lax.dynamic_slice(T, (m - 1, m - 1), (2, 2)))
        T, Z = lax.cond(
            block[1, 0] > eps * (block[0, 0] + block[1, 1]), apply, lambda carry: carry, carry
        )
        return lax.dynamic_update_slice(T, lax.full((1, 1), 0, dtype), (m, m - 1)), Z

    if n > 1:
        T, Z = repeat(n - 1, turn, (T, Z))
    return T, Z


def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array | tuple[Array, Array]:
    """`a == q @ h @ q.conj().T` with unitary `q` and zeros in `h` below the first subdiagonal.

    Args:
        a: square matrices.
        calc_q: whether to return `(h, q)`, else `h` alone.
        overwrite_a, check_finite: change nothing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> h, q = sl.hessenberg(np.float32([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), calc_q=True)
        >>> print((q @ h @ q.T).round(2)[0])
        [1. 2. 3.]
    """
    a = as_array(*check("hessenberg", from_lists(a)))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(
            f"Argument to Hessenberg reduction must have shape [..., n, n], got shape {a.shape}"
        )
    return _hessenberg(a, bool(calc_q))


@jit_when_eager(static=("calc_q",))
def _hessenberg(a, calc_q):
    packed, taus = lax.linalg.hessenberg(a)
    form = triu(packed, -1)
    if not calc_q:
        return form
    *batch, n, _ = aval_of(a).shape
    if n < 2:
        return form, stacked(_eye(n, aval_of(a).dtype), batch)
    inner = lax.linalg.householder_product(packed[..., 1:, :-1], taus)
    zero = aval_of(a).dtype.type(0)
    q = lax.pad(inner, zero, (*[(0, 0, 0)] * len(batch), (1, 0, 0), (1, 0, 0)))
    i, j = (lax.broadcasted_iota(np.int32, aval_of(q).shape, len(batch) + k) for k in (0, 1))
    return form, where((i == 0) & (j == 0), aval_of(a).dtype.type(1), q)
