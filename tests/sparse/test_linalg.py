"""Solvers for sparse matrices beside the dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.experimental import sparse
from xlab.sparse.host_lu import solve_sparse

M = np.array([[0, 2, 0, 1], [1, 0, 0, 0], [0, 3, 4, 0], [5, 0, 0.5, 2]], np.float32)
B = np.array([1, -2, 0.5, 3], np.float32)
A = sparse.BCSR.fromdense(M)


def solved(data, b):
    return sparse.linalg.spsolve(data, A.indices, A.indptr, b)


def test_a_system_with_its_derivatives():
    np.testing.assert_allclose(xlab.jit(solved)(A.data, B), np.linalg.solve(M, B), rtol=1e-4)

    def dense(data, b):
        return jnp.linalg.solve(
            sparse.BCSR((data, A.indices, A.indptr), shape=M.shape).todense(), b
        )

    weights = np.arange(4.0, dtype=np.float32)
    ours, theirs = (
        xlab.grad(lambda d, b, f=f: (weights * f(d, b)).sum(), (0, 1))(A.data, B)
        for f in (solved, dense)
    )
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_many_right_sides():
    many = np.stack([B, 2 * B, -B])
    out = xlab.vmap(solved, (None, 0))(A.data, many)
    np.testing.assert_allclose(out, np.linalg.solve(M, many.T).T, rtol=1e-4)


def test_elimination_on_the_host():
    rng = np.random.default_rng(0)
    n = 40
    dense = np.where(rng.random((n, n)) < 0.1, rng.normal(size=(n, n)), 0) + np.diag(
        rng.normal(size=n)
    )
    rows, cols = np.nonzero(dense)
    b = rng.normal(size=n)
    np.testing.assert_allclose(
        solve_sparse(dense[rows, cols], rows, cols, b, 1e-12),
        np.linalg.solve(dense, b),
        rtol=1e-6,
        atol=1e-8,
    )
    keep = rows != 3  # an empty row
    assert np.isnan(solve_sparse(dense[rows, cols][keep], rows[keep], cols[keep], b, 1e-12)).all()


def test_shapes_of_a_system():
    with pytest.raises(ValueError, match="spsolve: data, indices, indptr and b"):
        sparse.linalg.spsolve(A.data, A.indices, A.indptr, B[:3])


def test_the_largest_eigenvalues():
    values = np.concatenate([np.linspace(0, 1, 17), [2, 3, 5]]).astype(np.float32)
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(20, 20)))[0].astype(np.float32)
    matrix = (Q * values) @ Q.T
    start = np.asarray(xlab.random.normal(xlab.random.key(0), (20, 3)))
    theta, U, rounds = sparse.linalg.lobpcg_standard(jnp.asarray(matrix), start, m=60)
    np.testing.assert_allclose(theta, [5, 3, 2], rtol=1e-4)
    np.testing.assert_allclose(matrix @ U, U * theta, atol=5e-3)
    assert 0 < int(rounds) <= 60
    few, *_ = sparse.linalg.lobpcg_standard(sparse.BCOO.fromdense(matrix), start, m=2)
    assert few[0] <= theta[0] * 1.0001
    with pytest.raises(ValueError, match="5 k < n"):
        sparse.linalg.lobpcg_standard(jnp.asarray(matrix), np.ones((20, 4), np.float32))


def test_the_paths_that_programs_import():
    import importlib

    from xlab.experimental import sparse

    for name, member in (
        ("ad", "value_and_grad"),
        ("api", "eye"),
        ("bcoo", "bcoo_dot_general"),
        ("bcsr", "BCSR"),
        ("coo", "coo_matvec"),
        ("csr", "CSC"),
        ("linalg", "spsolve"),
        ("random", "random_bcoo"),
        ("transform", "sparsify"),
        ("util", "SparseEfficiencyError"),
    ):
        module = importlib.import_module(f"xlab.experimental.sparse.{name}")
        assert getattr(sparse, name) is module
        found = getattr(sparse, member, None) or getattr(xlab.sparse.linalg, member)
        assert getattr(module, member) is found
