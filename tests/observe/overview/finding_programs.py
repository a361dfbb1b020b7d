"""Programs that have a finding, each beside the same with the finding's change.

Kept apart from their test so that each is compiled once.
"""

from __future__ import annotations

import functools

import numpy as np

import xlab
import xlab.numpy as jnp
from tests.observe.overview.finding_cases import Case, case, narrow, ones
from tests.observe.overview.sharded_finding_programs import sharded
from xlab import lax

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

    yield case("unused result", "product", with_norm, (x, x), lambda x, w: x * 2)

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
        within = lambda x, *more, f=f: f(x, *more[:-1], more[-1].astype(x.dtype))
        yield case("widened type", name, f, args, f, mended, applied=within)


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
    turn = lambda x, _: (x + 0.1 * (jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1)) * u, None)
    return lax.scan(turn, x, None, length=6)[0]


def unrolled():
    ws, x = [ones(8, 8)] * 6, ones(4, 8)
    stacked = np.stack(ws)
    within = lambda ws, x: scanned(jnp.stack(ws), x)
    yield case("unrolled loop", "layers", network, (ws, x), scanned, (stacked, x), applied=within)
    yield case("unrolled loop", "simulation", by_hand, (ones(32), ones(32)), simulated)
    total = lambda f: lambda ws, x: f(ws, x).sum()
    yield case(
        "unrolled loop",
        "gradient of layers",
        xlab.grad(total(network)),
        (ws, x),
        xlab.grad(total(scanned)),
        (stacked, x),
        applied=xlab.grad(total(within)),
        bound=True,
    )


def convolved(dims):
    return lambda x, f: lax.conv_general_dilated(x, f, (1, 1), "SAME", dimension_numbers=dims)


def layouts():
    filters = ones(3, 3, 16, 16)
    first = convolved(("NCHW", "HWIO", "NCHW"))
    yield case(
        "layout copy",
        "channels first",
        first,
        (ones(8, 16, 16, 16), filters),
        convolved(("NHWC", "HWIO", "NHWC")),
        (ones(8, 16, 16, 16), filters),
        applied=lambda x, f: first(jnp.transpose(x, (0, 3, 1, 2)), f),
    )
    scores = lambda s: lambda q, k: jnp.einsum(s, q, k)
    heads = ones(8, 32, 4, 32), ones(8, 32, 4, 32)
    ordered = ones(8, 4, 32, 32), ones(8, 4, 32, 32)
    apart = scores("bqhd,bkhd->bhqk")
    yield case(
        "layout copy", "attention", apart, heads, scores("bhqd,bhdk->bhqk"), ordered,
        applied=lambda q, k: apart(jnp.transpose(q, (0, 2, 1, 3)), k),
        applied_args=(ordered[0], heads[1]),
    )  # fmt: skip
    yield case(
        "layout copy",
        "batched product",
        scores("imb,mjb->bij"),
        (ones(32, 32, 32), ones(32, 32, 32)),
        scores("bim,bmj->bij"),
        (ones(32, 32, 32), ones(32, 32, 32)),
        applied=lambda q, k: scores("imb,mjb->bij")(jnp.transpose(q, (1, 2, 0)), k),
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

        def as_said(x, w, act=xlab.checkpoint(act, policy=dots)):
            return act(x @ w)

        args = [ones(64, 64)] * 3, ones(512, 64)
        yield case(
            "cheap residual",
            act.__name__,
            xlab.grad(functools.partial(loss, block=block)),
            args,
            xlab.grad(functools.partial(loss, block=again)),
            applied=xlab.grad(functools.partial(loss, block=as_said)),
        )


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
    turned = lambda x: lax.fori_loop(0, 3, lambda i, x: x * 2, x)
    for name, f, less in (
        ("parameters", lambda p, x: (p, x * 2), lambda p, x: x * 2),
        ("in a dict", lambda p, x: {"p": p, "y": x + 1}, lambda p, x: {"y": x + 1}),
        ("of a loop", lambda p, x: (p, turned(x)), lambda p, x: turned(x)),
    ):
        yield case("returned argument", name, f, (ones(4), ones(4)), less)


def cases() -> list[Case]:
    """All programs with a finding."""
    return [
        *captured(), *donations(), *results(), *host(), *widened(), *unrolled(), *layouts(), *residuals(), *sharded(),
    ]  # fmt: skip
