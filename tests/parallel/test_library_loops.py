"""Functions of the library that loop inside: in a body of `shard_map` each device gets what it gets alone, and a user's loop keeps its types."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax, random
from xlab.experimental.ode import odeint
from xlab.scipy import optimize
from xlab.scipy.sparse import linalg as sparse
from xlab.sharding import AxisType, P, make_mesh

X = np.linspace(0.1, 0.9, 16, dtype=np.float32)
BINS = np.arange(5, dtype=np.float32) / 4


def key(x):
    """A key that differs between devices: it is made of their values."""
    return random.fold_in(random.key(0), (x[0] * 1000).astype(jnp.int32))


LOOPS = {
    "searchsorted": lambda x: jnp.searchsorted(BINS, x),
    "searchsorted in what varies": lambda x: jnp.searchsorted(x, BINS[:2]),
    "histogram": lambda x: jnp.histogram(x, BINS)[0],
    "interp": lambda x: jnp.interp(x, BINS, BINS**2),
    "nonzero": lambda x: jnp.nonzero(x > 0.3, size=2)[0],
    "gcd": lambda x: jnp.gcd((x * 60).astype(jnp.int32), 36),
    "poisson": lambda x: random.poisson(random.key(1), 9 * x),
    "poisson of varying keys": lambda x: random.poisson(key(x), 3.0, (2,)),
    "binomial": lambda x: random.binomial(key(x), 20.0, x),
    "gmres": lambda x: sparse.gmres(lambda v: 2 * v, x)[0],
    "bicgstab": lambda x: sparse.bicgstab(lambda v: 2 * v, x)[0],
    "minimize": lambda x: optimize.minimize(lambda z: ((z - x) ** 2).sum(), jnp.zeros(2), method="BFGS").x,
    "odeint": lambda x: odeint(lambda y, t: -y * x, x, jnp.linspace(0.0, 1.0, 3))[-1],
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_each_device_gets_what_it_gets_alone(name):
    """C19: what goes round varies as what comes out, without anybody casting it."""
    f = LOOPS[name]
    mesh = make_mesh((8,), ("i",), axis_types=AxisType.Auto)
    g = xlab.shard_map(lambda x: f(x)[None], mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    alone = xlab.jit(f)
    want = np.stack([np.asarray(alone(x)) for x in X.reshape(8, 2)])
    np.testing.assert_allclose(xlab.jit(g)(X), want, rtol=1e-5, atol=1e-6)


def test_loops_of_the_user_keep_their_types():
    mesh = make_mesh((8,), ("i",), axis_types=AxisType.Auto)

    def started(x):
        return lax.pcast(jnp.zeros(2), "i", to="varying")

    def run(f):
        return xlab.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(X)

    for loop in (
        lambda x, c: lax.fori_loop(0, 3, lambda _, c: c + x, c),
        lambda x, c: lax.fori_loop(jnp.int32(0), 3, lambda _, c: c + x, c),
        lambda x, c: lax.scan(lambda c, _: (c + x, None), c, None, length=3)[0],
        lambda x, c: lax.while_loop(lambda c: False, lambda c: c + x, c) + 3 * x,
        lambda x, c: lax.while_loop(lambda c: False, xlab.jit(lambda c: c + x), c) + 3 * x,
    ):
        np.testing.assert_allclose(run(lambda x, loop=loop: loop(x, started(x))), 3 * X, rtol=1e-6)
        with pytest.raises(TypeError, match="lax.pcast"):
            run(lambda x, loop=loop: loop(x, jnp.zeros(2)))
