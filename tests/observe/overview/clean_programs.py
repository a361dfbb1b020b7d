"""Programs of all sorts that have no finding."""

from __future__ import annotations

import functools

import xlab
import xlab.numpy as jnp
from tests.observe.overview.finding_cases import held, ones, put
from tests.observe.overview.finding_programs import convolved, gelu, rows, sample
from xlab import lax


def transformer():
    """A training step, parameters donated, layers scanned, blocks that keep their products, data parallel."""

    @functools.partial(xlab.checkpoint, policy=xlab.checkpoint_policies.dots_saveable)
    def block(x, p):
        q, k, v = (jnp.reshape(x @ p[n], (*x.shape[:2], 2, 16)) for n in "qkv")
        w = xlab.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4)
        x = x + jnp.reshape(jnp.einsum("bhqk,bkhd->bqhd", w, v), x.shape)
        return x + gelu(x @ p["up"]) @ p["down"], None

    def step(params, x):
        loss = lambda p: jnp.mean(lax.scan(block, x, p)[0] ** 2)
        return xlab.tree.map(lambda p, g: p - 0.1 * g, params, xlab.grad(loss)(params))

    shapes = {"q": (32, 32), "k": (32, 32), "v": (32, 32), "up": (32, 128), "down": (128, 32)}
    params = {n: put(ones(4, *s)) for n, s in shapes.items()}
    return xlab.jit(step, donate_argnums=0), (params, put(ones(8, 32, 32), "data"))


def conv_net():
    def net(filters, x):
        for f in filters:
            x = jnp.maximum(convolved(("NHWC", "HWIO", "NHWC"))(x, f), 0)
        return x.mean((1, 2))

    return net, ([ones(3, 3, 16, 16)] * 3, ones(8, 16, 16, 16))


def rnn():
    return rows, (ones(20, 8, 128), ones(128, 128))


def experts():
    def layer(x, w):
        sent = held(jnp.einsum("gsd->sgd", x), "data")
        made = jnp.einsum("egd,edh->egh", sent, w)
        return jnp.tanh(made).sum((0, 1))

    return layer, (put(ones(32, 32, 64), "data"), put(ones(32, 64, 16), "data"))


def sampler():
    return xlab.jit(sample, donate_argnums=0), (ones(128, 256), ones(256, 4))


def gaussian_process():
    def fit(x, y):
        distance = jnp.sum((x[:, None] - x[None]) ** 2, -1)
        k = jnp.exp(-distance / 2) + 1e-1 * jnp.eye(len(x))
        factor = jnp.linalg.cholesky(k)
        return lax.linalg.triangular_solve(factor, y[:, None], left_side=True, lower=True)

    return fit, (ones(160, 8), ones(160))


def images_over_devices():
    net, (filters, x) = conv_net()
    return net, ([put(f) for f in filters], put(x, ("data", "model")))


def sequences_over_devices():
    f, (xs, w) = rnn()
    return f, (put(xs, None, ("data", "model")), put(w))


CLEAN = {f.__name__: f for f in (transformer, conv_net, rnn, experts, sampler, gaussian_process)}
CLEAN_OVER_DEVICES = {f.__name__: f for f in (images_over_devices, sequences_over_devices)}
"""Here changes are tried too: there is something to send, and no better way."""
