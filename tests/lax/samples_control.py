"""Samples of control flow: `cond`, `switch`, `while_loop`, `fori_loop`, `scan`, `map`."""

from __future__ import annotations

import numpy as np

from tests.reference.data import floats, ints
from tests.reference.sample import ALL, Sample

FORWARD = ("eager", "jit", "jvp", "vmap")     # what a while loop can do
DEEP = ("eager", "jit", "grad", "jvp", "vmap", "linearize", "jit.vmap.grad", "grad.vmap", "checkpoint")
TRUE, FALSE = np.bool_(True), np.bool_(False)
X, W = floats(3), floats(3, 3)


def choose(n, p, x, w):
    return n.lax.cond(p, lambda x: n.jnp.sin(x) @ w, lambda x: x * 2.0, x)


def two_results(n, p, x):
    return n.lax.cond(p, lambda x: {"a": x, "b": x.sum()}, lambda x: {"a": -x, "b": x.max()}, x)


def switch(n, i, x):
    return n.lax.switch(i, [lambda x: x, n.jnp.sin, lambda x: x ** 2], x)


def collatz(n, i):
    def body(state):
        i, steps = state
        return n.jnp.where(i % 2 == 0, i // 2, 3 * i + 1), steps + 1
    return n.lax.while_loop(lambda state: state[0] > 1, body, (i, 0))


def newton(n, x):
    return n.lax.while_loop(lambda s: n.jnp.abs(s[0] * s[0] - s[1]) > 1e-3,
                            lambda s: (0.5 * (s[0] + s[1] / s[0]), s[1]), (x, x))[0]


def power(n, x, w):
    return n.lax.fori_loop(0, 3, lambda i, x: n.jnp.tanh(x @ w) + i, x)


def dynamic_power(n, k, x):
    return n.lax.fori_loop(0, k, lambda i, x: x * 1.5 + i, x)


def recurrence(n, x, w, xs):
    def step(carry, x):
        carry = n.jnp.tanh(carry @ w + x)
        return carry, (carry.sum(), carry * x)
    return n.lax.scan(step, x, xs)


def reverse(n, x, xs):
    return n.lax.scan(lambda c, x: (c * 0.5 + x, c), x, xs, reverse=True)


def unrolled(n, x, xs):
    return n.lax.scan(lambda c, x: (c * 0.5 + x, c), x, xs, unroll=2)


def counted(n, x):
    return n.lax.scan(lambda c, _: (n.jnp.sin(c), None), x, None, length=4)[0]


def weak_carry(n, xs):
    return n.lax.scan(lambda c, x: (c + x, c), 0.0, xs)


def nested(n, x, xs):
    def outer(c, x):
        inner = n.lax.scan(lambda d, y: (d * y + c, d), x, xs)
        return n.lax.cond(inner[0].sum() > 0, lambda v: v, lambda v: -v, c + inner[0]), inner[1].sum()
    return n.lax.scan(outer, x, xs)


def integers_through(n, xs):
    return n.lax.scan(lambda c, x: ((c[0] + 1, c[1] * x), c[0]), (0, np.float32(1.0)), xs)


CONDITIONS = [
    Sample("cond_true", choose, [TRUE, X, W], DEEP),
    Sample("cond_false", choose, [FALSE, X, W], DEEP),
    Sample("cond_tree", two_results, [TRUE, X]),
    Sample("cond_int_predicate", lambda n, x: n.lax.cond(x.sum() > 0, n.jnp.sin, n.jnp.cos, x), [X]),
    Sample("cond_static", lambda n, x: n.lax.cond(True, n.jnp.sin, n.jnp.cos, x), [X]),
    Sample("switch", switch, [np.int32(1), X]),
    Sample("switch_clamped", switch, [np.int32(7), X]),
    Sample("cond_primitives", choose, [TRUE, X, W], ("primitives",)),
]

LOOPS = [
    Sample("while_integers", collatz, [np.int32(7)], ("eager", "jit", "vmap")),
    Sample("while_newton", newton, [np.float32(2.0)], FORWARD),
    Sample("while_batch", newton, [np.float32(7.0)], ("jit.vmap", "vmap.jvp")),
    Sample("fori", power, [X, W], DEEP),
    Sample("fori_dynamic", dynamic_power, [np.int32(3), X], FORWARD),
    Sample("fori_unroll", lambda n, x: n.lax.fori_loop(0, 5, lambda i, x: n.jnp.sin(x) * i, x, unroll=2), [X], DEEP),
    Sample("fori_small", lambda n, i, x: n.lax.fori_loop(0, i, lambda i, x: x + i, x), [np.int8(3), X], FORWARD),
    Sample("fori_static_small", lambda n, x: n.lax.fori_loop(n.jnp.int8(0), n.jnp.int8(3), lambda i, x: x * i, x), [X]),
    Sample("fori_floats", lambda n, i, x: n.lax.fori_loop(np.float32(0), i, lambda i, x: x + i, x), [np.float32(3), X],
           ("eager", "jit"), lawful=False),
    Sample("fori_none", lambda n, x: n.lax.fori_loop(3, 3, lambda i, x: x + 1, x), [X]),
    Sample("loop_primitives", power, [X, W], ("primitives",)),
]

SCANS = [
    Sample("scan", recurrence, [X, W, floats(5, 3)], DEEP, tol=(1e-4, 1e-5)),
    Sample("scan_reverse", reverse, [np.float32(1), floats(5)], DEEP),
    Sample("scan_unroll", unrolled, [np.float32(1), floats(5)], DEEP),
    Sample("scan_length", counted, [X], DEEP),
    Sample("scan_unroll_error", lambda n, xs: n.lax.scan(lambda c, x: (c, x), 0.0, xs, unroll=-1), [floats(3)], error="ValueError"),
    Sample("scan_length_error", lambda n: n.jax.jit(lambda k: n.lax.scan(lambda c, x: (c, c), 0.0, None, length=k))(3), [],
           error="ConcretizationTypeError"),
    Sample("scan_weak_carry", weak_carry, [floats(4)]),
    Sample("scan_promoted_carry", lambda n, xs: n.lax.scan(lambda c, x: (c + x, c), 0, xs), [floats(4)], (*ALL, "primitives")),
    Sample("scan_weak_result", lambda n, xs: n.lax.scan(lambda c, x: (1.0, c), xs[0], xs), [floats(4)], ("eager", "jit", "vmap")),
    Sample("scan_nested", nested, [X, floats(2, 3)], DEEP),
    Sample("scan_integers", integers_through, [floats(3)], DEEP, smooth=False),
    Sample("scan_empty", recurrence, [X, W, floats(0, 3)], ("eager", "jit", "grad")),
    Sample("scan_tree", lambda n, x, xs: n.lax.scan(
        lambda c, x: ({"c": c["c"] + x["a"]}, x["b"] * c["c"]), {"c": x}, xs),
        [np.float32(1), {"a": floats(3), "b": floats(3)}], DEEP),
    Sample("map", lambda n, x: n.lax.map(lambda r: n.jnp.sin(r).sum(), x), [floats(4, 3)]),
    Sample("map_batch", lambda n, x: n.lax.map(lambda r: n.jnp.sin(r).sum(), x, batch_size=2), [floats(5, 3)]),
    Sample("scan_primitives", recurrence, [X, W, floats(5, 3)], ("primitives", "primitives.vmap")),
]

ERRORS = [
    Sample("cond_results", lambda n, x: n.lax.cond(True, lambda x: x, lambda x: x.sum(), x), [X],
           error="TypeError"),
    Sample("cond_predicate", lambda n, x: n.lax.cond(x, lambda x: x, lambda x: x, x), [X], error="TypeError"),
    Sample("cond_trees", lambda n, x: n.lax.cond(True, lambda x: (x, x), lambda x: x, x), [X], error="TypeError"),
    Sample("while_type", lambda n, x: n.lax.while_loop(lambda x: x.sum() < 1, lambda x: x[:1], x), [X],
           error="TypeError"),
    Sample("while_predicate", lambda n, x: n.lax.while_loop(lambda x: x, lambda x: x, x), [X], error="TypeError"),
    Sample("scan_carry", lambda n, x: n.lax.scan(lambda c, x: (c[:1], x), x, x), [X], error="TypeError"),
    Sample("scan_pair", lambda n, x: n.lax.scan(lambda c, x: c, x, x), [X], error="TypeError"),
    Sample("scan_lengths", lambda n, x, y: n.lax.scan(lambda c, xy: (c, xy[0]), 0.0, (x, y)),
           [floats(3), floats(4)], error="ValueError"),
    Sample("while_gradient", lambda n, x: n.jax.grad(lambda x: newton(n, x))(x), [np.float32(2)],
           error="ValueError"),
    Sample("fori_gradient", lambda n, k, x: n.jax.jit(n.jax.grad(lambda x: dynamic_power(n, k, x)))(x),
           [np.int32(2), np.float32(2)], ("jit",), error="ValueError"),
    Sample("fori_bounds", lambda n, x: n.lax.fori_loop(np.int8(0), np.int16(3), lambda i, x: x + i, x), [X], error="TypeError"),
    Sample("fori_bound_rank", lambda n, x: n.lax.fori_loop(0, x, lambda i, x: x + i, x), [ints(3)], error="TypeError"),
    Sample("switch_index", lambda n, x: n.lax.switch(1.5, [n.jnp.sin, n.jnp.cos], x), [X], error="TypeError"),
    Sample("python_if", lambda n, x: x if x.sum() > 0 else -x, [X], ("jit",), error="TracerBoolConversionError"),
    Sample("python_float", lambda n, x: float(x.sum()), [X], ("jit",), error="ConcretizationTypeError"),
    Sample("python_range", lambda n, k: [0] * range(k).stop, [ints(1)[0]], ("jit",),
           error="TracerIntegerConversionError"),
    Sample("numpy_call", lambda n, x: np.sin(x), [X], ("jit",), error="TracerArrayConversionError"),
    Sample("boolean_index", lambda n, x: x[x > 0], [X], ("jit",), error="NonConcreteBooleanIndexError"),
]

SAMPLES = [*CONDITIONS, *LOOPS, *SCANS, *ERRORS]
