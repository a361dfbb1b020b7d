"""Iterative solvers: what they report, and right sides of integers."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.scipy.sparse.linalg import bicgstab, cg, gmres

A = np.diag(np.float32([1, 2, 3, 4]))
B = np.ones(4, np.float32)


def test_gmres_says_whether_its_result_is_a_number():
    x, info = gmres(A, B)
    assert info == 0 and info.dtype == np.int32
    np.testing.assert_allclose(A @ x, B, rtol=1e-4)
    assert gmres(A, B, np.full(4, np.nan, np.float32))[1] == -1
    assert xlab.jit(lambda b: gmres(A, b))(B)[1] == 0
    assert cg(A, B)[1] is None and bicgstab(A, B)[1] is None


@pytest.mark.parametrize("solve", [cg, bicgstab, gmres])
def test_a_right_side_of_integers_has_a_solution_of_floats(solve):
    for b, x0 in ((B.astype(int), None), (B.astype(int), np.ones(4, int)), (B, np.ones(4, int))):
        x, _ = solve(A.astype(int), b, x0)
        assert x.dtype == np.float32
        np.testing.assert_allclose(x, [1, 1 / 2, 1 / 3, 1 / 4], rtol=1e-4)


@pytest.mark.parametrize("method", ["batched", "incremental"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gmres_in_half_precision(dtype, method):
    x, info = gmres(jnp.asarray(A, dtype), jnp.asarray(B, dtype), solve_method=method)
    assert x.dtype == dtype and info == 0
    np.testing.assert_allclose(x.astype(np.float32), [1, 1 / 2, 1 / 3, 1 / 4], rtol=2e-2)
