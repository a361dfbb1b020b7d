"""Programs whose printed jaxpr is compared with the reference's, character by character."""

from __future__ import annotations

import numpy as np

from tests.reference.data import BF16, floats, ints
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
X, W = floats(3), floats(3, 3)
TEXT = ("text",)
DEEP = ("text", "text.grad", "text.vmap", "text.jvp")


def attention(n, q, k, v):
    scores = n.lax.dot_general(q, k, (((1,), (1,)), ((), ())))
    weights = n.lax.exp(scores - n.lax.reduce_max(scores, (1,))[:, None])
    return n.lax.dot_general(weights, v, (((1,), (0,)), ((), ())))


def scanned(n, x, xs):
    return n.lax.scan(lambda c, x: (n.lax.sin(c) * x, c), x, xs)


SAMPLES = [
    Sample("sin", lambda n, x: n.lax.sin(x), [X], DEEP),
    Sample("chain", lambda n, x: n.lax.mul(n.lax.sin(x), n.lax.add(x, 1.0)), [X], DEEP),
    Sample("literals", lambda n, x: x * 2.0 + 1, [X], TEXT),
    Sample("weak", lambda n, x: x * 2, [3.0], TEXT),
    Sample("integers", lambda n, x: x + np.int32(1), [ints(3)], TEXT),
    Sample("constant", lambda n, x: x + np.arange(3, dtype=np.float32), [X], TEXT),
    Sample("unused", lambda n, x, y: (x, 1.0), [X, W], TEXT),
    Sample("several", lambda n, x: {"b": (x, x + x), "a": n.lax.neg(x)}, [X], TEXT),
    Sample("dot", lambda n, x, w: n.lax.dot_general(x, w, (((0,), (0,)), ((), ()))), [X, W],
           ("text", "computing.grad", "text.vmap", "text.jvp")),
    Sample("matmul", lambda n, x, w: x @ w, [X, W], TEXT),
    Sample("reduce", lambda n, x: n.lax.reduce_sum(x, (0, 1)), [W], ("text", "text.grad", "text.jvp")),
    Sample("broadcast", lambda n, x: n.lax.broadcast_in_dim(x, (2, 3), (1,)), [X], TEXT),
    Sample("reshape", lambda n, x: n.lax.transpose(n.lax.reshape(x, (1, 9)), (1, 0)), [W], TEXT),
    Sample("convert", lambda n, x: n.lax.convert_element_type(x, BF16), [X], TEXT),
    Sample("select", lambda n, x: n.lax.select(x > 0, x, n.lax.exp(x)), [X], TEXT),
    Sample("slice", lambda n, x: n.lax.slice(x, (0, 1), (2, 3)), [W], TEXT),
    Sample("dynamic_slice", lambda n, x, i: n.lax.dynamic_slice(x, (i,), (2,)), [X, np.int32(1)], TEXT),
    Sample("cond", lambda n, p, x: n.lax.cond(p, n.lax.sin, n.lax.cos, x), [np.bool_(True), X], TEXT),
    Sample("while", lambda n, x: n.lax.while_loop(lambda x: x[0] < 3, lambda x: x * 2.0, x), [X], TEXT),
    Sample("scan", scanned, [np.float32(1), X], TEXT),
    Sample("jit", lambda n, x: n.jax.jit(lambda y: n.lax.sin(y))(x), [X], TEXT),
    Sample("jit_inner", lambda n, x: n.jax.jit(n.lax.sin)(x) + n.jax.jit(n.lax.cos)(x), [X], TEXT),
    Sample("iota", lambda n: n.lax.iota(np.int32, 4), [], TEXT),
    Sample("attention", attention, [floats(2, 4), floats(3, 4), floats(3, 4)], ("primitives", "computing.grad")),
    Sample("mlp", lambda n, x, w: n.jnp.mean(n.jnp.tanh(x @ w) ** 2), [W, W], ("primitives", "computing.grad")),
    Sample("checkpoint", lambda n, x: n.jax.checkpoint(lambda x: n.lax.sin(n.lax.sin(x)))(x), [X],
           ("primitives", "primitives.grad")),
]
