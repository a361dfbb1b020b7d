"""Samples of `lax.linalg`."""

from __future__ import annotations

import numpy as np

from tests.numpy.samples_more import rows
from tests.reference.data import complexes, floats
from tests.reference.sample import VALUE, WHOLE, Sample

A, B, C, TALL, WIDE, V = floats(3, 3), floats(2, 3, 3), complexes(3, 3), floats(5, 3), floats(3, 5), floats(3)
EYE = np.eye(3, dtype=np.float32)
POSITIVE, FIRM, TAUS = A @ A.T + EYE, B + 3 * EYE, floats(3, low=0.2, high=1.5)
L = "lax.linalg."
ALL = ("eager", "jit", "grad", "jvp", "vmap")
LOOSE = (2e-3, 2e-4)
VECTORS = "compute_left_eigenvectors=False, compute_right_eigenvectors=False"


def table(transforms, *items, **options):
    return rows(transforms, *((L + text, *args) for text, *args in items), **options)


def triangular(**options):
    """Texts of `triangular_solve` with every combination of some options."""
    texts = [""]
    for name in ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"):
        texts = [text + f", {name}={value}" for text in texts for value in options.get(name, (False, True))]
    return [f"triangular_solve(x, y{text})" for text in texts]


SAMPLES = [
    *table(ALL, ("cholesky(x)", POSITIVE), ("cholesky(x @ x.mT + jnp.eye(3))", B), ("cholesky(x @ x.conj().T + jnp.eye(3))", C),
           ("eigh(x)", POSITIVE), ("eigh(x, lower=False)[1]", A), ("eigh(x)[1]", C),
           ("eigh(x @ x.mT)[1]", B), (f"eig(x, {VECTORS})", A), (f"eig(x, {VECTORS})[0]", C), ("eig(x, enable_eigvec_derivs=True)", A),
           ("lu(x)[0]", A), ("lu(x)", TALL), ("lu(x)[0] ", WIDE), ("lu(x)[0]  ", B), ("lu(x)[0]   ", C), ("qr(x, full_matrices=False)", TALL), ("qr(x)", TALL),
           ("qr(x)[0]", WIDE), ("qr(x) ", complexes(4, 3)), ("qr(x)[1]", B), ("qr(x, pivoting=True)", TALL),
           ("svd(x, full_matrices=False)", TALL), ("svd(x, full_matrices=False)[0]", WIDE), ("svd(x, compute_uv=False)", C),
           ("svd(x, full_matrices=False)[1]", B), ("svd(x)    ", A), ("svd(x, algorithm=lax.linalg.SvdAlgorithm.QR)[1]", A),
           ("tridiagonal_solve(x, y + 4, x, z)", V, V[::-1].copy(), floats(3, 2)), ("triangular_solve(x, y)", FIRM[0], V),
           ("triangular_solve(x, y, left_side=True)", FIRM, floats(2, 3, 2)), tol=LOOSE),
    # It reads one triangle, while its derivative takes tangents to be symmetric.
    *table(ALL, ("cholesky(x, symmetrize_input=False)", POSITIVE), tol=LOOSE, lawful=False),
    *(sample for text in triangular(conjugate_a=(False,)) for sample in table(("eager", "grad", "jvp"), (text, FIRM[0], A), tol=LOOSE)),
    *(sample for text in triangular(unit_diagonal=(False,)) for sample in table(("eager", "grad"), (text + " ", C + 3 * EYE, C.T.copy()), tol=LOOSE)),
    *table(WHOLE, ("eig(x)", A), ("eig(x)[0]", B), ("svd(x)", TALL), ("svd(x) ", WIDE), ("schur(x)", A), ("schur(x) ", C), ("schur(x, compute_schur_vectors=False)", B),
           ("hessenberg(x)", A), ("hessenberg(x) ", C), ("tridiagonal(x)", POSITIVE), ("tridiagonal(x, lower=False)", POSITIVE), ("tridiagonal(x + x.conj().T)", C),
           ("householder_product(x, y)", TALL, TAUS), ("householder_product(x, y) ", C, np.complex64([0.3, 1.1, 0.7])),
           ("ormqr(x, y, z)", TALL, TAUS, floats(5, 2)), ("ormqr(x, y, z, left=False, transpose=True)", TALL, TAUS, floats(2, 5)),
           ("lu_pivots_to_permutation(x, 5)", np.int32([2, 2, 4])), ("symmetric_product(x, y, alpha=2.0, beta=0.5, symmetrize_output=True)", TALL, floats(5, 5)),
           ("qr(x, pivoting=True) ", WIDE), ("tridiagonal_solve(x, y + 4, x, z, perturb_singular=True)", V, V[::-1].copy(), floats(3, 2)), tol=LOOSE),
    *table(VALUE, ("cholesky_update(x, y)", np.triu(POSITIVE), V), ("qdwh(x)", A), ("qdwh(x) ", TALL), ("qdwh(x)  ", C), ("qdwh(x, max_iterations=2)[2:]", TALL),
           ("qdwh(x + x.T, is_hermitian=True)", A), ("qdwh(x, dynamic_shape=(4, 2))[0]", TALL), tol=LOOSE),
    *table(VALUE, *((f"{name}(jnp.zeros({shape}))",) for name, shapes in {
        "cholesky": ["(0, 0)", "(2, 0, 0)"], "eig": ["(0, 0)"], "eigh": ["(0, 0)"], "lu": ["(0, 3)", "(3, 0)", "(0, 3, 3)"], "qr": ["(3, 0)", "(0, 3)"],
        "svd": ["(3, 0)", "(0, 3)", "(0, 3, 3)"], "schur": ["(0, 0)"], "hessenberg": ["(1, 1)"], "tridiagonal": ["(1, 1)"]}.items() for shape in shapes),
           ("qr(jnp.zeros((3, 0)), full_matrices=False)",), ("triangular_solve(jnp.zeros((0, 0)), jnp.zeros((3, 0)))",), ("cholesky(-jnp.eye(2))",),
           ("lu(jnp.full((2, 2), jnp.nan))",), ("eig(jnp.full((2, 2), jnp.nan))",), ("svd(jnp.full((2, 2), jnp.nan))",), ("eigh(jnp.full((2, 2), jnp.nan))",),
           ("tridiagonal_solve(jnp.ones(2), jnp.ones(2), jnp.ones(2), jnp.ones((2, 1)))",), ("lu(jnp.ones((3, 3)))",)),
    *(Sample(f"{text} in 64 bits", row.fun, row.args, ("eager", "vmap"), x64=True)
      for text, x in [("cholesky(x)", POSITIVE.astype(np.float64)), ("eig(x)", A.astype(np.float64)), ("eigh(x)", C.astype(np.complex128)), ("lu(x)", A.astype(np.float64)),
                      ("qr(x)", C.astype(np.complex128)), ("svd(x)", A.astype(np.float64)), ("schur(x)", C.astype(np.complex128)), ("hessenberg(x)", A.astype(np.float64))]
      for row in table(VALUE, (text, x))),
    *table(("grad.grad", "jvp.jvp", "vmap.grad"), ("cholesky(x)[-1]", POSITIVE), ("eigh(x)[1]  ", POSITIVE), (f"eig(x, {VECTORS}, enable_eigvec_derivs=True)[0][0].real", A), ("lu(x)[0][0] ", A),
           ("qr(x)[1][0]", A), ("svd(x, compute_uv=False)[0]", TALL), ("triangular_solve(x, x)[0]", FIRM[0]), tol=(2e-2, 2e-3)),
    *table(("text",), ("cholesky(x)          ", C), ("eigh(x)          ", A), ("eig(x)          ", A), ("lu(x)[0]          ", A), ("svd(x)          ", A), ("schur(x)          ", A), ("hessenberg(x)          ", A),
           ("tridiagonal(x)          ", A), ("triangular_solve(x, x)          ", A), ("householder_product(x, x[0])          ", A), ("symmetric_product(x, x, symmetrize_output=True)          ", A),
           ("cholesky_update(x, x[0])          ", A), ("tridiagonal_solve(x, x, x, y)          ", V, A)),
    *(row for error, items in {
        "TypeError": [("cholesky(x)", V), ("cholesky(x)", TALL), ("lu(x)", V), ("svd(x)", V), ("qr(x)", np.ones((2, 2), np.int32)), ("eigh(x)", TALL), ("cholesky_update(x, x)", A),
                      ("triangular_solve(x, y)", A, B), ("triangular_solve(x, x.astype('float16'))", A), ("tridiagonal_solve(x[:2], x, x, y)", V, A),
                      ("tridiagonal_solve(x, x, x, x)", V), ("lu_pivots_to_permutation(x, 3)", V)],
        "ValueError": [("eig(x)", TALL), ("triangular_solve(x, x)", TALL), ("triangular_solve(x, y)", A, A[:2, :2]), ("householder_product(x, y)", WIDE, TAUS),
                       ("householder_product(x, jnp.ones(4))", TALL), ("ormqr(x, y, jnp.ones((4, 4)))", TALL, TAUS), ("lu_pivots_to_permutation(x, 2)", np.zeros(3, np.int32)),
                       ("symmetric_product(x, y)", WIDE, WIDE[:, :4]), ("tridiagonal(x)", TALL), ("qdwh(x)", WIDE), ("svd(x, subset_by_index=(0, 2))", A),
                       ("eig(x, implementation=lax.linalg.EigImplementation.CUSOLVER)", A), ("cholesky_update(x, y)", TALL, V), ("schur(x)", TALL), ("hessenberg(x)", TALL)],
        "NotImplementedError": [("cholesky(x)", A.astype(np.float16)), ("eigh(x, implementation=lax.linalg.EighImplementation.JACOBI)", A), ("eigh(x, subset_by_index=(0, 2))", A),
                                ("svd(x, algorithm=lax.linalg.SvdAlgorithm.JACOBI)", A), ("schur(x, sort_eig_vals=True)", A)],
    }.items() for n, (text, *args) in enumerate(items)
      for row in table(("eager",), (f"{text}  # {error} {n}", *args), error=error)),
    *(row for text, *args in [("eig(x)", A), ("svd(x)", TALL), ("schur(x)", A), ("hessenberg(x)", A), ("tridiagonal(x)", A), ("householder_product(x, y)", TALL, TAUS),
                                             ("cholesky_update(x, x[0])", A), ("symmetric_product(x, x)", A)]
      for row in table(("jvp",), (f"{text}  # no derivative", *args), error="NotImplementedError")),
]
