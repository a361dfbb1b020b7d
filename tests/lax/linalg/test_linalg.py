"""Linear algebra beyond the reference: derivatives it does not have, sharded batches, and life without SciPy."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import xlab
from xlab import lax

RANDOM = np.random.RandomState(0)


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 3), (2, 5, 3), (2, 3, 5)])
@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_qr_derivative_is_a_difference(shape, pivoting, full, dtype):
    x, dx = (RANDOM.randn(*shape).astype(dtype) for _ in range(2))
    if dtype == np.complex128:
        x, dx = x + 1j * RANDOM.randn(*shape), dx + 1j * RANDOM.randn(*shape)
    fun = lambda a: lax.linalg.qr(a, pivoting=pivoting, full_matrices=full)[:2]
    with xlab.enable_x64(True):
        ahead, behind = fun(x + 1e-6 * dx), fun(x - 1e-6 * dx)
        _, slopes = xlab.jvp(fun, (x,), (dx,))
    for a, b, t in zip(ahead, behind, slopes):
        np.testing.assert_allclose(t, (np.asarray(a) - np.asarray(b)) / 2e-6, rtol=1e-5, atol=1e-6)


def test_cholesky_update_under_vmap():
    r = np.triu(RANDOM.rand(2, 3, 3) + np.eye(3)).astype(np.float32)
    w = RANDOM.rand(2, 3).astype(np.float32)
    out = np.asarray(xlab.vmap(lax.linalg.cholesky_update)(r, w))
    np.testing.assert_allclose(out.mT @ out, r.mT @ r + w[:, :, None] * w[:, None, :], rtol=1e-5)


def test_perturbed_tridiagonal_systems_have_solutions():
    one = np.ones(2, np.float32)
    assert np.isnan(lax.linalg.tridiagonal_solve(one, one, one, one[:, None])).all()
    assert np.isfinite(
        lax.linalg.tridiagonal_solve(one, one, one, one[:, None], perturb_singular=True)
    ).all()


CALLS = {
    "cholesky": lambda x: lax.linalg.cholesky(x @ x.mT + xlab.numpy.eye(3)),
    "eigh": lambda x: lax.linalg.eigh(x)[1],
    "lu": lambda x: lax.linalg.lu(x)[0],
    "svd": lambda x: lax.linalg.svd(x, compute_uv=False),
    "triangular_solve": lambda x: lax.linalg.triangular_solve(
        x + 3 * xlab.numpy.eye(3), x, left_side=True
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_batch_over_devices_stays_where_it_is(name):
    count = min(xlab.device_count(), 4)
    if count < 2:
        pytest.skip("needs several devices")
    mesh = xlab.make_mesh((count,), ("i",), devices=xlab.devices()[:count])
    x = RANDOM.randn(2 * count, 3, 3).astype(np.float32)
    placed = xlab.device_put(x, xlab.NamedSharding(mesh, xlab.P("i")))
    compiled = xlab.jit(CALLS[name]).lower(placed).compile()
    assert "all-gather" not in compiled.as_text()
    np.testing.assert_allclose(compiled(placed), CALLS[name](x), rtol=1e-4, atol=1e-5)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_scipy_the_error_says_what_to_install():
    said = run("""
import sys
sys.modules["scipy"] = None
import numpy as np, xlab
try:
    xlab.numpy.linalg.inv(np.eye(2))
except ImportError as e:
    print(e)
""")
    assert "pip install scipy" in said


@pytest.mark.beside
def test_scipy_and_linear_algebra_are_imported_when_used():
    said = run("""
import sys, xlab
xlab.numpy.sin(1.0), xlab.random.key(0), xlab.nn.relu(1.0)
print([m for m in ("scipy", "xlab.lax.linalg", "jax") if m in sys.modules])
print(float(xlab.numpy.linalg.det(xlab.numpy.eye(4))), "jax" in sys.modules)
""")
    assert said.split("\n")[:2] == ["[]", "1.0 False"]


@pytest.mark.reference
@pytest.mark.skipif(
    find_spec("jax") is None, reason="the reference is not installed in this environment"
)
@pytest.mark.parametrize("first", ["jax", "xlab"])
def test_the_reference_in_the_same_process(first):
    other = {"jax": "xlab", "xlab": "jax"}[first]
    said = run(f"""
import numpy as np
import {first}, {first}.numpy as one
a = one.linalg.inv(2 * np.eye(3, dtype=np.float32))
import {other}, {other}.numpy as two
b = two.linalg.inv(2 * np.eye(3, dtype=np.float32))
print(float(a[0, 0]), float(b[0, 0]), float(one.linalg.det(4 * np.eye(4))), float(two.linalg.eigvalsh(np.eye(3))[0]))
""")
    assert said.split() == ["0.5", "0.5", "256.0", "1.0"]
