"""The programs that benchmarks trace and lower, written once for both sides."""

from __future__ import annotations

import numpy as np

from tests.reference.sample import Namespaces


def lax_chain(n: Namespaces, operations: int):
    """A new function of one array that applies `operations` operations of `lax`."""
    lax = n.lax

    def chain(x):
        for _ in range(operations // 4):
            y = lax.sin(x)
            x = lax.mul(y, x)
            x = lax.add(x, y)
            x = lax.neg(x)
        return x

    return chain


def numpy_chain(n: Namespaces, operations: int):
    """A new function of one array that applies `operations` operations of `numpy`."""
    jnp = n.jnp

    def chain(x):
        for _ in range(operations // 4):
            y = jnp.sin(x)
            x = y * 2.0
            x = jnp.maximum(x, y)
            x = x + y
        return x

    return chain


def transformer_parameters(
    layers: int = 12, width: int = 64, tokens: int = 17, classes: int = 10
) -> dict:
    """Random parameters, as nested dicts of numpy arrays."""
    random = np.random.RandomState(0)

    def matrix(*shape):
        return (random.randn(*shape) * 0.02).astype(np.float32)

    def norm():
        return {"scale": np.ones(width, np.float32), "bias": np.zeros(width, np.float32)}

    return {
        "embed": matrix(classes, width),
        "position": matrix(tokens, width),
        "norm": norm(),
        "head": matrix(width, classes),
        "layers": [
            {
                "norm1": norm(),
                "norm2": norm(),
                "qkv": matrix(width, 3 * width),
                "out": matrix(width, width),
                "up": matrix(width, 4 * width),
                "down": matrix(4 * width, width),
            }
            for _ in range(layers)
        ],
    }


def train_step(n: Namespaces, heads: int = 4):
    """A new function `(params, moments, tokens, labels) -> (params, moments, loss)`: Adam on cross-entropy."""
    jnp = n.jnp
    tree_map = n.jax.tree_util.tree_map

    def normalized(p, x):
        mean = jnp.mean(x, axis=-1, keepdims=True)
        var = jnp.var(x, axis=-1, keepdims=True)
        return p["scale"] * (x - mean) * n.lax.rsqrt(var + 1e-5) + p["bias"]

    def attention(p, x):
        batch, length, width = x.shape
        q, k, v = jnp.split((x @ p["qkv"]).reshape(batch, length, heads, -1), 3, axis=-1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads).astype(np.float32)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", n.nn.softmax(scores, axis=-1), v)
        return mixed.reshape(batch, length, width) @ p["out"]

    def loss(params, tokens, labels):
        x = params["embed"][tokens] + params["position"]
        for layer in params["layers"]:
            x = x + attention(layer, normalized(layer["norm1"], x))
            x = x + n.nn.gelu(normalized(layer["norm2"], x) @ layer["up"]) @ layer["down"]
        logits = normalized(params["norm"], x).mean(axis=1) @ params["head"]
        return -jnp.mean(jnp.take_along_axis(n.nn.log_softmax(logits), labels[:, None], axis=-1))

    def step(params, moments, tokens, labels):
        value, grads = n.jax.value_and_grad(loss)(params, tokens, labels)
        first = tree_map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
        second = tree_map(lambda v, g: 0.99 * v + 0.01 * g * g, moments[1], grads)
        params = tree_map(
            lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, first, second
        )
        return params, (first, second), value

    return step


def train_arguments():
    """Arguments for `train_step`."""
    params = transformer_parameters()
    random = np.random.RandomState(1)
    return (
        params,
        (params, params),
        random.randint(0, 10, (8, 17)).astype(np.int32),
        random.randint(0, 10, 8).astype(np.int32),
    )
