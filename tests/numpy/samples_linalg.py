"""Samples of `numpy.linalg`."""

from __future__ import annotations

import numpy as np

from tests.numpy.samples_more import rows
from tests.reference.data import complexes, floats, ints
from tests.reference.sample import VALUE, WHOLE, Sample

A, B, C = floats(3, 3), floats(2, 3, 3), complexes(3, 3)
TALL, WIDE, V, I = floats(5, 3), floats(3, 5), floats(3), ints(3, 3)
EYE = np.eye(3, dtype=np.float32)
BIG, POSITIVE = floats(5, 5), A @ A.T + EYE
L = "jnp.linalg."
ALL = ("eager", "jit", "grad", "jvp", "vmap")
LOOSE = (2e-3, 2e-4)


def each(transforms, names, *items, **options):
    return [sample for item in items for sample in rows(transforms, *((f"{L}{name}", *item) for name in names), **options)]


SAMPLES = [
    *rows(ALL, (f"{L}solve(x, y)", POSITIVE, V), (f"{L}solve(x, y)[0]", POSITIVE, floats(3, 2)),
          (f"{L}solve(x, y)[..., 0]", B + 3 * EYE, floats(2, 3, 2)), (f"{L}solve(x, y)[1]", POSITIVE, floats(2, 3, 2)),
          (f"{L}solve(x, y)[0, 0]", B + 3 * EYE, V), (f"{L}solve(x, y) + 0", C + 3 * EYE, V),
          (f"{L}inv(x)", POSITIVE), (f"{L}inv(x)[0]", B + 3 * EYE), (f"{L}inv(x) * 2", C + 3 * EYE),
          (f"{L}det(x)", A), (f"{L}det(x) + 0", B), (f"{L}det(x) + 1", C), (f"{L}det(x) + 2", BIG), (f"{L}det(x[:2, :2])", A),
          (f"{L}det(x[:1, :1])", A), (f"{L}det(x) + 3", floats(2, 4, 4)), (f"{L}det(x) + 4", complexes(4, 4)),
          (f"{L}slogdet(x)", A), (f"{L}slogdet(x)[0]", BIG), (f"{L}slogdet(x)[1]", C), (f"{L}slogdet(x, method='qr')", BIG),
          (f"{L}slogdet(x)[1]  # stack", B), (f"{L}pinv(x)", TALL), (f"{L}pinv(x)[0]", WIDE), (f"{L}pinv(x)[1]", complexes(4, 3)),
          (f"{L}cholesky(x)", POSITIVE), (f"{L}cholesky(x, upper=True)", POSITIVE),
          (f"{L}cholesky(x @ x.conj().T + jnp.eye(3), upper=True)", C),
          (f"{L}qr(x)", TALL), (f"{L}qr(x)[0]", WIDE), (f"{L}qr(x, mode='complete')", TALL), (f"{L}qr(x, mode='r')", TALL),
          (f"{L}qr(x)[1]", complexes(4, 3)), (f"{L}svd(x, full_matrices=False)", TALL), (f"{L}svd(x, full_matrices=False)[0]", WIDE),
          (f"{L}svdvals(x)", TALL), (f"{L}svd(x, compute_uv=False)", B), (f"{L}svdvals(x) + 0", C),
          (f"{L}eigh(x)", POSITIVE), (f"{L}eigvalsh(x)", POSITIVE), (f"{L}eigvalsh(x, UPLO='U')", A),
          (f"{L}eigvalsh(x + x.conj().T)", C), (f"{L}norm(x, 2)", A), (f"{L}norm(x, -2)", A), (f"{L}norm(x, 'nuc')", WIDE),
          (f"{L}norm(x, 2, axis=(2, 0), keepdims=True)", B), (f"{L}matrix_norm(x, ord='nuc')", B),
          (f"{L}matrix_power(x, -2)", POSITIVE), (f"{L}matrix_power(x, 3)", A), (f"{L}cond(x)", A), (f"{L}cond(x, 1)", A),
          (f"{L}cond(x, 'fro')", B), (f"{L}cond(x, -2)", TALL), (f"{L}tensorsolve(x.reshape(3, 3, 9), y)", floats(9, 9), A),
          (f"{L}tensorinv(x.reshape(3, 3, 9))", floats(9, 9)), (f"{L}lstsq(x, y)[0]", TALL, floats(5)),
          (f"{L}lstsq(x, y)[1]", TALL, floats(5, 2)), (f"{L}trace(x, offset=1)", B), (f"{L}diagonal(x)", B),
          (f"{L}outer(x, y)", V, V), (f"{L}cross(x, y)", A, A.T.copy()), (f"{L}matmul(x, y)", A, V), (f"{L}vecdot(x, y)", A, V),
          (f"{L}multi_dot([x, y, x])", A, A.T.copy()), tol=LOOSE),
    # Matrices whose last pivot alone is zero have cofactors, and so their determinants have derivatives.
    *rows(("eager", "grad", "jvp"), (f"{L}det(x)[()]", np.float32(np.diag([1, 2, 3, 0]))), tol=LOOSE),
    *rows(WHOLE, (f"{L}eig(x)", A), (f"{L}eig(x)[0]", C), (f"{L}eigvals(x)", B), (f"{L}qr(x, mode='raw')", TALL),
          (f"{L}svd(x)", TALL), (f"{L}svd(x + x.T, hermitian=True)", A), (f"{L}svd(x + x.T, hermitian=True, compute_uv=False)", A),
          (f"{L}eigh(x, UPLO='U', symmetrize_input=False)", A), (f"{L}eigh(x + x.conj().T)", C), (f"{L}matrix_rank(x)", TALL),
          (f"{L}matrix_rank(x)[()]", np.ones((2, 3, 3), np.float32)), (f"{L}matrix_rank(x, rtol=0.5)", TALL),
          (f"{L}matrix_rank(x @ x.T, hermitian=True)", A), (f"{L}matrix_rank(x[0])", A), (f"{L}lstsq(x, y)", TALL, floats(5)),
          (f"{L}lstsq(x, y, rcond=0.5)", TALL, floats(5)), (f"{L}lstsq(x, y, rcond=-1)", TALL, floats(5, 2)),
          (f"{L}pinv(x, rtol=0.5)", TALL), (f"{L}pinv(x + x.T, hermitian=True)", A), (f"{L}inv(x + 5 * jnp.eye(3, dtype=int))", I),
          (f"{L}det(x)[...]", I), (f"{L}slogdet(x)[0][()]", C), tol=LOOSE),
    *rows(VALUE, (f"{L}det(jnp.zeros((0, 0)))",), (f"{L}slogdet(jnp.zeros((0, 0)))",), (f"{L}inv(jnp.zeros((0, 0)))",),
          (f"{L}pinv(jnp.zeros((0, 3)))",), (f"{L}lstsq(jnp.ones((5, 0)), jnp.ones(5))",), (f"{L}solve(jnp.zeros((0, 0)), jnp.zeros(0))",),
          (f"{L}svd(jnp.zeros((0, 3)))",), (f"{L}qr(jnp.zeros((3, 0)), mode='complete')",), (f"{L}eigh(jnp.zeros((0, 0)))",),
          (f"{L}cholesky(-jnp.eye(2))",), (f"{L}inv(jnp.ones((2, 2)))",), (f"{L}slogdet(jnp.ones((2, 2)))",), (f"{L}cond(jnp.ones((2, 2)), 1)",),
          (f"{L}eigvals(jnp.full((2, 2), jnp.nan))",), (f"{L}svdvals(jnp.full((2, 2), jnp.nan))",), (f"{L}matrix_rank(0.0)",),
          *((f"{L}norm(jnp.zeros({shape}), {ord}, axis={axis}, keepdims=True)",) for shape, ord, axis in (
              ("(2, 0)", "jnp.inf", 1), ("(2, 0, 3)", "jnp.inf", "(1, 2)"), ("(3, 0)", "1", "(0, 1)"), ("(0, 3)", "2", "(0, 1)")))),
    *rows(("eager",), (f"{L}lstsq(x, y, numpy_resid=True)", WIDE, V), (f"{L}lstsq(x, y, numpy_resid=True)[1]", TALL, floats(5)), tol=LOOSE),
    *rows(("grad.grad", "jvp.jvp", "vmap.grad", "jit.grad"), (f"{L}inv(x) @ x", POSITIVE), (f"{L}slogdet(x).logabsdet", POSITIVE),
          (f"{L}det(x) * 1", BIG), (f"{L}cholesky(x)[-1]", POSITIVE), (f"{L}eigvalsh(x)[-1]", POSITIVE), (f"{L}svdvals(x)[-1]", TALL),
          (f"{L}pinv(x)[-1]", TALL), (f"{L}qr(x)[1][0]", TALL), tol=(2e-2, 2e-3)),
    *(Sample(f"{text} in 64 bits", row.fun, row.args, ("eager", "jit", "vmap"), x64=True)
      for text, x in ((f"{L}inv(x)", POSITIVE.astype(np.float64)), (f"{L}eigh(x)", POSITIVE.astype(np.float64)),
                      (f"{L}svd(x)", C.astype(np.complex128)), (f"{L}det(x)", BIG.astype(np.float64)),
                      (f"{L}qr(x)", C.astype(np.complex128)), (f"{L}eig(x)", A.astype(np.float64)))
      for row in rows(VALUE, (text, x))),
    *(row for error, items in {
        "ValueError": [("solve(x, y)", V, V), ("solve(x, y)", TALL, V), ("solve(x, y)", A, floats(2)), ("solve(x, y)", B, floats(2, 3)),
                       ("inv(x)", TALL), ("det(x)", V), ("slogdet(x)", TALL), ("slogdet(x, method='x')", A), ("lstsq(x, y)", TALL, V),
                       ("pinv(x)", V), ("cond(x)", V), ("cond(x, 1)", TALL), ("cond(jnp.zeros((0, 0)))",), ("eigh(x, UPLO='X')", A),
                       ("eig(x)", TALL), ("norm(x, 'x')", A), ("norm(x, 3)", A), ("norm(x, 'fro')", V), ("norm(x, 2)", B),
                       ("norm(jnp.zeros(0), -jnp.inf)",), ("tensorinv(x, ind=0)", A), ("tensorinv(x, ind=1)", TALL), ("tensorsolve(x, y)", A, A), ("qr(x, mode='y')", A),
                       ("outer(x, x)", A), ("cross(x, x)", floats(2)), ("svd(x, subset_by_index=(0, 2))", A)],
        "TypeError": [("solve([[1.0]], x)", V), ("eigh(x)", TALL), ("eigh(x)", V), ("cholesky(x)", TALL), ("qr(x)", V), ("svd(x)", V),
                      ("matrix_power(x, 1.5)", A), ("inv([[1.0]])",)],
        "NotImplementedError": [("inv(x)", A.astype(np.float16)), ("slogdet(x, method='qr')", C)],
    }.items() for n, (text, *args) in enumerate(items)
      for row in rows(("eager", "jit"), (L + text + " " * (n + 1), *args), error=error)),
]
