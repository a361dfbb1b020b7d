"""Arrays of 64 bits where 64-bit types are off: they are taken as they are, and meet others in 32 bits, as in the reference."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax


@pytest.fixture(scope="module")
def wide():
    with xlab.enable_x64(True):
        return jnp.arange(3.0), jnp.arange(3)


@pytest.mark.parametrize(
    "wrap", [lambda f: f, xlab.jit, lambda f: xlab.vmap(f)], ids=["eager", "jit", "vmap"]
)
@pytest.mark.parametrize(
    ("f", "dtype"),
    [
        (lambda x: x + 1, "float32"),
        (lambda x: 2.0 * x, "float32"),
        (lambda x: x + x, "float64"),
        (jnp.sin, "float64"),
        (lax.neg, "float64"),
        (lambda x: jnp.where(x > 1, x, 0), "float32"),
        (lambda x: x * np.float32(2), "float32"),
    ],
)
def test_floats(wide, wrap, f, dtype):
    out = wrap(f)(wide[0])
    assert out.dtype == dtype
    with xlab.enable_x64(True):
        np.testing.assert_allclose(out, f(wide[0]))


def test_integers(wide):
    assert (wide[1] + 1).dtype == xlab.jit(lambda i: 1 - i)(wide[1]).dtype == "int32"
    assert jnp.ones(3)[wide[1]].shape == (3,)


def test_derivatives(wide):
    for f in (
        lambda x: (x * x).sum(),
        lambda x: (x * x + 1.0).sum(),
        xlab.jit(lambda x: jnp.sum(2 * x * x) / 2),
    ):
        out = xlab.grad(f)(wide[0])
        assert out.dtype == "float64"
        np.testing.assert_allclose(out, 2 * np.arange(3.0))


def test_one_jit_on_both_sides_of_the_switch(wide):
    f = xlab.jit(lambda x: x * 2 + jnp.zeros(()))
    before = f(1.5).dtype, f(np.float64(1)).dtype
    with xlab.enable_x64(True):
        assert (
            f(1.5).dtype == f(np.float64(1)).dtype == "float64"
            and f(np.float32(1)).dtype == "float64"
        )
    assert (f(1.5).dtype, f(np.float64(1)).dtype) == before == ("float32",) * 2
