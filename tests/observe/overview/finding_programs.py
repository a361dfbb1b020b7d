"""Programs that have a finding, each beside the same with the finding's change; and programs of all sorts that have none.

Kept apart from their test so that each is compiled once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab import P, lax
from xlab.sharding import AxisType, NamedSharding, make_mesh


def ones(*shape):
    return np.full(shape, 0.01, np.float32)


def narrow(*shape):
    return jnp.full(shape, 0.01, jnp.bfloat16)


@functools.cache
def mesh():
    return make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def put(x, *spec):
    return xlab.device_put(x, NamedSharding(mesh(), P(*spec)))


def held(x, *spec):
    return lax.with_sharding_constraint(x, NamedSharding(mesh(), P(*spec)))


class Case(NamedTuple):
    """A program with a finding, and the same as the finding says: without it."""

    kind: str
    name: str
    program: Callable[..., Any]
    args: tuple
    mended: Callable[..., Any]
    mended_args: tuple


def case(kind, name, program, args, mended=None, mended_args=None):
    return Case(kind, name, program, args, mended or program, mended_args or args)


# -- state, caches and their memory ------------------------------------------------------------------------------------


def mlp_step(w, x):
    def loss(w):
        return jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"]) ** 2)

    return xlab.tree.map(lambda p, g: p - 0.1 * g, w, xlab.grad(loss)(w))


MLP = {"a": ones(64, 512), "b": ones(512, 8)}


def write(cache, row, at):
    return lax.dynamic_update_slice(cache, row, (at, 0))


def sample(tokens, w):
    """A sampler: every round writes where it is."""

    def turn(i, tokens):
        logits = tokens[0] @ w
        return tokens.at[:, 0].set(jnp.tanh(logits).sum() + i)

    return lax.fori_loop(0, 4, turn, tokens)


def donations():
    donated = lambda f: xlab.jit(f, donate_argnums=0)
    for name, f, args in (
        ("training step", mlp_step, (MLP, ones(16, 64))),
        ("cache of a sampler", write, (ones(512, 64), ones(1, 64), 3)),
        ("sampler loop", sample, (ones(128, 256), ones(256, 4))),
    ):
        yield case("missed donation", name, f, args, donated(f))
    for name, f, args in (
        ("sum", lambda x: x.sum(0), (ones(256, 128),)),
        ("embedding", lambda t, i: t[i] * 2, (ones(512, 64), np.arange(4))),
        ("factor", lambda k: jnp.diag(jnp.linalg.cholesky(k)), (np.eye(136, dtype=np.float32),)),
    ):
        yield case("unused donation", name, donated(f), args, xlab.jit(f))


# -- results and arguments -----------------------------------------------------------------------------------------------


def rows(x, w):
    def cell(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h

    return lax.scan(cell, jnp.zeros((8, 128)), x)


def results():
    x = ones(160, 160)
    yield case("repeated result", "elementwise", lambda x: (x * 2,) * 2, (x,), lambda x: x * 2)
    yield case("repeated result", "product", lambda x: [y := x @ x, y], (x,), lambda x: x @ x)
    softmax = lambda x: xlab.nn.softmax(x)
    yield case("repeated result", "dict", lambda x: {"p": (p := softmax(x)), "q": p}, (x,), softmax)
    for name, made in (
        ("zeros", lambda: jnp.zeros((160, 160))),
        ("mask", lambda: jnp.tril(jnp.ones((160, 160)))),
        ("noise", lambda: xlab.random.normal(xlab.random.key(0), (160, 160))),
    ):
        yield case(
            "constant result", name, lambda x, made=made: (x * 2, made()), (x,), lambda x: x * 2
        )
    args = ones(20, 8, 128), ones(128, 128)
    last = lambda x, w: lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), jnp.zeros((8, 128)), x)[
        0
    ]
    yield case("unused result", "states of an RNN", lambda x, w: rows(x, w)[0], args, last)

    def with_norm(x, w):
        norm = jnp.exp(x @ w)
        del norm
        return x * 2

    yield case("unused result", "product", with_norm, (x, x), lambda x, w: (x * 2, w.sum()))

    def with_table(x):
        table = jnp.sin(x)
        del table
        return x + 1

    yield case("unused result", "table", with_table, (ones(320, 320),), lambda x: x + 1)


# -- the host ------------------------------------------------------------------------------------------------------------


def host():
    def loss(x):
        y = jnp.tanh(x)
        xlab.debug.print("mean {}", y.mean())
        return y

    def loop(x):
        def turn(h, _):
            xlab.debug.callback(lambda v: None, h.sum())
            return jnp.tanh(h), h.sum()

        return lax.scan(turn, x, None, length=3)[0]

    def quiet(x):
        return lax.scan(lambda h, _: (jnp.tanh(h), h.sum()), x, None, length=3)

    shape = xlab.ShapeDtypeStruct((4,), np.float32)
    table = lambda x: xlab.pure_callback(lambda x: np.asarray(x), shape, x) + 1
    yield case("host transfer", "print", loss, (ones(4),), jnp.tanh)
    yield case("host transfer", "callback in a loop", loop, (ones(4),), quiet)
    yield case("host transfer", "pure callback", table, (ones(4),), lambda x: x + 1)


# -- dtypes, loops, layouts ----------------------------------------------------------------------------------------------


def scaled(x, s):
    return jnp.tanh(x * s)


def normalized(x, scale):
    y = x - x.mean(-1, keepdims=True)
    return y * scale


def biased(x, w, b):
    return jnp.maximum(x @ w + b, 0)


def widened():
    x, s = narrow(256, 256), ones(256)
    for name, f, args in (
        ("scale", scaled, (x, s)),
        ("norm", normalized, (x, s)),
        ("bias", biased, (narrow(256, 64), narrow(64, 256), s)),
    ):
        mended = (*args[:-1], jnp.asarray(args[-1], jnp.bfloat16))
        yield case("widened type", name, f, args, f, mended)


def layer(x, w):
    return x + jnp.tanh(x @ w * 2 + 1) * jnp.exp(-x)


def network(ws, x):
    for w in ws:
        x = layer(x, w)
    return x


def scanned(ws, x):
    return lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0]


def by_hand(x, u):
    """A simulation whose steps a Python loop writes out."""
    for _ in range(6):
        x = x + 0.1 * (jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1)) * u
    return x


def simulated(x, u):
    turn = lambda _, x: x + 0.1 * (jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1)) * u
    return lax.fori_loop(0, 6, turn, x)


def unrolled():
    ws, x = [ones(8, 8)] * 6, ones(4, 8)
    stacked = np.stack(ws)
    yield case("unrolled loop", "layers", network, (ws, x), scanned, (stacked, x))
    yield case("unrolled loop", "simulation", by_hand, (ones(32), ones(32)), simulated)
    total = lambda f: lambda ws, x: f(ws, x).sum()
    yield case(
        "unrolled loop",
        "gradient of layers",
        xlab.grad(total(network)),
        (ws, x),
        xlab.grad(total(scanned)),
        (stacked, x),
    )


def convolved(dims):
    return lambda x, f: lax.conv_general_dilated(x, f, (1, 1), "SAME", dimension_numbers=dims)


def layouts():
    filters = ones(3, 3, 16, 16)
    yield case(
        "layout copy",
        "channels first",
        convolved(("NCHW", "HWIO", "NCHW")),
        (ones(8, 16, 16, 16), filters),
        convolved(("NHWC", "HWIO", "NHWC")),
        (ones(8, 16, 16, 16), filters),
    )
    scores = lambda s: lambda q, k: jnp.einsum(s, q, k)
    heads = ones(8, 32, 4, 32), ones(8, 32, 4, 32)
    ordered = ones(8, 4, 32, 32), ones(8, 4, 32, 32)
    yield case(
        "layout copy", "attention", scores("bqhd,bkhd->bhqk"), heads, scores("bhqd,bhdk->bhqk"), ordered
    )  # fmt: skip
    yield case(
        "layout copy",
        "batched product",
        scores("imb,mjb->bij"),
        (ones(32, 32, 32), ones(32, 32, 32)),
        scores("bim,bmj->bij"),
        (ones(32, 32, 32), ones(32, 32, 32)),
    )


def activation(x):
    return jnp.tanh(jnp.exp(-jnp.square(x))) * 2 + jnp.sin(x)


def gelu(x):
    return 0.5 * x * (1 + jnp.tanh(0.8 * (x + 0.04 * x**3)))


def gated(x):
    return x * xlab.nn.sigmoid(x) + jnp.cos(x) * jnp.sin(x)


def residuals():
    dots = xlab.checkpoint_policies.dots_saveable
    for act in (activation, gelu, gated):

        def block(x, w, act=act):
            return act(x @ w)

        def loss(ws, x, block):
            for w in ws:
                x = block(x, w)
            return x.sum()

        again = xlab.checkpoint(block, policy=dots)
        args = [ones(64, 64)] * 3, ones(512, 64)
        yield case(
            "cheap residual",
            act.__name__,
            xlab.grad(functools.partial(loss, block=block)),
            args,
            xlab.grad(functools.partial(loss, block=again)),
        )


# -- many devices --------------------------------------------------------------------------------------------------------


def product(x, w):
    return jnp.tanh(x @ w)


def micro_batches(ws, xs):
    """Gradient accumulation: every round goes through all layers."""
    layer = lambda h, w: (held(jnp.tanh(h @ w), "data"), None)
    turn = lambda acc, x: (acc + lax.scan(layer, x, ws)[0].sum(), None)
    return lax.scan(turn, 0.0, xs)[0]


def gathered_first(ws, xs):
    return micro_batches(held(ws), xs)


def two_passes(ws, x):
    """The same layers several times over, as a recurrent transformer."""
    layer = lambda h, w: (held(jnp.tanh(h @ w), "data"), None)
    return lax.fori_loop(0, 3, lambda i, h: lax.scan(layer, h, ws)[0], x)


def sampled(ws, x):
    layer = lambda h, w: (held(xlab.nn.relu(h @ w) + h, "data"), None)
    turn = lambda h, _: (lax.scan(layer, h, ws)[0], None)
    return lax.scan(turn, x, None, length=4)[0]


def sharded():
    ws = put(ones(3, 64, 64), None, "data")
    whole = put(ones(3, 64, 64))
    xs, x = put(ones(4, 256, 64), None, "data"), put(ones(256, 64), "data")
    kind = "gather in a loop"
    yield case(kind, "micro batches", micro_batches, (ws, xs), gathered_first)
    yield case(kind, "layers again", two_passes, (ws, x), two_passes, (whole, x))
    yield case(kind, "sampler", sampled, (ws, x), sampled, (whole, x))

    kind, wide = "replicated value", ones(512, 256)
    w, table = put(ones(256, 64)), put(ones(512, 8))
    yield case(kind, "batch", product, (put(wide), w), product, (put(wide, "data", "model"), w))
    yield case(
        kind,
        "elementwise",
        lambda x, y: jnp.sin(x) + y,
        (put(wide), put(wide, "data", "model")),
        None,
        (put(wide, "data", "model"), put(wide, "data", "model")),
    )
    yield case(
        kind,
        "kernel of a Gaussian process",
        lambda x, y: jnp.exp(-((x[:, None] - y[None]) ** 2).sum(-1)).sum(1),
        (put(ones(2048, 8)), table),
        None,
        (put(ones(2048, 8), "data", "model"), table),
    )

    kind, odd = "uneven split", put(ones(10, 16))
    first = lambda x: held(x * 2, "data") + 1
    second = lambda x: held(x * 2, None, "data") + 1
    yield case(kind, "rows", first, (odd,), second)
    yield case(
        kind,
        "heads",
        lambda x, w: held(jnp.tanh(x @ w), None, "data"),
        (put(ones(16, 8)), put(ones(8, 6))),
        lambda x, w: held(jnp.tanh(x @ w), "data", None),
    )
    yield case(
        kind,
        "tokens",
        lambda x: jnp.sin(held(x, "data", None, None)),
        (put(ones(5, 8, 8)),),
        lambda x: jnp.sin(held(x, None, "data", None)),
    )

    kind = "removable collective"
    yield case(
        kind,
        "product",
        lambda x, w: x @ w,
        (put(ones(8, 16), "data", "model"), put(ones(16, 4), None, "model")),
        None,
        (put(ones(8, 16), "data", "model"), put(ones(16, 4), "model")),
    )
    x, apart = put(ones(16, 32), "data"), P("data", None)
    yield case(
        kind,
        "transforms of a batch",
        lambda x: jnp.fft.fft(x),
        (x,),
        xlab.shard_map(jnp.fft.fft, mesh=mesh(), in_specs=apart, out_specs=apart),
    )
    yield case(kind, "sorted tokens", lambda x: jnp.argsort(x), (put(ones(64), "data"),), None, (put(ones(64)),))  # fmt: skip

    kind, alike = "resharding", lambda x: jnp.tanh(x @ x.T) + 9 * jnp.eye(len(x))
    for name, f in (
        ("factorization of a kernel", jnp.linalg.cholesky),
        ("inverse of a covariance", jnp.linalg.inv),
        ("log determinant", lambda a: jnp.linalg.slogdet(a)[1]),
    ):
        whole = lambda x, f=f: f(alike(x))
        yield case(kind, name, whole, (put(ones(32, 8), "data"),), None, (put(ones(32, 8)),))

    kind = "full rematerialization"
    scores, mask = put(ones(16, 64), "data"), put(ones(16, 64), "model")
    same = put(ones(16, 64), "data")
    yield case(kind, "mask of a sampler", lambda x, m: jnp.argmax(x + m, -1), (scores, mask), None, (scores, same))  # fmt: skip
    yield case(kind, "tokens and experts", lambda x, e: jnp.where(x > 0, x, e).sum(-1), (scores, mask), None, (scores, same))  # fmt: skip
    layers = lambda ws, x: lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)[0]
    deep, x = ones(4, 64, 64), put(ones(16, 64))
    yield case(kind, "layers of an RNN", layers, (put(deep, "data"), x), None, (put(deep, None, "data"), x))  # fmt: skip

    kind, square = "smaller collective", ones(32, 32)
    both = ("data", "model")
    yield case(kind, "symmetric", lambda x: jnp.sin(x + x.T), (put(square, "data"),), None, (put(square, None, both),))  # fmt: skip
    relaxed = lambda x: lax.fori_loop(0, 3, lambda i, x: (x + x.T) / 2, x)
    yield case(
        kind, "relaxation", relaxed, (put(square, "data"),), None, (put(square, None, both),)
    )
    near = lambda x: jnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1))
    points = ones(32, 8)
    yield case(kind, "kernel of a Gaussian process", near, (put(points, "data"),), None, (put(points, both),))  # fmt: skip


def captured():
    table = jnp.asarray(ones(128, 256))
    given = lambda i, t: t[i]
    yield case("captured constant", "table", lambda i: table[i], (3,), given, (3, table))
    yield case("captured constant", "mask", lambda x: x + table, (ones(256),), lambda x, t: x + t, (ones(256), table))  # fmt: skip
    yield case("captured constant", "weights", lambda x: x @ table, (ones(4, 128),), lambda x, t: x @ t, (ones(4, 128), table))  # fmt: skip
    for name, f, args, less in (
        ("key", lambda x, rng: x * 2, (ones(4), ones(8)), lambda x: x * 2),
        ("state", lambda x, s: jnp.sin(x), (ones(4), {"m": ones(8)}), jnp.sin),
        ("mask", lambda x, mask: x @ x, (ones(4, 4), ones(4, 4)), lambda x: x @ x),
    ):
        yield case("unused argument", name, f, args, less, args[:1])
    for name, f in (
        ("parameters", lambda p, x: (p, x * 2)),
        ("in a dict", lambda p, x: {"p": p, "y": x + 1}),
        ("of a loop", lambda p, x: (p, lax.fori_loop(0, 3, lambda i, x: x * 2, x))),
    ):
        less = lambda p, x, f=f: f(p * 1, x)
        yield case("returned argument", name, f, (ones(4), ones(4)), less)


def cases() -> list[Case]:
    """All programs with a finding."""
    return [
        *captured(), *donations(), *results(), *host(), *widened(), *unrolled(), *layouts(), *residuals(), *sharded(),
    ]  # fmt: skip


# -- programs without -------------------------------------------------------------------------------------------------


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
