"""Samples of `custom_linear_solve` and `custom_root`."""

from __future__ import annotations

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

DEEP = ("eager", "jit", "grad", "jvp", "vmap", "linearize", "jit.vmap.grad", "grad.vmap", "jvp.grad", "checkpoint")
W = floats(3, 3) * np.float32(0.1) + np.eye(3, dtype=np.float32)
B = floats(3)
A = np.float32([2.0, 3.0, 5.0])


def iterate(matvec, b):
    """Richardson iteration: good enough for matrices near one."""
    x = b
    for _ in range(6):
        x = x + (b - matvec(x))
    return x


def general(n, w, b):
    return n.lax.custom_linear_solve(lambda x: w @ x, b, iterate, iterate)


def symmetric(n, w, b):
    return n.lax.custom_linear_solve(lambda x: (w + w.T) @ x / 2, b, iterate, symmetric=True)


def forward_only(n, w, b):
    return n.lax.custom_linear_solve(lambda x: w @ x, b, iterate)


def with_aux(n, w, b):
    def solve(matvec, b):
        x = iterate(matvec, b)
        return x, {"residual": n.jnp.sum((b - matvec(x)) ** 2), "steps": n.jnp.sum(b > 0)}
    x, aux = n.lax.custom_linear_solve(lambda x: w @ x, b, solve, solve, has_aux=True)
    return x, aux["steps"]


def by_parts(n, a, b):
    def matvec(x):
        return {"p": a * x["p"] + x["q"].sum(), "q": 2.0 * x["q"]}

    def solve(matvec, b):
        q = b["q"] / 2.0
        return {"p": (b["p"] - q.sum()) / a, "q": q}

    def transpose_solve(vecmat, b):
        p = b["p"] / a
        return {"p": p, "q": (b["q"] - p.sum()) / 2.0}
    return n.lax.custom_linear_solve(matvec, {"p": b, "q": b[:2]}, solve, transpose_solve)


def in_scan(n, w, b):
    def step(b, _):
        x = general(n, w, b)
        return x * 0.5, x.sum()
    return n.lax.scan(step, b, None, length=3)


def vmap_matrix(n, w, b):
    return n.jax.vmap(lambda s: general(n, w * s, b))(n.jnp.float32([1.0, 1.1]))


def wrong_shape(n, b):
    return n.lax.custom_linear_solve(lambda x: x, b, lambda matvec, b: b[0])


def wrong_matvec(n, b):
    return n.lax.custom_linear_solve(lambda x: x[:1], b, iterate)


def reverse_without_transpose(n, b):
    return n.jax.grad(lambda b: forward_only(n, W, b).sum())(b)


def newton(n, f, x, steps=12):
    for _ in range(steps):
        x = x - f(x) / n.jax.grad(lambda v: f(v).sum())(x)
    return x


def root(n, a):
    return n.lax.custom_root(lambda x: x * x - a, a, lambda f, x: newton(n, f, x), lambda g, y: y / g(n.jnp.ones_like(y)))


def cube_root(n, a, guess):
    return n.lax.custom_root(lambda x: x ** 3 - a, guess, lambda f, x: newton(n, f, x, 20),
                             lambda g, y: y / g(n.jnp.ones_like(y)))


def root_aux(n, a):
    return n.lax.custom_root(lambda x: x * x - a, a, lambda f, x: (newton(n, f, x), x * 2),
                             lambda g, y: y / g(n.jnp.ones_like(y)), has_aux=True)


def root_system(n, w, b):
    def f(x):
        return {"u": w @ x["u"] + 0.1 * n.jnp.tanh(x["u"]) - b, "v": x["v"] * 2.0 - x["u"].sum()}

    def solve(f, x):
        for _ in range(12):
            y = f(x)
            x = {"u": x["u"] - y["u"], "v": x["v"] - y["v"] / 2.0}
        return x

    def tangent_solve(g, y):
        x = y
        for _ in range(12):
            z = g(x)
            x = {"u": x["u"] + (y["u"] - z["u"]), "v": x["v"] + (y["v"] - z["v"]) / 2.0}
        return x
    return n.lax.custom_root(f, {"u": b, "v": b[0]}, solve, tangent_solve)


SAMPLES = [
    Sample("linear_solve", general, (W, B), DEEP, tol=2e-4, lawful=False),
    Sample("linear_solve_symmetric", symmetric, (W, B), DEEP, tol=2e-4, lawful=False),
    Sample("linear_solve_forward", forward_only, (W, B), ("eager", "jit", "jvp", "vmap", "primitives"), tol=2e-4, lawful=False),
    Sample("linear_solve_aux", with_aux, (W, B), ("eager", "jit", "jvp", "vmap", "vmap.jvp"), tol=2e-4, lawful=False),
    Sample("linear_solve_tree", by_parts, (A, B), DEEP, tol=2e-4),
    Sample("linear_solve_scan", in_scan, (W, B), DEEP, tol=5e-4, lawful=False),
    Sample("linear_solve_batched_matrix", vmap_matrix, (W, B), ("eager", "jit", "grad", "jvp"), tol=2e-4, lawful=False),
    Sample("linear_solve_shape", wrong_shape, (B,), error="ValueError"),
    Sample("linear_solve_matvec", wrong_matvec, (B,), error="ValueError"),
    Sample("linear_solve_reverse", reverse_without_transpose, (B,), error="TypeError"),
    Sample("linear_solve_callable", lambda n, b: n.lax.custom_linear_solve(3, b, iterate), (B,), error="TypeError"),
    Sample("root", root, (A,), DEEP, tol=2e-4),
    Sample("root_scalar", root, (np.float32(2.0),), DEEP, tol=2e-4),
    Sample("root_guess", cube_root, (A, A), DEEP, tol=2e-4, lawful=False),
    Sample("root_aux", root_aux, (A,), ("eager", "jit", "jvp", "vmap", "vmap.jvp"), tol=2e-4, lawful=False),
    Sample("root_system", root_system, (W, B), DEEP, tol=5e-4, lawful=False),
    Sample("root_tree", lambda n, a: n.lax.custom_root(lambda x: (x, x), a, lambda f, x: x, lambda g, y: y), (A,),
           error="TypeError"),
    Sample("root_solve_tree", lambda n, a: n.lax.custom_root(lambda x: x, a, lambda f, x: (x, x), lambda g, y: y), (A,),
           error="TypeError"),
]
