"""References in loops and under vmap: a mapped program leaves what the program leaves for every example."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax

M = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def by_hand(f, axis, xs):
    """What vmap has to give: results and the reference's contents, example after example."""
    outs, kept = [], []
    for i, x in enumerate(xs):
        ref = xlab.new_ref(jnp.asarray(np.take(M, i, axis)))
        outs.append(f(ref, x))
        kept.append(np.asarray(ref[...]))
    return np.stack(outs), np.stack(kept, axis)


def scanned(ref, x):
    def body(c, y):
        ref[...] = ref[...] * y + c
        return c + 1, ref[0].sum()

    return lax.scan(body, x, jnp.arange(2.0))[1]


def taken_apart(ref, x):
    def body(c, row):
        old = row[...]
        row[...] = old * c
        return c + old.sum(), old.max()

    return lax.scan(body, x, ref)[1]


@xlab.jit
def jitted(ref, x):
    ref[0] = ref[0] * 2 + x
    return ref[...].sum()


def branches(ref, x):
    def yes():
        ref[0] = ref[0] * 2 + x
        return x

    def no():
        ref[1] = ref[0] + x
        return ref[0].sum()

    return lax.cond(ref.shape[0] > 0, yes, no)


def chosen(ref, x):
    def yes():
        ref[0] = ref[0] * 2 + x
        return x

    def no():
        ref[1] = ref[0] + x
        return ref[0].sum()

    return lax.cond(x > 1, yes, no)


def looped(ref, x):
    def body(i):
        ref[...] = ref[...] + x
        return i + 1

    return lax.while_loop(lambda i: i < x, body, 0.0)


def asking(ref, x):
    def test(i):
        ref[0] = ref[0] + 1
        return ref[0].sum() < 30 + 10 * x

    return lax.while_loop(test, lambda i: i + 1, 0)


@xlab.checkpoint
def remade(ref, x):
    ref[0] = ref[0] * x
    return ref[1].sum()


def view_of_view(ref, x):
    part = ref.at[1:].at[0]
    part[...] = part[...] * x
    return part[...].ravel()[0]


def moving_view(ref, x):
    i = x.astype(int) % 2
    part = ref.at[0:2].at[i, 0:2]
    part[...] += x
    return part[1].sum()


def gathered_view(ref, x):
    i = x.astype(int) % 2
    part = ref.at[i].at[jnp.array([1, 0])]
    old = part[...]
    part[...] = old + jnp.arange(2.0).reshape(2, *[1] * (old.ndim - 1))
    return part[...].sum()


def window_view(ref, x):
    i = x.astype(int) % 2
    part = ref.at[xlab.ds(i, 1)].at[0]
    part[...] = part[...] + x
    return part[1:].sum()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    "f",
    [
        scanned,
        taken_apart,
        jitted,
        branches,
        chosen,
        looped,
        asking,
        remade,
        view_of_view,
        moving_view,
        gathered_view,
        window_view,
    ],
    ids=lambda f: f.__name__,
)
def test_vmap_is_a_loop(f, axis):
    xs = jnp.arange(float(M.shape[axis]))
    ref = xlab.new_ref(jnp.asarray(M))
    outs = xlab.vmap(f, in_axes=(axis, 0))(ref, xs)
    want, kept = by_hand(f, axis, xs)
    np.testing.assert_allclose(outs, want, rtol=1e-6)
    np.testing.assert_allclose(ref[...], kept, rtol=1e-6)


@pytest.mark.parametrize(
    "f", [view_of_view, moving_view, gathered_view, window_view], ids=lambda f: f.__name__
)
def test_view_of_a_view_of_a_shared_reference(f):
    def read(ref, x):
        return ref.at[x.astype(int) % 2].at[1:][0]

    ref = xlab.new_ref(jnp.asarray(M))
    got = xlab.vmap(read, in_axes=(None, 0))(ref, jnp.arange(3.0))
    np.testing.assert_array_equal(got, M[[0, 1, 0], 1])
    with pytest.raises(ValueError, match="unbatched"):
        xlab.vmap(f, in_axes=(None, 0))(ref, jnp.arange(3.0))


class TestConditionThatWrites:
    def both(self, x):
        ref = xlab.new_ref(jnp.zeros((), int))

        def test(i):
            ref[...] += 1
            return ref[...] < 10

        def body(i):
            ref[...] += i
            return i + 1

        return lax.while_loop(test, body, x), ref[...]

    def test_every_question_counts(self):
        def f(x):
            ref = xlab.new_ref(jnp.zeros((), int))

            def test(carry):
                ref[...] += 1
                return carry[0] < 3

            return lax.while_loop(test, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1], ref[...]

        for run in (f, xlab.jit(f)):
            y, asked = run(1.0)
            assert (float(y), int(asked)) == (8.0, 4)
        with xlab.disable_jit():
            assert int(f(1.0)[1]) == 4

    def test_with_a_body_that_writes_the_same_reference(self):
        for run in (self.both, xlab.jit(self.both)):
            assert [int(v) for v in run(0)] == [4, 11]
        outs = xlab.vmap(self.both)(jnp.arange(3))
        assert [np.asarray(v).tolist() for v in outs] == [
            [int(self.both(i)[k]) for i in range(3)] for k in (0, 1)
        ]

    def test_outer_reference_eagerly(self):
        ref = xlab.new_ref(jnp.zeros(()))

        def test(i):
            ref[...] += 1
            return i < 3

        assert int(lax.while_loop(test, lambda i: i + 1, 0)) == 3 and float(ref[...]) == 4


class TestDerivatives:
    X = np.float32([1, 2, 3])

    @staticmethod
    def accumulated(x):
        ref = xlab.new_ref(x * 0)

        def body(c):
            i, y = c
            ref[...] += jnp.sin(y) * (i + 1)
            return i + 1, y * 1.5

        _, y = lax.while_loop(lambda c: c[0] < 3, body, (0, x))
        return ref[...].sum() + y.sum()

    @pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit], ids=["plain", "jit"])
    def test_linearize_is_jvp(self, wrap):
        f = wrap(self.accumulated)
        y, push = xlab.linearize(f, self.X)
        want, t = xlab.jvp(self.accumulated, (self.X,), (self.X,))
        np.testing.assert_allclose([y, push(self.X), push(self.X)], [want, t, t], rtol=1e-6)

    def test_a_reference_outside_is_written_once(self):
        ref = xlab.new_ref(jnp.zeros(()))

        def f(x):
            def body(c):
                ref[...] += 1
                return c[0] + 1, c[1] * x

            return lax.while_loop(lambda c: c[0] < 3, body, (0, x))[1]

        y, push = xlab.linearize(f, 2.0)
        assert (float(y), float(push(1.0)), float(push(1.0)), float(ref[...])) == (
            16.0,
            32.0,
            32.0,
            3.0,
        )

    def test_reverse_mode_where_the_loop_is_known(self):
        def f(x):
            ref = xlab.new_ref(jnp.zeros(3))

            def body(i):
                ref[...] += 1
                return i + 1

            lax.while_loop(lambda i: i < 3, body, 0)
            return (x * ref[...]).sum()

        assert xlab.grad(f)(self.X).tolist() == xlab.grad(xlab.jit(f))(self.X).tolist() == [3, 3, 3]

    def test_reverse_mode_through_the_loop(self):
        with pytest.raises(ValueError, match="Reverse-mode"):
            xlab.grad(self.accumulated)(self.X)

    def test_a_number_of_turns_that_waits(self):
        def f(x):
            ref = xlab.new_ref(jnp.zeros(()))

            def body(y):
                ref[...] += y
                return y * 2

            y = lax.while_loop(lambda y: y < 10, body, x)
            return y * ref[...]

        g = xlab.checkpoint(f)
        want = xlab.jvp(f, (1.5,), (1.0,))
        np.testing.assert_allclose(xlab.jvp(g, (1.5,), (1.0,)), want, rtol=1e-6)
        y, push = xlab.linearize(g, 1.5)
        np.testing.assert_allclose([y, push(1.0)], want, rtol=1e-6)
