"""pmap against loops and against vmap."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax

X = np.arange(8, dtype=np.float32)


def test_one_example_per_device():
    out = xlab.pmap(lambda x: x * 2)(X[:5])
    assert np.asarray(out).tolist() == (2 * X[:5]).tolist()
    assert out.sharding.num_devices == 5 and out.committed


def test_collectives_by_name():
    assert np.asarray(xlab.pmap(lambda x: lax.psum(x, "a"), axis_name="a")(X)).tolist() == [28.0] * 8
    assert np.asarray(xlab.pmap(lambda x: x / lax.axis_size("a"), axis_name="a")(X)).tolist() == (X / 8).tolist()


@pytest.mark.parametrize(("ins", "outs"), [(0, 0), (1, 1), (-1, -1), (0, 1), (1, 0)])
def test_axes_as_for_vmap(ins, outs):
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    want = xlab.vmap(jnp.sin, in_axes=ins, out_axes=outs)(x)
    got = xlab.pmap(jnp.sin, in_axes=ins, out_axes=outs)(x)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


def test_trees_replicated_and_static_arguments():
    out = xlab.pmap(lambda d, w, n: {"p": d["x"] * w, "q": w * n}, in_axes=({"x": 0}, None, 0),
                    out_axes={"p": 0, "q": None}, static_broadcasted_argnums=2)({"x": X}, np.float32(3), 2)
    assert np.asarray(out["p"]).tolist() == (3 * X).tolist() and float(out["q"]) == 6.0
    assert np.asarray(xlab.pmap(lambda x, *, y: x + y)(X, y=X)).tolist() == (2 * X).tolist()


def test_gradient_and_jit():
    f = xlab.pmap(lambda x: lax.psum(x, "a") * x, axis_name="a")
    want = np.asarray(xlab.grad(lambda x: xlab.vmap(lambda v: lax.psum(v, "a") * v, axis_name="a")(x).sum())(X))
    np.testing.assert_allclose(np.asarray(xlab.grad(lambda x: f(x).sum())(X)), want)
    np.testing.assert_allclose(np.asarray(xlab.jit(f)(X)), 28 * X)


def test_traced_once():
    count = []

    def body(x):
        count.append(1)
        return x + 1
    f = xlab.pmap(body)
    f(X), f(X), f(X + 1)
    assert len(count) == 1


ERRORS = {
    "function": (TypeError, "function", lambda: xlab.pmap(3)),
    "axes": (TypeError, "in_axes leaves must be int or None.*'a'", lambda: xlab.pmap(lambda x: x, in_axes="a")),
    "out_axes": (TypeError, "out_axes", lambda: xlab.pmap(lambda x: x, out_axes="a")),
    "nothing": (ValueError, "at least one mapped argument", lambda: xlab.pmap(lambda x: x, in_axes=None)(X)),
    "sizes": (ValueError, "inconsistent", lambda: xlab.pmap(lambda x, y: x)(X, X[:4])),
    "devices": (ValueError, "9 devices.*only 8", lambda: xlab.pmap(lambda x: x)(np.ones(9))),
    "both": (ValueError, "static and donated", lambda: xlab.pmap(
        lambda x: x, static_broadcasted_argnums=0, donate_argnums=0)),
    "static_count": (ValueError, r"static_broadcasted_argnums=\(1,\)", lambda: xlab.pmap(
        lambda x, n: x, static_broadcasted_argnums=1)(X)),
    "range": (ValueError, "out of range", lambda: xlab.pmap(lambda x: x, in_axes=1)(X)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    kind, words, act = ERRORS[name]
    with pytest.raises(kind, match=f"(?s){words}"):
        act()
