"""Samples of `scipy.linalg`."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import complexes, floats, ints
from tests.reference.sample import VALUE, WHOLE, Sample

A, B, C, TALL, V, I = floats(3, 3), floats(2, 3, 3), complexes(3, 3), floats(5, 3), floats(3), ints(3, 3)
EYE = np.eye(3, dtype=np.float32)
POSITIVE = A @ A.T + EYE
UPPER = np.triu(A) + 2 * EYE
ALL = ("eager", "jit", "grad", "jvp", "vmap")
LOOSE = (5e-3, 5e-4)


def do(text):
    """A function of `x, y` given as the text of its body; names of `scipy.linalg` stand alone."""
    code = compile(text.strip(), text, "eval")

    def fun(n, *args):
        names = vars(import_module(f"{n.name}.scipy.linalg"))
        return eval(code, {**names, "np": np, "jnp": n.jnp, "jax": n.jax, **dict(zip("xy", args))})
    return fun


def table(transforms, *items, **options):
    """A sample per (text, arguments)."""
    return [Sample(text, do(text), list(args), transforms, **options) for text, *args in items]


SAMPLES = [
    # These read one triangle, while their derivatives take tangents to be symmetric.
    *table(ALL, ("cholesky(x)", POSITIVE), ("cholesky(x, lower=True)", POSITIVE), ("cho_factor(x)[0]", POSITIVE),
           ("solve(x, y, assume_a='pos')", POSITIVE, V), ("solve(x, y, lower=True, assume_a='pos')", POSITIVE, floats(3, 2)), tol=LOOSE, lawful=False),
    *table(ALL, ("cho_solve((x, False), y)", UPPER, V), ("cho_solve((x, True), y)[0]", UPPER.T.copy(), floats(3, 2)),
           ("det(x)", A), ("inv(x)", POSITIVE), ("lu(x)[1:]", A), ("lu(x)[1:] ", TALL), ("lu(x, permute_l=True)", A), ("lu_factor(x)[0]", A),
           ("lu_solve((x, np.int32([2, 1, 2])), y)", UPPER, V), ("lu_solve((x, np.int32([2, 1, 2])), y, trans=1)", UPPER, V),
           ("lu_solve((x, np.int32([2, 1, 2])), y, trans=2)", C + 3 * EYE, V), ("solve(x, y)", POSITIVE, V),
           ("solve(x, y, assume_a='sym')", POSITIVE, V), ("solve_triangular(x, y)", UPPER, V),
           ("solve_triangular(x, y, trans=1, lower=True)", UPPER.T.copy(), floats(3, 2)), ("solve_triangular(x, y, trans='C')", C + 3 * EYE, V),
           ("solve_triangular(x, y, unit_diagonal=True)", UPPER, V), ("solve_triangular(x, y)[..., 0]", B + 3 * EYE, floats(2, 3, 2)),
           ("qr(x, mode='economic')", TALL), ("qr(x, mode='r')", TALL), ("qr(x, mode='economic', pivoting=True)[:2]", TALL),
           ("svd(x, full_matrices=False)", TALL), ("svd(x, compute_uv=False)", A), ("eigh(x)", POSITIVE), ("eigh(x, eigvals_only=True)", A),
           ("polar(x, method='svd')", TALL), ("polar(x, 'left', method='svd')", A), ("expm(x)", A), ("expm(x)[0]", 5 * A), ("expm(x)[1]", 0.1 * A),
           ("expm(x)[..., 0]", B), ("expm(x)[2]", C), ("expm(x, upper_triangular=True)", UPPER), ("expm_frechet(x, y)", A, A.T.copy()),
           ("expm_frechet(x, y, compute_expm=False)", A, A.T.copy()), ("block_diag(x, y, 2.0)", A, V), ("circulant(x)", V), ("companion(x)", V),
           ("convolution_matrix(x, 4)", V), ("convolution_matrix(x, 4, 'same')", V), ("convolution_matrix(x, 2, 'valid')", V), ("hankel(x)", V),
           ("hankel(x, y)", V, floats(2)), ("toeplitz(x)", V), ("toeplitz(x, y)", V, floats(2)), ("leslie(x, y)", V, floats(2)),
           ("fiedler_companion(x)", floats(5)), tol=LOOSE),
    *table(WHOLE, ("qr_multiply(x, y)", TALL, floats(2, 5)), ("qr_multiply(x, y, 'left')", TALL, V),
           ("qr_multiply(x, y, conjugate=True)", C, C.T.copy()), ("fiedler(x)", V), ("fiedler(x) ", I), ("toeplitz(x)[0]", C[0]), ("toeplitz(x) ", I), ("circulant(x) ", I), ("hankel(x)  ", I), ("companion(x) ", I[0] + 20),
           ("leslie(x, y) ", A, floats(3, 2)), ("lu(x)[0]", TALL), ("lu(x)  ", I), ("hessenberg(x)", A), ("hessenberg(x, calc_q=True)", B), ("hessenberg(x, calc_q=True) ", C),
           ("schur(x)", A), ("schur(x, 'complex')", A), ("schur(x) ", C), ("rsf2csf(*schur(x))", floats(4, 4)), ("sqrtm(x)", POSITIVE),
           ("sqrtm(x) ", C + 3 * EYE), ("funm(x, jnp.sin)", A), ("funm(x, jnp.exp) ", C), ("polar(x)", TALL), ("solve_sylvester(x, x.T, x)", POSITIVE),
           ("solve_sylvester(x, y, x @ jnp.ones((3, 2)))", POSITIVE, np.float32([[1, 2], [0.5, 3]])), ("solve_sylvester(x, y, x, method='eigen')", POSITIVE, POSITIVE),
           ("solve_sylvester(x, x, x) ", C), ("eigh_tridiagonal(x, y, eigvals_only=True)", V, floats(2)), ("qr(x, pivoting=True)", TALL),
           ("eigh_tridiagonal(x, y, eigvals_only=True, select='i', select_range=(0, 1))", V, floats(2)), ("svd(x)", TALL), ("inv(x) ", I + 20 * np.eye(3, dtype=np.int32)),
           ("eigh(x, lower=False)", A), tol=LOOSE),
    # The elements above the diagonal are given; those below are their conjugates.
    *table(WHOLE, ("eigh_tridiagonal(x, y, eigvals_only=True) ", C[0], C[1, :2]), ("(lambda w, v: (v * w) @ v.conj().T)(*eigh_tridiagonal(x, y))", C[0], C[1, :2]), tol=LOOSE),
    # Lists of rows.
    *table(VALUE, *((text,) for text in (
        "cholesky([[4.0, 2], [2, 2]])", "cho_factor([[4, 2], [2, 2]])[0]", "cho_solve(([[2.0, 1], [0, 1]], False), [2, 2.0])", "eigh([[2, 0.5], [0.5, 1]])[0]",
        "solve([[4.0, 2], [2, 2]], [2, 2], assume_a='pos')", "lu([[1.0, 2], [4, 4]])", "lu_factor(((1, 2), (4, 4)))", "lu_solve(([[2.0, 0], [0, 4]], jnp.array([0, 1])), [2.0, 2])",
        "solve_triangular([[2.0, 1], [0, 4]], [4, 4])", "qr([[3.0], [4]], mode='economic')[0] ** 2", "qr_multiply([[3.0], [4]], [1.0, 2])[0] ** 2", "svd([[0, 2.0], [1, 0]])[1]",
        "polar([[0, 2.0], [1, 0]])[1]", "expm_frechet([[0.0]], [[1.0]])", "funm([[1.0, 1], [0, 2]], jnp.square)", "solve_sylvester([[1.0]], [[2.0]], [[6.0]])",
        "eigh_tridiagonal([2.0, 2], [1.0], eigvals_only=True)")), tol=LOOSE),
    # As the reference, with the sign of the vectors left open.
    *table(WHOLE, ("jnp.abs(eigh_tridiagonal(x, y)[1])", V, floats(2)), tol=LOOSE),
    *table(VALUE, ("block_diag()",), ("dft(4)",), ("dft(3, 'sqrtn')",), ("dft(3, 'n')",), ("dft(0)",), ("hadamard(4)",), ("hadamard(8, jnp.float32)",), ("hadamard(1)",), ("helmert(4)",),
           ("helmert(3, full=True)",), ("hilbert(4)",), ("invhilbert(4)",), ("pascal(5)",), ("pascal(4, 'lower')",), ("pascal(4, 'upper')",), ("invpascal(4)",),
           ("invpascal(4, 'lower')",), ("invpascal(4, 'upper')",), ("circulant(2.0)",), ("fiedler(2.0)",), ("toeplitz(2.0)",), ("toeplitz(2)",), ("toeplitz(jnp.full((3,), 2.0))",), ("hankel(jnp.full((3,), 2.0))",), ("leslie(jnp.full((3,), 2.0), jnp.full((2,), 0.5))",), ("expm(jnp.zeros((0, 0)))",),
           ("expm(200 * jnp.eye(2), max_squarings=2)",), ("cholesky(-jnp.eye(2))",), tol=LOOSE),
    *(row for error, items in {
        "ValueError": [("block_diag(x)", B), ("companion(x)", V[:1]), ("convolution_matrix(x, 0)", V), ("convolution_matrix(x, 4, 'x')", V), ("dft(3, 'x')",),
                       ("dft(3, dtype=jnp.float32)",), ("hadamard(3)",), ("hankel(2.0)",), ("helmert(0)",), ("leslie(x, x)", V), ("pascal(3, 'x')",), ("invpascal(3, 'x')",),
                       ("expm(x)", TALL), ("expm(x)", V), ("expm_frechet(x, x[:2, :2])", A), ("funm(x, jnp.sin)", TALL), ("lu(x)", B), ("lu_solve((x, jnp.arange(3)), y, 3)", A, V),
                       ("lu_solve((x, jnp.arange(3)), y[:2])", A, V), ("cho_solve((x, True), y[:2])", A, V), ("polar(x, 'x')", A), ("polar(x, method='x')", A), ("polar(x)", V),
                       ("qr(x, mode='raw')", A), ("qr_multiply(x, x)", TALL), ("qr_multiply(x, x, 'x')", A), ("schur(x, 'x')", A), ("schur(x)", TALL), ("rsf2csf(x, x[:2, :2])", A),
                       ("solve(x, y, assume_a='x')", A, V), ("solve(x, y[:2])", A, V), ("solve_sylvester(x, x, x[:2])", A), ("solve_sylvester(x, x, x, method='x')", A),
                       ("solve_triangular(x, y, trans=5)", A, V), ("solve_triangular(x, y[:2])", A, V), ("eigh_tridiagonal(x, y, eigvals_only=True, select='x')", V, V[1:]),
                       ("eigh_tridiagonal(x, y, eigvals_only=True, select='i')", V, V[1:]), ("sqrtm(x)", TALL), ("hessenberg(x)", TALL)],
        "TypeError": [("toeplitz([1.0])",), ("inv([[1.0]])",), ("lu(x)", V), ("schur(x)", I), ("hessenberg(x)", I), ("hilbert(-1)",),
                      ("eigh_tridiagonal(x, x, eigvals_only=True)", V), ("eigh_tridiagonal(x, 1j * x[1:], eigvals_only=True)", V)],
        "NotImplementedError": [("eigh(x, x)", A), ("eigh(x, type=2)", A), ("eigh(x, eigvals=(0, 1))", A), ("sqrtm(x, blocksize=2)", A), ("polar(x.T)", TALL), ("polar(x, 'left')", A),
                                ("eigh_tridiagonal(x, y, eigvals_only=True, select='v', select_range=(0, 2))", V, V[1:])],
    }.items() for n, (text, *args) in enumerate(items)
      for row in table(("eager",), (text + "   " + " " * n, *args), error=error)),
]
