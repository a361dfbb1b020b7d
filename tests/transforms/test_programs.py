"""Random programs against the laws that hold without a reference."""

from __future__ import annotations

import itertools
import os
import random

import numpy as np
import pytest

from tests.reference.harness import compiled_quickly, subject
from tests.transforms import programs

ROWS = np.array([[0.3, -0.7, 0.9], [-0.2, 0.5, 0.8], [0.6, 0.4, -0.5]], np.float32)
EACH = 5  # programs of a test: they share what is compiled for one operation
COUNT = int(os.environ.get("XLAB_RANDOM_PROGRAMS", "40"))


def sound_programs(seed: int):
    """An endless, always equal sequence of programs."""
    choose = random.Random(f"laws {seed}").randrange
    return filter(programs.sound, (programs.generate(choose, 2) for _ in itertools.count()))


@pytest.mark.law
@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=pytest.mark.xdist_group(f"programs {seed % 4}"))
        for seed in range(-(-COUNT // EACH))
    ],
)
def test_laws(seed):
    from xlab import clear_caches

    with compiled_quickly():
        for program in itertools.islice(sound_programs(seed), EACH):
            check(program)
    if seed % 10 == 9:
        clear_caches()  # what a thousand programs compile is gigabytes


def check(program):
    import xlab
    from xlab.core import check_jaxpr

    n = subject()
    x = ROWS[0]
    f = lambda x: programs.run(n, program, n.jnp.asarray(x))
    eager = f(x)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=3e-4, atol=3e-5)
    close(n.jax.jit(f)(x), eager)
    close(n.jax.vmap(f)(ROWS), np.stack([f(row) for row in ROWS]))
    close(n.jax.jit(n.jax.vmap(n.jax.jit(f)))(ROWS), n.jax.vmap(f)(ROWS))
    check_jaxpr(xlab.make_jaxpr(f)(x))
    check_jaxpr(xlab.make_jaxpr(xlab.vmap(f))(ROWS))
    reverse = not programs.contains(program, programs.NO_REVERSE)
    forward = not programs.contains(program, programs.NO_FORWARD)
    direction = ROWS[1]
    if reverse:
        slope = n.jax.grad(lambda v: f(v).sum())(x)
        close(n.jax.jit(n.jax.grad(lambda v: f(v).sum()))(x), slope)
        close(n.jax.vmap(n.jax.grad(lambda v: f(v).sum()))(ROWS)[0], slope)
        close(n.jax.grad(n.jax.checkpoint(lambda v: f(v).sum()))(x), slope)
        check_jaxpr(xlab.make_jaxpr(xlab.grad(lambda v: f(v).sum()))(x))
    if forward:
        push = n.jax.jvp(f, (x,), (direction,))[1]
        close(n.jax.jit(lambda v, t: n.jax.jvp(f, (v,), (t,))[1])(x, direction), push)
    if forward and reverse:
        close(push.sum(), (slope * direction).sum())
        close(n.jax.linearize(f, x)[1](direction), push)
    sharded(n, f, reverse, close)
    if reverse and not programs.contains(program, ("cond",)):
        with n.jax.enable_x64(True):
            wide, step = x.astype(np.float64), 1e-5 * direction.astype(np.float64)
            ahead, behind = (float(f(wide + s).sum()) for s in (step, -step))
            exact = float((n.jax.grad(lambda v: f(v).sum())(wide) * step).sum())
        np.testing.assert_allclose((ahead - behind) / 2, exact, rtol=1e-3, atol=1e-9)


def sharded(n, f, reverse, close):
    """The program for eight examples on eight devices: left to the partitioner, and written by hand."""
    from xlab.sharding import AxisType, NamedSharding
    from xlab.sharding import PartitionSpec as P

    mesh = n.jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    rows = np.concatenate([ROWS, -ROWS, ROWS[:2] * 0.5])
    placed = n.jax.device_put(rows, NamedSharding(mesh, P(("data", "model"))))
    want = n.jax.vmap(f)(rows)
    close(n.jax.jit(n.jax.vmap(f))(placed), want)
    by_hand = n.jax.shard_map(
        lambda v: (n.jax.vmap(f)(v), n.lax.psum(n.jax.vmap(f)(v).sum(), ("data", "model"))),
        mesh=mesh,
        in_specs=P(("data", "model")),
        out_specs=(P(("data", "model")), P()),
    )
    each, total = n.jax.jit(by_hand)(placed)
    close(each, want)
    np.testing.assert_allclose(total, np.asarray(want).sum(dtype=np.float64), rtol=1e-3, atol=1e-4)
    if reverse:
        slopes = n.jax.vmap(n.jax.grad(lambda v: f(v).sum()))(rows)
        close(n.jax.jit(n.jax.grad(lambda v: n.jax.vmap(f)(v).sum()))(placed), slopes)
        close(n.jax.jit(n.jax.grad(lambda v: by_hand(v)[1]))(placed), slopes)
