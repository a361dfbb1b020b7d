"""`custom_vjp` with `optimize_remat`: the same derivatives, and no residuals where nobody reads them."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.interpreters import partial_eval as pe


def make(optimize):
    @xlab.custom_vjp
    def f(x, y):
        return jnp.sin(x) * y, jnp.sum(x)

    def fwd(x, y):
        return (jnp.sin(x) * y, jnp.sum(x)), (jnp.cos(x), jnp.sin(x), y)

    def bwd(res, cts):
        cos, sin, y = res
        return cts[0] * cos * y + cts[1], cts[0] * sin

    f.defvjp(fwd, bwd, optimize_remat=optimize)
    return lambda x, y: sum(jnp.sum(o) for o in f(x, y))


X = np.float32([0.1, 0.2, 0.3])
TRANSFORMS = {
    "grad": lambda f: xlab.grad(f, (0, 1)),
    "jit.grad": lambda f: xlab.jit(xlab.grad(f, (0, 1))),
    "grad.jit": lambda f: xlab.grad(xlab.jit(f), (0, 1)),
    "vmap.grad": lambda f: xlab.vmap(xlab.grad(f, (0, 1))),
    "grad.vmap": lambda f: xlab.grad(lambda x, y: xlab.vmap(f)(x, y).sum(), (0, 1)),
    "grad.checkpoint": lambda f: xlab.grad(xlab.checkpoint(lambda x, y: jnp.sin(f(x, y))), (0, 1)),
    "vmap.grad.checkpoint": lambda f: xlab.vmap(
        xlab.grad(xlab.checkpoint(lambda x, y: jnp.sin(f(x, y))), (0, 1))
    ),
    "grad.grad": lambda f: xlab.grad(lambda x, y: xlab.grad(f)(x, y).sum(), (0, 1)),
    "grad.grad.checkpoint": lambda f: xlab.grad(
        lambda x, y: xlab.grad(xlab.checkpoint(f))(x, y).sum(), (0, 1)
    ),
    "scan": lambda f: xlab.grad(
        lambda x, y: xlab.lax.scan(lambda c, _: (c + f(c, y), None), x, None, length=3)[0].sum(),
        (0, 1),
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_derivative_is_the_same(name):
    got, want = (TRANSFORMS[name](make(optimize))(X, 2 * X) for optimize in (True, False))
    xlab.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), got, want)


def test_what_is_recorded():
    f = make(True)
    names = [e.primitive.name for e in xlab.make_jaxpr(xlab.grad(f))(X, X).eqns]
    assert names[0] == "remat_opt"
    closed = xlab.make_jaxpr(xlab.grad(xlab.checkpoint(lambda x, y: jnp.sin(f(x, y)))))(X, X)
    names = [e.primitive.name for e in closed.eqns]
    assert names[0] == "closed_call" and "remat_opt" not in names
    inner = next(e for e in closed.eqns if e.primitive.name == "remat2").params["jaxpr"]
    assert inner.eqns[0].primitive.name == "remat_opt"
    assert xlab.make_jaxpr(f)(X, X).eqns[0].primitive.name == "custom_vjp_call"


def test_effects_stay_where_no_result_is_read():
    seen = []

    @xlab.custom_vjp
    def f(x):
        xlab.debug.callback(seen.append, x)
        return x * 2

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 2,), optimize_remat=True)
    jaxpr = xlab.make_jaxpr(lambda x: xlab.vjp(f, x)[0])(1.0).jaxpr
    assert "remat_opt" in str(jaxpr)
    left, used = pe.dce_jaxpr(jaxpr, [False])
    assert used == [True] and "debug_callback" in str(left)
    xlab.jit(lambda x: (xlab.vjp(f, x)[0], x)[1])(3.0).block_until_ready()
    xlab.effects_barrier()
    assert [float(x) for x in seen] == [3.0]
