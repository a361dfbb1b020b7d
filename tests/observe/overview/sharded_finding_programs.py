"""Programs over many devices that have a finding, each beside the same with the finding's change."""

from __future__ import annotations

import xlab
import xlab.numpy as jnp
from tests.observe.overview.finding_cases import case, held, mesh, ones, put
from xlab import P, lax


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
    for name, f in (("layers again", two_passes), ("sampler", sampled)):
        before = lambda ws, x, f=f: f(held(ws), x)
        yield case(kind, name, f, (ws, x), f, (whole, x), applied=before)

    kind, wide = "replicated value", ones(512, 256)
    w, table = put(ones(256, 64)), put(ones(512, 8))
    both = ("data", "model")
    yield case(kind, "batch", product, (put(wide), w), product, (put(wide, both), w))
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
        (put(ones(2048, 8), both), table),
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
    yield case(kind, "symmetric", lambda x: jnp.sin(x + x.T), (put(square, "data"),), None, (put(square, None, both),))  # fmt: skip
    relaxed = lambda x: lax.fori_loop(0, 3, lambda i, x: (x + x.T) / 2, x)
    yield case(
        kind, "relaxation", relaxed, (put(square, "data"),), None, (put(square, None, both),)
    )
    near = lambda x: jnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1))
    points = ones(32, 8)
    yield case(kind, "kernel of a Gaussian process", near, (put(points, "data"),), None, (put(points, both),))  # fmt: skip
