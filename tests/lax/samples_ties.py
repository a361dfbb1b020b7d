"""Second derivatives where operands tie, are zero, lie on a bound or outside: over every point of a small grid."""

from __future__ import annotations

import itertools

import numpy as np

from tests.reference.sample import Sample

COMPARED_IN = "tests/lax/test_ties.py"
POINTS = np.float32(list(itertools.product([-1, 0, 1], repeat=4)))
WEIGHTS = np.float32([1, 2, -1, 0.5])
FUNCTIONS = {
    **{f"{name}{'_reverse' * reverse}": lambda n, x, name=name, reverse=reverse: getattr(n.lax, name)(x, 0, reverse)
       for name in ("cumprod", "cummax", "cummin", "cumlogsumexp") for reverse in (False, True)},
    "prod": lambda n, x: n.jnp.prod(x),
    "max": lambda n, x: n.jnp.max(x),
    "min": lambda n, x: n.jnp.min(x * WEIGHTS),
    "sort": lambda n, x: n.jnp.sort(x),
    "top_k": lambda n, x: n.lax.top_k(x, 2)[0],
    "maximum": lambda n, x: n.jnp.maximum(x, x[::-1]),
    "abs": lambda n, x: n.jnp.abs(x),
    "abs_squared": lambda n, x: n.jnp.abs(x) ** 2,
    "abs_of_cumprod": lambda n, x: n.jnp.abs(n.lax.cumprod(x, 0, True)) ** 2,
    "abs_of_window": lambda n, x: n.jnp.abs(n.lax.reduce_window(x, -np.inf, n.lax.max, (2,), (2,), "VALID")) ** 2,
    "clip": lambda n, x: n.jnp.clip(x, -1, 1),
    "sinc": lambda n, x: n.jnp.sinc(x),
    "power": lambda n, x: n.lax.pow(x, 2),
    "clamp": lambda n, x: n.lax.clamp(-1 - x * x, x, 1 + x * x),
    "median": lambda n, x: n.jnp.median(x),
    "logsumexp": lambda n, x: n.nn.logsumexp(x),
    "scatter_min": lambda n, x: x.at[np.int32([0, 9, 1])].min(x[:3], mode="drop"),
    "scatter_max": lambda n, x: x.at[np.int32([0, 3, 1])].max(x[1:]),
    "scatter_max_scalar": lambda n, x: x.at[np.int32([0, 0, 2])].max(np.float32(0)),
    "scatter_multiply": lambda n, x: x.at[np.int32([0, 3, 1])].multiply(x[1:], unique_indices=True),
    "scatter_set": lambda n, x: x.at[np.int32([0, 3, 0])].set(x[1:] * 2),
    "segment_max": lambda n, x: n.jax.ops.segment_max(x, np.int32([0, 0, 1, 1]), 2),
    "reduce_of_two": lambda n, x: n.lax.reduce((x, x * WEIGHTS), (np.float32(0), np.float32(0)), _sums, ())[1],
    "reduce_of_two_rows": lambda n, x: n.lax.reduce((x[None], x[None] * WEIGHTS), (np.float32(3), np.float32(3)), _sums, (0,))[0],
    **{f"window_{name}_{size}_{step}_{padding}": lambda n, x, name=name, init=init, size=size, step=step, padding=padding:
       n.lax.reduce_window(x, init, getattr(n.lax, name), (size,), (step,), padding)
       for name, init in (("max", -np.inf), ("min", np.inf)) for size, step, padding in ((2, 2, "VALID"), (2, 1, "SAME"), (3, 1, "SAME"))},
}
ALWAYS = ("abs_squared", "cumprod_reverse", "cumlogsumexp", "clamp", "scatter_max", "scatter_min", "reduce_of_two", "window_max_2_1_SAME")


def _sums(a, b):
    return a[0] + b[0], a[1] + b[1]


def hessians(name):
    return lambda n, points: n.jax.vmap(n.jax.hessian(lambda x: n.jnp.sin(FUNCTIONS[name](n, x)).sum()))(points)


def gradients_of_gradients(name):
    def slope(n, f):
        return n.jax.grad(lambda x: n.jnp.sin(f(x)).sum())
    return lambda n, points: n.jax.vmap(slope(n, slope(n, lambda x: FUNCTIONS[name](n, x))))(points)


SAMPLES = [Sample(f"{name}-{kind.__name__}", kind(name), [POINTS], ("jit",), tol=(1e-4, 1e-5))
           for name in FUNCTIONS for kind in (hessians, gradients_of_gradients)]
