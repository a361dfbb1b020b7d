"""Samples of `experimental.random`: draws in the same order are the same numbers."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone


def draws(n, seed):
    """Draws of every kind, in one order."""
    rng = import_module(f"{n.name}.experimental.random").stateful_rng(seed)
    first, second = rng.spawn(2)
    several = rng.split((2,))
    return [
        rng.random(),
        rng.random(3),
        rng.random((2,), dtype=np.float16),
        rng.uniform(1, 3, (2, 2)),
        rng.uniform(np.zeros(3), 1),
        rng.normal(),
        rng.normal(2.0, np.float32([1, 2])),
        rng.integers(5),
        rng.integers(2, 9, 4),
        rng.integers(np.int32([1, 2]), 10, dtype=np.int8),
        n.random.key_data(rng.key()),
        n.random.key_data(rng.key(3)),
        n.random.key_data(rng.key((2, 1))),
        first.random(),
        second.normal(),
        n.jax.vmap(lambda one: one.uniform() + one.uniform())(several),
    ]


def of_another_kind(n):
    return import_module(f"{n.name}.experimental.random").stateful_rng(3, impl="rbg").integers(1000, size=5)


def in_a_program(n, x):
    rng = import_module(f"{n.name}.experimental.random").stateful_rng(1)
    draw = n.jax.jit(lambda x: x * rng.normal())
    return draw(x), draw(x), n.lax.scan(lambda c, _: (c, rng.random()), 0, None, length=3)[1], rng.random()


def failing(name, *args, seed=0):
    return lambda n: getattr(import_module(f"{n.name}.experimental.random").stateful_rng(seed), name)(*args)


SAMPLES = [
    Sample("draws", draws, [42], ("eager",), tol=1e-5),
    Sample("of_another_kind", of_another_kind, [], ("eager",)),
    Sample("in_a_program", in_a_program, [np.float32(2)], ("eager",), tol=1e-5),
    Sample("seed_of_float", failing("key", seed=1.5), [], error="TypeError"),
    Sample("seeds", failing("key", seed=np.arange(2)), [], error="TypeError"),
    Sample("split", lambda n: failing("split", 2)(n).key(), [], error="ValueError"),
    Sample("inside", lambda n: n.jax.jit(lambda: import_module(f"{n.name}.experimental.random").stateful_rng().random())(), [], error="TypeError"),
]
