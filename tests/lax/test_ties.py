"""Derivatives where something ties: against the reference, and by laws where the two differ.

Every run takes some functions; XLAB_EVERY_TIE=1 takes all.
"""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.lax.samples_ties import ALWAYS
from tests.reference.harness import cases, check
from xlab import lax
from xlab.scipy import special


@cases("tests.lax.samples_ties")
def test_reference(case, oracle):
    if case.sample.name.rsplit("-", 1)[0] not in ALWAYS and not os.environ.get("XLAB_EVERY_TIE"):
        pytest.skip("XLAB_EVERY_TIE=1 takes this one too")
    check(case, oracle)


GRID = np.float32(list(itertools.product([-1, 0, 1, 2], repeat=3))).T


def test_clamp_follows_the_bound_it_takes():
    """Bounds that meet or cross: the result moves as what it equals does, and never twice as fast."""
    ones = np.ones_like(GRID[0])
    steps = np.eye(3, dtype=np.float32)[:, :, None] * ones
    _, (lo, x, hi) = xlab.vmap(lambda t: xlab.jvp(lax.clamp, tuple(GRID), tuple(t)))(steps)
    low, value, high = GRID
    np.testing.assert_array_equal(hi, (value > high) | (low >= high))
    np.testing.assert_array_equal(x, (low < value) & (value < high))
    np.testing.assert_array_equal(lo, (low > value) & (low < high))
    spread = xlab.vmap(lambda *xs: xlab.jvp(lax.clamp, xs, (0.0, 1.0, 0.0))[1])(*GRID)
    np.testing.assert_array_equal(
        xlab.jvp(xlab.vmap(lax.clamp), tuple(GRID), (0 * ones, ones, 0 * ones))[1], spread
    )
    np.testing.assert_array_equal(spread, x)


def test_clamp_by_a_scalar_and_an_array():
    slopes = xlab.grad(lambda *xs: lax.clamp(*xs).sum(), (0, 1, 2))(
        np.float32(-1), np.float32([-2, 0.5, 3]), np.float32([1, 1, 1])
    )
    assert [np.asarray(s).tolist() for s in slopes] == [1, [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("mode", ["clip", "drop"])
def test_scattered_extrema_move_with_all_their_operands(op, mode):
    """Where operand and updates move alike the result does, however many of them tie: cotangents are shared, not multiplied."""

    def scattered(x, updates):
        return getattr(x.at[np.int32([0, 9, 1, 1])], op)(updates, mode=mode)

    rows = np.float32(list(itertools.product([1, 2, 3], repeat=4)))
    _, moved = xlab.vmap(
        lambda u: xlab.jvp(
            scattered, (np.float32([1, 2, 3]), u), (np.ones(3, np.float32), np.ones(4, np.float32))
        )
    )(rows)
    np.testing.assert_allclose(moved, np.ones((81, 3)), rtol=1e-6)
    cts = np.float32([1, 2, 4])
    slopes = xlab.vmap(lambda u: xlab.vjp(scattered, jnp.float32([1, 2, 3]), u)[1](cts))(rows)
    np.testing.assert_allclose(slopes[0].sum(1) + slopes[1].sum(1), np.full(81, 7.0), rtol=1e-6)


def _pairs(a, b):
    return a[0] + b[0], a[1] * b[1]


@pytest.mark.parametrize("dims", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("init", [0.0, 2.5])
def test_a_reduction_has_one_value_under_every_transformation(dims, init):
    a = np.float32([[0.5, -1.5, 2.0]])

    def reduced(a):
        return lax.reduce((a, a + 1), (np.float32(init), np.float32(1 + init)), _pairs, dims)

    value = reduced(a)
    for other in (
        xlab.jvp(reduced, (a,), (a,))[0],
        [x[0] for x in xlab.vmap(reduced)(a[None])],
        xlab.jit(reduced)(a),
    ):
        for x, y in zip(other, value):
            np.testing.assert_allclose(x, y, rtol=1e-6)


def test_a_size_has_a_slope_at_zero():
    """So the second derivative of its square is 2 everywhere; functions that are smooth in the size have the slopes of their series."""
    points = jnp.float32([-1.5, -0.0, 0.0, 2.0])

    def slopes(f):
        return [np.asarray(xlab.vmap(g)(points)) for g in (xlab.grad(f), xlab.grad(xlab.grad(f)))]

    np.testing.assert_array_equal(slopes(abs)[0], [-1, 1, 1, 1])
    np.testing.assert_array_equal(slopes(lambda x: abs(x) ** 2), [[-3, 0, 0, 4], [2, 2, 2, 2]])
    for f in (jnp.i0, special.i0):
        np.testing.assert_allclose(slopes(f)[0], special.i1(points), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(slopes(f)[1][1:3], [0.5, 0.5], rtol=1e-5)
    np.testing.assert_allclose(slopes(special.i1)[0][1:3], [0.5, 0.5], rtol=1e-5)
    np.testing.assert_allclose(slopes(special.i1)[1][1:3], [0, 0], atol=1e-5)


def test_a_cube_root_rises_infinitely_at_zero():
    slopes = xlab.vmap(xlab.grad(jnp.cbrt))(jnp.float32([-8, -0.0, 0.0, 8]))
    np.testing.assert_allclose(slopes, [1 / 12, np.inf, np.inf, 1 / 12], rtol=1e-6)
