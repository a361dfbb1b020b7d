"""Random programs: smooth functions of a vector of three, with control flow and transformations nested in them.

A program is nested tuples, so that a failing one prints itself; `run` gives it its meaning in one side's namespaces.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

W = np.array([[0.5, -0.3, 0.1], [0.2, 0.4, -0.6], [-0.1, 0.7, 0.3]], np.float32)

UNARY = (
    "sin",
    "tanh",
    "scaled",
    "reversed",
    "cumsum",
    "rational",
    "square",
    "matmul",
    "normalized",
    "sliced",
    "indexed",
    "sorted",
    "softmax",
    "constant",
)
BINARY = ("add", "mul", "sub", "where", "dot")
AROUND = (
    "jit",
    "checkpoint",
    "scan",
    "scan_xs",
    "fori",
    "cond",
    "switch",
    "vmap",
    "jvp",
    "grad",
    "custom",
    "while",
)


def generate(choose: Callable[[int], int], depth: int = 2) -> tuple:
    """A program of one to three steps; `choose(n)` gives a number below `n`."""
    return tuple(_step(choose, depth) for _ in range(1 + choose(3)))


def _step(choose, depth):
    kinds = len(UNARY) + len(BINARY) + (2 * len(AROUND) if depth else 0)
    k = choose(kinds)
    if k < len(UNARY):
        return (UNARY[k],)
    k -= len(UNARY)
    if k < len(BINARY):
        return (BINARY[k],)
    name = AROUND[(k - len(BINARY)) % len(AROUND)]
    inner = [generate(choose, depth - 1) for _ in range(2 if name in ("cond", "switch") else 1)]
    return (name, *inner)


def run(n, program: tuple, x):
    """Applies a program to a vector; every step also sees the vector the program started from."""
    first = x
    for name, *inner in program:
        x = (
            n.jnp.tanh(STEPS[name](n, x, first, *inner))
            if name not in ("sin", "tanh", "reversed")
            else STEPS[name](n, x, first, *inner)
        )
    return x


def contains(program: tuple, names) -> bool:
    return any(step[0] in names or any(contains(p, names) for p in step[1:]) for step in program)


def _custom(n, f, x):
    @n.jax.custom_vjp
    def g(x):
        return f(x)

    g.defvjp(lambda x: n.jax.vjp(f, x), lambda pull, ct: pull(ct))
    return g(x)


def _while(n, f, x):
    return n.lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x))[1]


STEPS: dict[str, Callable] = {
    "sin": lambda n, x, y: n.jnp.sin(x),
    "tanh": lambda n, x, y: n.jnp.tanh(x),
    "scaled": lambda n, x, y: x * 1.5 + 0.25,
    "reversed": lambda n, x, y: x[::-1],
    "cumsum": lambda n, x, y: n.jnp.cumsum(x),
    "rational": lambda n, x, y: x / (1 + x * x),
    "square": lambda n, x, y: x**2 - y,
    "matmul": lambda n, x, y: x @ n.jnp.asarray(W),
    "normalized": lambda n, x, y: x - n.jnp.mean(x),
    "sliced": lambda n, x, y: n.jnp.concatenate([x[1:], x[:1] * 2]),
    "indexed": lambda n, x, y: x.at[1].add(y[0]),
    "sorted": lambda n, x, y: x[n.jnp.array([2, 0, 1])],
    "softmax": lambda n, x, y: n.nn.softmax(x),
    "constant": lambda n, x, y: x + n.jnp.arange(3.0),
    "add": lambda n, x, y: x + y,
    "mul": lambda n, x, y: x * y,
    "sub": lambda n, x, y: y - x,
    "where": lambda n, x, y: n.jnp.where(n.jnp.array([True, False, True]), x, y * 2),
    "dot": lambda n, x, y: x * n.jnp.dot(x, y),
    "jit": lambda n, x, y, f: n.jax.jit(lambda v: run(n, f, v) + y)(x),
    "checkpoint": lambda n, x, y, f: n.jax.checkpoint(lambda v: run(n, f, v) * y)(x),
    "scan": lambda n, x, y, f: n.lax.scan(lambda c, _: (run(n, f, c) + y, None), x, None, length=2)[
        0
    ],
    "scan_xs": lambda n, x, y, f: n.lax.scan(lambda c, v: (run(n, f, c) * v, c.sum()), x, y)[1],
    "fori": lambda n, x, y, f: n.lax.fori_loop(0, 2, lambda i, c: run(n, f, c) + i, x),
    "cond": lambda n, x, y, f, g: n.lax.cond(
        y[0] > 0.1, lambda v: run(n, f, v), lambda v: run(n, g, v) + y, x
    ),
    "switch": lambda n, x, y, f, g: n.lax.switch(
        1, [lambda v: run(n, f, v), lambda v: run(n, g, v)], x
    ),
    "vmap": lambda n, x, y, f: n.jax.vmap(lambda v, s: run(n, f, v) * s, (None, 0))(x, y).sum(0),
    "jvp": lambda n, x, y, f: n.jax.jvp(lambda v: run(n, f, v), (x,), (y,))[1],
    "grad": lambda n, x, y, f: n.jax.grad(lambda v: (run(n, f, v) * y).sum())(x),
    "custom": lambda n, x, y, f: _custom(n, lambda v: run(n, f, v), x),
    "while": lambda n, x, y, f: _while(n, lambda v: run(n, f, v), x),
}

NO_REVERSE, NO_FORWARD = (
    ("while",),
    ("custom",),
)  # what a program must not contain to be differentiated so


def sound(program: tuple) -> bool:
    """Whether the derivatives taken inside exist: no `grad` around a `while`, no `jvp` around a custom_vjp."""
    for name, *inner in program:
        for p in inner:
            if name in ("grad", "custom") and contains(
                p, NO_REVERSE + (NO_FORWARD if name == "grad" else ())
            ):
                return False
            if name == "jvp" and contains(p, NO_FORWARD):
                return False
            if not sound(p):
                return False
    return True
