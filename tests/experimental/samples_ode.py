"""Samples of `experimental.ode`."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
T = np.float64([0, 0.3, 1.0, 1.7])
Y = np.float64([1.0, 0.5])


def solve(fun, **options):
    return lambda n, y, t, *args: import_module(f"{n.name}.experimental.ode").odeint(lambda *xs: fun(n.jnp, *xs), y, t, *args, **options)


def swing(jnp, y, t, a, b):
    return jnp.stack([y[1], -a * jnp.sin(y[0]) - b * y[1] * jnp.cos(t)])


def decay(jnp, y, t, a):
    return {"x": -a * y["x"], "z": y["x"].sum() - y["z"]}


def wrong(n, *args):
    return solve(lambda jnp, y, t: -y)(n, *args)


SAMPLES = [
    Sample("swing", solve(swing), [Y, T, 1.3, 0.4], ("eager", "grad"), x64=True, tol=1e-6),
    Sample("tree", solve(decay), [{"x": Y, "z": np.float64(2)}, T, 0.5], ("jit", "jit.grad"), x64=True, tol=1e-6),
    Sample("single", solve(swing, rtol=1e-4, atol=1e-4, hmax=0.2), [Y.astype(np.float32), T.astype(np.float32), 1.3, 0.4], ("eager",), tol=1e-3),
    Sample("phase", solve(lambda jnp, y, t: 1j * y * t), [np.complex128([1, 1j]), T], ("eager",), x64=True, tol=1e-6),
    Sample("times_of_ints", wrong, [Y.astype(np.float32), np.arange(3)], error="TypeError"),
    Sample("start_of_ints", wrong, [np.arange(2), T.astype(np.float32)], error="TypeError"),
    Sample("arguments_of_text", lambda n, y: solve(lambda jnp, y, t, a: y)(n, y, T.astype(np.float32), "x"), [Y.astype(np.float32)], error="TypeError"),
]
