"""Values that change in place, beside those of the reference."""

from __future__ import annotations

import numpy as np

from tests.experimental.hi_values import boxes
from tests.reference.sample import Sample

LAWS = False  # programs with effects
X, ONE = np.float32([0.5, -2.0, 3.0]), np.float32(1)
VALUE = ("eager", "jit")


def held(n, value, f, times=2):
    """What is in a box, and what came out, after calls of `f(n, b, box)`."""
    b = boxes(n.name)
    box = b.Box(n.jax.tree.map(n.jnp.asarray, value))
    outs = [f(n, b, box) for _ in range(times)]
    return outs, box.value


def an_argument(n, x):
    f = n.jax.jit(lambda box, y: box.set(box.get() + y))
    return held(n, ONE, lambda n, b, box: f(box, x))


def closed_over(n, x):
    return held(n, x, lambda n, b, box: n.jax.jit(lambda y: box.set(box.get() * y))(2.0))


def in_a_tree(n, x):
    f = n.jax.jit(lambda d, y: (d["box"].set(d["box"].get() + y), y)[1])
    return held(n, x, lambda n, b, box: f({"box": box, "x": ONE}, ONE))


def nested(n, x):
    def f(n, b, box):
        @n.jax.jit
        def outer(y):
            inner = n.jax.jit(lambda z: box.set(box.get() + z))
            inner(y)
            inner(2 * y)
            return box.get()

        return outer(x)

    return held(n, x, f)


def made_inside(n, x):
    b = boxes(n.name)

    def f(x):
        box = b.new(x)
        box.set([box.get(), 2 * box.get()])
        first, second = box.get()
        return first * second

    return f(x), n.jax.jit(f)(x)


def made_inside_and_changed_in_a_call(n, x):
    b = boxes(n.name)

    @n.jax.jit
    def f(x):
        box = b.new(x + 1)
        call = n.jax.jit(lambda: box.set([x, x]))
        call()
        first, second = box.get()
        box.set([x])
        call()
        return sum(box.get()) + first + second

    return f(x)


def other_structures(n, x):
    def grow(box, y):
        value = box.get()
        box.set([y] if value is None else [*value, y])

    f = n.jax.jit(grow)
    return held(n, None, lambda n, b, box: f(box, x), times=3)


def scanned(n, x):
    def f(n, b, box):
        def body(c, y):
            box.set(box.get() * y)
            return c + y, box.get()

        return n.lax.scan(body, ONE, x)

    return held(n, ONE, f)


def looped(n, x):
    def f(n, b, box):
        def body(i):
            box.set(box.get() + x)
            return i + 1

        return n.lax.while_loop(lambda i: i < 3, body, 0)

    return held(n, x, f)


def chosen(n, x, p):
    def f(n, b, box):
        n.lax.cond(p > 0, lambda: box.set(box.get() + x), lambda: None)

    return held(n, x, f)


def forwards(n, x):
    b = boxes(n.name)
    box, dot = b.Box(n.jnp.asarray(x)), b.Box(n.jnp.ones(3))

    def f(box, y):
        box.set(box.get() * y)
        return y * y

    out = n.jax.jvp(f, (box, n.jnp.asarray(x)), (dot, n.jnp.ones(3)))
    return out, box.value, dot.value


def differentiated(n, x):
    def f(n, b, box):
        def loss(y):
            box.set(box.get() + n.lax.stop_gradient(y))
            return (y * y).sum()

        return n.jax.grad(loss)(x)

    return held(n, x, f, times=1)


def set_backwards(n, x):
    def f(n, b, box):
        @n.jax.custom_vjp
        def noted(y):
            return y

        def backwards(_, g):
            box.set(g)
            return (g,)

        noted.defvjp(lambda y: (y, None), backwards)
        return n.jax.grad(lambda y: (3 * noted(2 * y)).sum())(x)

    return held(n, x, f)


def ahead(n, x):
    def f(n, b, box):
        return n.jax.jit(lambda box: box.set(box.get() + x)).lower(box).compile()(box)

    return held(n, x, f)


def other_rounds(n, x):
    def f(n, b, box):
        n.lax.while_loop(lambda i: i < 3, lambda i: (box.set([box.get()]), i + 1)[1], 0)

    return held(n, x, f)


def constant_box(n, x):
    b = boxes(n.name)
    box = b.Box(n.jnp.asarray(x))
    return n.jax.grad(lambda y: (box.set(y), y.sum())[1])(n.jnp.asarray(x))


E = ("eager",)
SAMPLES = [
    Sample("an_argument", an_argument, [X], E),
    Sample("closed_over", closed_over, [X], E),
    Sample("in_a_tree", in_a_tree, [X], E),
    Sample("nested", nested, [X], E),
    Sample("made_inside", made_inside, [X], E),
    Sample("made_inside_and_changed_in_a_call", made_inside_and_changed_in_a_call, [X], VALUE),
    Sample("other_structures", other_structures, [X], E),
    Sample("scanned", scanned, [X], E),
    Sample("looped", looped, [X], E),
    Sample("chosen", chosen, [X, ONE], E),
    Sample("not_chosen", chosen, [X, -ONE], E),
    Sample("forwards", forwards, [X], E),
    Sample("differentiated", differentiated, [X], E),
    Sample("set_backwards", set_backwards, [X], E),
    Sample("ahead", ahead, [X], E),
    Sample("other_rounds", other_rounds, [X], E, error="TypeError"),
    Sample("constant_box", constant_box, [X], E, error="ValueError"),
]  # fmt: skip
