"""Training steps with a structure of their own: a transformer whose layers a Python loop calls, one that scans them, an RNN, a network of convolutions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab import P, lax, nn
from xlab.sharding import AxisType, NamedSharding, make_mesh

LAYERS = 6


@functools.cache
def mesh():
    return make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def put(x, *spec):
    return xlab.device_put(x, NamedSharding(mesh(), P(*spec)))


def small(*shape):
    return np.full(shape, 0.01, np.float32)


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(p, x):
    q, k, v = x @ p["wq"], x @ p["wk"], x @ p["wv"]
    scores = nn.softmax(q @ k.transpose(0, 2, 1) / 4.0)
    return (scores @ v) @ p["wo"]


def mlp(p, x):
    return jnp.tanh(x @ p["up"]) @ p["down"]


def block(p, x):
    x = x + attention(p, norm(x))
    return x + mlp(p, norm(x))


def tower(layers, x):
    for p in layers:
        x = block(p, x)
    return x


def scanned(layers, x):
    return lax.scan(lambda x, p: (block(p, x), None), x, layers)[0]


def loss(params, tokens, labels, layers_of):
    x = params["embed"][tokens]
    x = layers_of(params["layers"], x)
    scores = nn.log_softmax(norm(x) @ params["out"])
    return -jnp.mean(jnp.take_along_axis(scores, labels[..., None], -1))


def update(params, grads):
    return xlab.tree.map(lambda w, g: w - 0.1 * g, params, grads)


def train_step(params, tokens, labels):
    value, grads = xlab.value_and_grad(loss)(params, tokens, labels, tower)
    return update(params, grads), value


def scan_step(params, tokens, labels):
    value, grads = xlab.value_and_grad(loss)(params, tokens, labels, scanned)
    return update(params, grads), value


def layer(d=32, leading=()):
    column, row = ("wq", "wk", "wv", "up"), ("wo", "down")
    axes = (None,) * len(leading)
    return {n: put(small(*leading, d, d), *axes, None, "model") for n in column} | {
        n: put(small(*leading, d, d), *axes, "model", None) for n in row
    }


def transformer(step: Callable[..., Any] = train_step) -> tuple[Callable[..., Any], tuple]:
    layers = layer(leading=(LAYERS,)) if step is scan_step else [layer() for _ in range(LAYERS)]
    params = {"embed": put(small(64, 32)), "out": put(small(32, 64)), "layers": layers}
    tokens = np.arange(8 * 16).reshape(8, 16) % 64
    return step, (params, put(tokens, "data"), put(tokens, "data"))


def cell(w, h, x):
    return jnp.tanh(x @ w["in"] + h @ w["own"])


def rnn_loss(w, xs):
    h, _ = lax.scan(lambda h, x: (cell(w, h, x), None), jnp.zeros((4, 16)), xs)
    return (h**2).mean()


def rnn_step(w, xs):
    return update(w, xlab.grad(rnn_loss)(w, xs))


def rnn() -> tuple[Callable[..., Any], tuple]:
    return rnn_step, ({"in": small(8, 16), "own": small(16, 16)}, small(20, 4, 8))


def conv_block(w, x):
    x = lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )  # fmt: skip
    return nn.relu(x)


def conv_loss(ws, x):
    for w in ws:
        x = conv_block(w, x)
    return (x.mean((1, 2)) ** 2).mean()


def conv_step(ws, x):
    return update(ws, xlab.grad(conv_loss)(ws, x))


def conv_net() -> tuple[Callable[..., Any], tuple]:
    return conv_step, ([small(3, 3, 4, 4) for _ in range(4)], small(2, 8, 8, 4))


PROGRAMS: dict[str, Callable[[], tuple[Callable[..., Any], tuple]]] = {
    "transformer": transformer,
    "scanned transformer": functools.partial(transformer, scan_step),
    "RNN": rnn,
    "convolutions": conv_net,
}
