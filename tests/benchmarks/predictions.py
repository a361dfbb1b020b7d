"""Predicted against measured times of steps on this CPU, after a calibration: the goal is a factor of two.

Ten programs are those of the goal. Five more whole programs were there while the model was made: what they showed went into it (that sums of few
elements are slow). Five that were written after it, and that nothing was changed for, say whether it holds beyond them; others, each of one kind of
operation, how far the rates reach.

python -m tests.benchmarks.predictions [--json PATH]

Exit status 1 where one of the ten is beyond the goal, or the calibration takes longer than a minute.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab import P, lax, observe
from xlab.observe.timing.phases import wait
from xlab.sharding import AxisType, NamedSharding, make_mesh

GOAL = 2.0
LONGEST = 60.0  # seconds that the calibration may take
RANDOM = np.random.default_rng(0)


def normal(*shape):
    return jnp.asarray(RANDOM.normal(size=shape).astype(np.float32) / 8)


def mlp_loss(params, x, y):
    for w in params:
        x = jnp.tanh(x @ w)
    return jnp.mean((x - y) ** 2)


def mlp_step(params, x, y):
    grads = xlab.grad(mlp_loss)(params, x, y)
    return [w - 0.1 * g for w, g in zip(params, grads)]


def attention(p, x):
    q, k, v = (jnp.reshape(x @ p[n], (*x.shape[:2], 4, -1)) for n in ("q", "k", "v"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4
    scores = jnp.exp(scores - scores.max(-1, keepdims=True))
    scores = scores / scores.sum(-1, keepdims=True)
    return jnp.reshape(jnp.einsum("bhqk,bkhd->bqhd", scores, v), x.shape) @ p["o"]


def block(p, x):
    x = x + attention(p, x)
    return x + jnp.maximum(x @ p["up"], 0) @ p["down"]


def transformer_loss(params, x):
    for p in params:
        x = block(p, x)
    return jnp.mean(x**2)


def transformer_step(params, x):
    grads = xlab.grad(transformer_loss)(params, x)
    return xlab.tree.map(lambda w, g: w - 0.1 * g, params, grads)


def conv_net(filters, x):
    for f in filters:
        x = jnp.maximum(lax.conv(x, f, (1, 1), "SAME"), 0)
    return x.mean((2, 3))


def recurrent(w, u, xs):
    def cell(h, x):
        h = jnp.tanh(h @ w + x @ u)
        return h, h

    return lax.scan(cell, jnp.zeros((xs.shape[1], w.shape[0])), xs)[1]


def softmax(x):
    x = jnp.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def layers(width, d):
    return {
        **{n: normal(d, d) for n in "qkvo"},
        "up": normal(d, width * d),
        "down": normal(width * d, d),
    }


def gaussian_process(x, y):
    distance = jnp.sum((x[:, None] - x[None]) ** 2, -1)
    k = jnp.exp(-distance / 2) + 1e-2 * jnp.eye(len(x))
    factor = jnp.linalg.cholesky(k)
    return lax.linalg.triangular_solve(factor, y[:, None], left_side=True, lower=True)


def programs():
    """`(name, function, arguments)` of ten programs."""
    mesh = make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    put = lambda x, *spec: xlab.device_put(x, NamedSharding(mesh, P(*spec)))
    wide = [normal(512, 512) for _ in range(4)]
    return [
        ("product", lambda a, b: a @ b, (normal(768, 768), normal(768, 768))),
        ("softmax", softmax, (normal(2048, 1024),)),
        ("elementwise", lambda x, y: x * y + 0.5 * x - y, (normal(4096, 1024), normal(4096, 1024))),
        ("mlp step", mlp_step, (wide, normal(256, 512), normal(256, 512))),
        ("transformer step", transformer_step, ([layers(4, 128)] * 4, normal(8, 64, 128))),
        ("conv net", conv_net, ([normal(16, 16, 3, 3)] * 4, normal(8, 16, 32, 32))),
        ("recurrent", recurrent, (normal(128, 128), normal(64, 128), normal(64, 32, 64))),
        ("gaussian process", gaussian_process, (normal(384, 8), normal(384))),
        (
            "data parallel step",
            mlp_step,
            ([put(w) for w in wide], put(normal(256, 512), "d"), put(normal(256, 512), "d")),
        ),
        (
            "tensor parallel layer",
            lambda x, up, down: jnp.tanh(x @ up) @ down,
            (put(normal(256, 512)), put(normal(512, 2048), None, "d"), put(normal(2048, 512), "d")),
        ),
    ]


def adam(state, grads):
    p, m, v = state
    m = xlab.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = xlab.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    p = xlab.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), p, m, v)
    return p, m, v


def classifier_loss(params, x, labels):
    hidden = x @ params["in"]
    hidden = 0.5 * hidden * (1 + lax.erf(hidden * 0.7071))
    scores = hidden @ params["out"]
    largest = scores.max(-1, keepdims=True)
    log_sum = jnp.log(jnp.exp(scores - largest).sum(-1)) + largest[:, 0]
    return jnp.mean(log_sum - jnp.take_along_axis(scores, labels[:, None], 1)[:, 0])


def mixture_density(x, means, log_scales):
    z = (x[:, None] - means) * jnp.exp(-log_scales)
    each = -0.5 * (z**2).sum(-1) - log_scales.sum(-1)
    largest = each.max(-1)
    return largest + jnp.log(jnp.exp(each - largest[:, None]).sum(-1))


def ring_product(mesh):
    def body(x, w):
        n = lax.axis_size("d")
        around = [(i, (i + 1) % n) for i in range(n)]
        total = jnp.zeros((x.shape[0], w.shape[1]), x.dtype)
        for _ in range(n):
            total = jnp.tanh(total + x @ w)
            w = lax.ppermute(w, "d", around)
        return total

    return xlab.shard_map(
        body, mesh=mesh, in_specs=(P("d"), P(None, "d")), out_specs=P("d"), check_vma=False
    )


def more_programs():
    """As `programs`: five that the goal does not name."""
    mesh = make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    put = lambda x, *spec: xlab.device_put(x, NamedSharding(mesh, P(*spec)))
    grads = [normal(384, 640), normal(640), normal(640, 384)]
    weights = {"in": normal(200, 768), "out": normal(768, 1000)}
    labels = jnp.asarray(RANDOM.integers(0, 1000, 320).astype(np.int32))
    p = layers(4, 96)
    return [
        ("adam update", adam, ((grads, grads, [g * g for g in grads]), grads)),
        (
            "classifier gradient",
            xlab.grad(classifier_loss),
            (weights, normal(320, 200), labels),
        ),
        ("mixture density", mixture_density, (normal(3000, 12), normal(40, 12), normal(40, 12))),
        ("ring of products", ring_product(mesh), (put(normal(768, 320), "d"), put(normal(320, 1024), None, "d"))),
        (
            "data parallel block",
            lambda p, x: xlab.grad(lambda p: jnp.mean(block(p, x) ** 2))(p),
            (xlab.tree.map(put, p), put(normal(16, 48, 96), "d")),
        ),
    ]  # fmt: skip


def autoencoder_step(w, x):
    def loss(w):
        code = xlab.nn.sigmoid(x @ w["enc"] + w["b"])
        return jnp.mean((code @ w["enc"].T - x) ** 2) + 1e-3 * jnp.mean(jnp.abs(code))

    value, g = xlab.value_and_grad(loss)(w)
    return value, xlab.tree.map(lambda w, g: w - 0.05 * g, w, g)


def power_iteration(a, v):
    def step(v, _):
        v = a @ v
        return v / jnp.sqrt((v**2).sum()), None

    return lax.scan(step, v, None, length=40)[0]


def gated_image(f, g, x):
    h = lax.conv(x, f, (2, 2), "SAME")
    gate = lax.logistic(lax.conv(x, g, (2, 2), "SAME"))
    h = h * gate
    return (h - h.mean((0, 2, 3), keepdims=True)) / jnp.sqrt(h.var((0, 2, 3), keepdims=True) + 1e-3)


def held_out():
    """As `programs`: five that were written when the model was finished."""
    mesh = make_mesh((4, 2), ("d", "m"), axis_types=(AxisType.Auto,) * 2)
    put = lambda x, *spec: xlab.device_put(x, NamedSharding(mesh, P(*spec)))
    a = normal(700, 700)
    points = normal(900, 3)
    return [
        ("autoencoder step", autoencoder_step, ({"enc": normal(784, 300), "b": normal(300)}, normal(450, 784))),
        ("power iteration", power_iteration, (a + a.T, normal(700))),
        ("gated image", gated_image, (normal(24, 8, 3, 3), normal(24, 8, 3, 3), normal(6, 8, 80, 80))),
        (
            "pairwise forces",
            xlab.grad(lambda x: jnp.sum(1 / (0.1 + ((x[:, None] - x) ** 2).sum(-1)))),
            (points,),
        ),
        (
            "two ways parallel step",
            lambda w, u, x: [p - 0.1 * g for p, g in zip((w, u), xlab.grad(lambda p: jnp.mean((jnp.sin(x @ p[0]) @ p[1]) ** 2))((w, u)))],
            (put(normal(320, 960), None, "m"), put(normal(960, 320), "m"), put(normal(400, 320), "d")),
        ),
    ]  # fmt: skip


def normalized(x, scale, shift):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale + shift


def others():
    """Programs of one kind of operation each, as `programs`."""
    ids = jnp.asarray(RANDOM.integers(0, 20_000, 4096).astype(np.int32))
    table, rows = normal(20_000, 256), normal(4096, 256)
    a = normal(256, 256)
    return [
        ("gather of rows", lambda t, i: t[i], (table, ids)),
        ("scatter of rows", lambda t, i, u: t.at[i].add(u), (table, ids, rows)),
        ("layer norm", normalized, (normal(2048, 1024), normal(1024), normal(1024))),
        (
            "large convolution",
            lambda x, f: lax.conv(x, f, (1, 1), "SAME"),
            (normal(4, 32, 64, 64), normal(32, 32, 5, 5)),
        ),
        ("attention block", lambda p, x: block(p, x), (layers(4, 256), normal(4, 128, 256))),
        ("sort", jnp.sort, (normal(1 << 18),)),
        ("running sums", lambda x: jnp.cumsum(x, -1), (normal(512, 2048),)),
        ("factorization", jnp.linalg.cholesky, (a @ a.T + 256 * jnp.eye(256),)),
        ("Fourier transform", jnp.fft.fft, (normal(256, 4096).astype(np.complex64),)),
        ("normal numbers", lambda key: xlab.random.normal(key, (1 << 20,)), (xlab.random.key(0),)),
        ("sum of 64 MB", lambda x: x.sum(), (normal(1 << 24),)),
        ("matrix by vector", lambda a, v: a @ v, (normal(4096, 4096), normal(4096))),
        ("sum of two of 64 MB", lambda x, y: x + y, (normal(1 << 24), normal(1 << 24))),
        ("transposed copy", lambda x: x.T, (normal(2048, 2048),)),
    ]


def least_us(run, args, runs=15) -> float:
    """Microseconds of a steady call."""
    for _ in range(3):
        wait(run(*args))
    spent = []
    for _ in range(runs):
        begin = time.perf_counter()
        wait(run(*args))
        spent.append(1e6 * (time.perf_counter() - begin))
    return min(spent)  # what else goes on can only add to it


def measure(which) -> list[tuple[str, float, float, str]]:
    """`(name, predicted in us, measured in us, what bounds it)`."""
    found = []
    for name, f, args in which:
        jitted = xlab.jit(f)
        cost = observe.cost(jitted, *args)
        found.append((name, cost.us, least_us(jitted, args), cost.bound))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    begin = time.perf_counter()
    observe.calibrate()
    calibrated = time.perf_counter() - begin
    print(f"calibrated in {calibrated:.0f} s{'' if calibrated <= LONGEST else ', beyond the goal'}")
    found, good = [], calibrated <= LONGEST
    for title, which in (
        ("ten programs", programs()),
        ("five more", more_programs()),
        ("five held out", held_out()),
        ("others", others()),
    ):
        rows = measure(which)
        within = [abs(math.log(row[1] / row[2])) <= math.log(GOAL) for row in rows]
        for (name, predicted, measured, bound), fits in zip(rows, within, strict=True):
            print(
                f"{name:24} predicted {predicted:10.0f} us   measured {measured:10.0f} us   ratio {predicted / measured:5.2f}   "
                f"{bound:14} {'' if fits else '  beyond the goal'}"
            )
        print(f"{title}: {sum(within)} of {len(rows)} within a factor of {GOAL:g}")
        good &= title != "ten programs" or all(within)
        found += rows
    print(f"in {time.perf_counter() - begin:.0f} s, goal: between {1 / GOAL} and {GOAL}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
