"""The public API toured in a few seconds: run this first."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax, nn, random, tree

X = np.linspace(-1.0, 1.0, 8, dtype=np.float32)


def test_arrays():
    x = jnp.asarray(X)
    assert isinstance(x, xlab.Array) and x.shape == (8,) and x.dtype == np.float32
    np.testing.assert_allclose((x * 2 + 1)[::2].sum(), (X * 2 + 1)[::2].sum(), rtol=1e-6)
    np.testing.assert_allclose(
        x.reshape(2, 4) @ jnp.ones((4, 3)), X.reshape(2, 4) @ np.ones((4, 3)), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(x.at[0].set(5.0)[0], 5.0)
    assert str(xlab.typeof(x)) == "float32[8]"


def test_compile():
    f = xlab.jit(lambda x, n: jnp.tanh(x) ** n, static_argnames="n")
    np.testing.assert_allclose(f(X, n=2), np.tanh(X) ** 2, rtol=1e-5)
    lowered = f.lower(X, n=2)
    assert "stablehlo.tanh" in lowered.as_text()
    np.testing.assert_allclose(lowered.compile()(X), f(X, 2))
    assert f.eval_shape(X, n=2).shape == xlab.eval_shape(jnp.tanh, X).shape == (8,)
    assert "tanh" in str(xlab.make_jaxpr(lambda x: jnp.tanh(x))(X))


def test_differentiate():
    f = lambda x: (jnp.sin(x) * x).sum()
    np.testing.assert_allclose(xlab.grad(f)(X), np.cos(X) * X + np.sin(X), rtol=1e-5, atol=1e-6)
    value, slopes = xlab.value_and_grad(f)(X)
    np.testing.assert_allclose(value, (np.sin(X) * X).sum(), rtol=1e-5)
    np.testing.assert_allclose(xlab.jvp(f, (X,), (X,))[1], (slopes * X).sum(), rtol=1e-5)
    np.testing.assert_allclose(xlab.vjp(f, X)[1](jnp.float32(2))[0], 2 * slopes, rtol=1e-5)
    np.testing.assert_allclose(xlab.linearize(f, X)[1](X), (slopes * X).sum(), rtol=1e-5)
    np.testing.assert_allclose(
        xlab.hessian(f)(X), np.diag(2 * np.cos(X) - X * np.sin(X)), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(xlab.jacfwd(jnp.sin)(X), xlab.jacrev(jnp.sin)(X), rtol=1e-5)
    np.testing.assert_allclose(xlab.grad(xlab.checkpoint(f))(X), slopes, rtol=1e-5)


def test_batch():
    rows = np.stack([X, X + 1])
    np.testing.assert_allclose(xlab.vmap(jnp.dot, (0, None))(rows, X), rows @ X, rtol=1e-5)
    means = xlab.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(rows)
    np.testing.assert_allclose(means, rows - rows.mean(0), rtol=1e-5, atol=1e-6)


def test_control_flow():
    total, partial = lax.scan(lambda c, x: (c + x, c), 0.0, X)
    np.testing.assert_allclose(total, X.sum(), atol=1e-6)
    assert partial.shape == (8,)
    assert float(lax.cond(total > 100, lambda x: x, lambda x: -x, 3.0)) == -3.0
    assert int(lax.while_loop(lambda i: i < 10, lambda i: i * 2, 1)) == 16
    assert int(lax.fori_loop(0, 5, lambda i, c: c + i, 0)) == 10


def test_random_and_nn():
    key, other = random.split(random.key(0))
    x = random.normal(key, (1000,))
    assert abs(float(x.mean())) < 0.1 and abs(float(x.std()) - 1) < 0.1
    assert not np.array_equal(x, random.normal(other, (1000,)))
    np.testing.assert_allclose(nn.softmax(jnp.asarray(X)).sum(), 1.0, rtol=1e-6)
    assert nn.gelu(jnp.asarray(X)).shape == (8,)


def test_trees():
    params = {"w": jnp.ones((2, 2)), "b": [jnp.zeros(2), None]}
    doubled = tree.map(lambda x: x * 2, params)
    assert float(doubled["w"].sum()) == 8.0 and len(tree.leaves(params)) == 2
    g = xlab.grad(lambda p: (p["w"] @ p["b"][0]).sum())(params)
    assert g["b"][0].tolist() == [2.0, 2.0]


def test_devices(mesh):
    sharded = xlab.device_put(
        jnp.arange(16.0).reshape(8, 2), xlab.NamedSharding(mesh, xlab.P("data", "model"))
    )
    assert len(sharded.addressable_shards) == 8 and sharded.addressable_shards[0].data.shape == (
        2,
        1,
    )
    np.testing.assert_allclose(xlab.jit(lambda x: (x * 2).sum())(sharded), 240.0)
    total = xlab.shard_map(
        lambda x: lax.psum(x, "data"), mesh=mesh, in_specs=xlab.P("data"), out_specs=xlab.P()
    )
    np.testing.assert_allclose(total(jnp.arange(8.0)), [12.0, 16.0])
    assert xlab.device_count() == len(xlab.devices()) == 8


def test_observation():
    from xlab import observe

    program = observe.program(lambda x: jnp.sin(x) + 1, X)
    assert "sin" in str(program)


def test_options():
    with xlab.enable_x64():
        assert jnp.arange(3.0).dtype == np.float64
    with xlab.disable_jit():
        assert float(xlab.jit(lambda x: x + 1)(1.0)) == 2.0
    assert xlab.config.enable_x64 is False
    xlab.clear_caches()


class TestNames:
    def test_every_exported_name_is_there(self):
        missing = {}
        for name in xlab.__all__:
            try:
                getattr(xlab, name)
            except Exception as error:
                missing[name] = error
        assert not missing, missing
        assert set(xlab.__all__) <= set(dir(xlab))

    @pytest.mark.parametrize(
        ("wrong", "near"), [("vamp", "vmap"), ("gard", "grad"), ("make_jaxprs", "make_jaxpr")]
    )
    def test_an_unknown_name_names_the_nearest(self, wrong, near):
        with pytest.raises(AttributeError, match=f"xlab.{near}"):
            getattr(xlab, wrong)

    @pytest.mark.beside
    def test_importing_is_light(self):
        code = (
            "import sys, xlab\n"
            "heavy = {'IPython', 'matplotlib', 'scipy', 'jax', 'ipywidgets', 'anywidget', 'xlab.numpy', 'xlab.observe'}\n"
            "print(sorted(heavy & set(sys.modules)))\n"
            "xlab.jit(lambda x: x + 1)(1.0)\n"
            "print(sorted({'IPython', 'matplotlib', 'scipy', 'jax'} & set(sys.modules)))"
        )
        out = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert out.stdout.split("\n")[:2] == ["[]", "[]"]
