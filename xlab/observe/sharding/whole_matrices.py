"""Primitives that work on both dimensions of a matrix at once."""

from __future__ import annotations

WHOLE = frozenset(
    [
        "cholesky",
        "eig",
        "eigh",
        "hessenberg",
        "householder_product",
        "lu",
        "lu_pivots_to_permutation",
        "qr",
        "schur",
        "svd",
        "triangular_solve",
        "tridiagonal",
        "tridiagonal_solve",
    ]
)
