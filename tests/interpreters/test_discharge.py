"""K13, K14: programs on values. One whole program with every construct, under every choice of references; the table of rules."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.check import check_jaxpr
from xlab.core.jaxpr import eval_jaxpr, subjaxprs
from xlab.core.refs import AbstractRef
from xlab.interpreters.discharge import discharge_state

X = np.arange(12, dtype=np.float32).reshape(3, 4)
STATE = {"get", "swap", "addupdate", "new_ref", "freeze", "free_ref", "empty_ref"}


def names(jaxpr):
    found = {e.primitive.name for e in jaxpr.eqns}
    return found.union(*map(names, subjaxprs(jaxpr))) if jaxpr.eqns else found


def discharged(f, *args):
    pure = discharge_state(xlab.make_jaxpr(f)(*args))
    check_jaxpr(pure)
    assert not names(pure.jaxpr) & STATE and not pure.effects
    assert AbstractRef not in map(type, pure.in_avals)
    return pure


# -- the table ------------------------------------------------------------------------------------------------


I = np.array([2, 0, 2], np.int32)
TABLE = {
    "get, static slices": (lambda r, i: r[1:, 2:], {"slice"}, {"gather", "dynamic_slice"}),
    "get, a traced start": (lambda r, i: r[xlab.ds(i, 2), 1], {"dynamic_slice"}, {"gather"}),
    "get, static strides": (lambda r, i: r[0:3:2, ::3], {"slice"}, {"gather"}),
    "get, strides from a traced start": (lambda r, i: r[xlab.ds(i, 2, 2)], {"gather"}, set()),
    "get, integer arrays": (lambda r, i: r[:, I], {"gather"}, set()),
    "swap, slices": (lambda r, i: r.swap(X[:2, :2], (slice(2), slice(1, 3))), {"dynamic_update_slice", "slice"}, {"scatter"}),
    "swap, integer arrays": (lambda r, i: r.swap(X, I), {"gather", "scatter"}, set()),
    "addupdate, slices": (lambda r, i: r.addupdate(X[0], i), {"add", "dynamic_update_slice"}, {"scatter-add"}),
    "addupdate, integer arrays": (lambda r, i: r.addupdate(X, I), {"scatter-add"}, {"gather"}),
    "new_ref and freeze": (lambda r, i: xlab.ref.freeze(xlab.new_ref(r[...])), set(), {"slice"}),
    "view": (lambda r, i: r.T.reshape(12).at[2:].bitcast(int).swap(np.zeros(10, np.int32)),
             {"transpose", "reshape", "bitcast_convert_type", "dynamic_update_slice"}, set()),
}  # fmt: skip


@pytest.mark.parametrize("row", TABLE)
def test_k13_table(row):
    f, used, unused = TABLE[row]
    ref = xlab.new_ref(X)
    pure = discharged(f, ref, 1)
    found = names(pure.jaxpr)
    for inner in subjaxprs(pure.jaxpr):
        found |= names(inner)
    assert used <= found and not unused & found
    want = f(ref, jnp.int32(1))
    *outs, final = eval_jaxpr(pure.jaxpr, pure.consts, X, np.int32(1))
    np.testing.assert_array_equal(final, ref[...])
    for a, b in zip(outs, xlab.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", range(3))
def test_k13_repeated_positions(seed):
    """The last write in row-major order is kept; everything is added."""
    i = np.random.RandomState(seed).randint(0, 40, (25, 40)).astype(np.int32)
    values = np.arange(1000, dtype=np.int32).reshape(25, 40)
    kept, total = np.zeros(40, np.int32), np.zeros(40, np.int32)
    kept[i.ravel()] = values.ravel()
    np.add.at(total, i.ravel(), values.ravel())
    for wrap in (lambda f: f, xlab.jit):
        ref, sums = xlab.new_ref(jnp.zeros(40, int)), xlab.new_ref(jnp.zeros(40, int))

        def f(ref, sums, i):
            ref[i] = values
            sums.addupdate(values, i)

        wrap(f)(ref, sums, jnp.asarray(i))
        assert ref[...].tolist() == kept.tolist() and sums[...].tolist() == total.tolist()


def test_k13_final_values_come_after_the_results():
    def f(a, x, b):
        b[0] = a[1] + x
        return x * 2

    refs = xlab.new_ref(X[0]), xlab.new_ref(X[1])
    closed = xlab.make_jaxpr(f)(refs[0], 1.0, refs[1])
    pure = discharge_state(closed)
    assert [str(a) for a in pure.in_avals] == ["float32[4]", "~float32[]", "float32[4]"]
    y, a, b = eval_jaxpr(pure.jaxpr, pure.consts, X[0], 1.0, X[1])
    assert float(y) == 2 and a.tolist() == X[0].tolist() and b.tolist() == [2, 5, 6, 7]
    assert discharge_state(closed, False).in_avals == closed.in_avals
    with pytest.raises(ValueError, match="3 inputs, got 2"):
        discharge_state(closed, [True, False])


# -- control flow -----------------------------------------------------------------------------------------------


@xlab.custom_jvp
def doubled(x):
    return x * 2


doubled.defjvp(lambda p, t: (doubled(*p), t[0] * 2))


@xlab.custom_vjp
def tripled(ref, x):
    ref[2, 0] += 1
    return x * 3


tripled.defvjp(lambda ref, x: (tripled(ref, x), None), lambda _, g: (None, g * 3))


def everything(r, s):
    v = r.at[1:].T

    def body(i, c):
        v[i] = v[i] * c + s[0, i]
        return c + 1

    c = lax.fori_loop(0, 4, body, 1.0)
    lax.cond(c > 2, lambda: v.set(v[...] * 2), lambda: s.T.set(s[:, 0], 0))
    lax.cond(s[0, 0] > 2, lambda: v.set(v[...] * 2), lambda: s.T.set(s[:, 0] + 1, 0))
    lax.while_loop(
        lambda i: v[0, 0] < 100.0, lambda i: (v.addupdate(jnp.ones((4, 2)) * 10), i + 1)[1], 0
    )

    def asks(i):
        s[2, 2] += 1
        return s[2, 2] < 15

    lax.while_loop(asks, lambda i: i + 1, 0)
    r.reshape(12)[3] = doubled(r.bitcast(jnp.float32)[0, 0] + s[2, 2])
    r[0, 1] = tripled(s, r[0, 0] + 1)
    lax.scan(lambda c, row: (c + row[0], row.set(row[...] * c)), 1.0, s)
    lax.scan(
        lambda c, _: (c, v.addupdate(jnp.float32(1), (0, 0))), 0.0, None, length=3, reverse=True
    )
    xlab.jit(lambda: r.set(s.T[0], (slice(None), 2)))()
    xlab.checkpoint(lambda: s.set(r.T[1], (slice(None), 0)))()
    lax.switch(1, [lambda: None, lambda: r.set(s[...]), lambda: None])
    return r[...].sum()


def outcome(run):
    r, s = xlab.new_ref(X), xlab.new_ref(X[::-1] / 2)
    return [run(r, s), r[...], s[...]]


@functools.cache
def want():
    return outcome(everything)


def same(got):
    for a, b in zip(got, want(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_k14_eager_jit_and_without_jit():
    same(outcome(xlab.jit(everything)))
    with xlab.disable_jit():
        same(outcome(everything))


@pytest.mark.parametrize("mask", [(True, True), (True, False), (False, True), (False, False)])
def test_k14_partial(mask):
    """References that are not selected stay references, in every construct."""
    closed = xlab.make_jaxpr(everything)(xlab.new_ref(X), xlab.new_ref(X))
    half = discharge_state(closed, mask)
    check_jaxpr(half)
    assert [type(a) is AbstractRef for a in half.in_avals] == [not m for m in mask]
    if all(mask):
        assert not names(half.jaxpr) & STATE
    arrays = (X, X[::-1] / 2)
    given = [x if m else xlab.new_ref(x) for x, m in zip(arrays, mask)]
    out, *rest = eval_jaxpr(half.jaxpr, half.consts, *given)
    ends = iter(rest)
    same([out, *(next(ends) if m else g[...] for g, m in zip(given, mask))])


def test_k14_written_references_are_carries_and_others_constants():
    def f(written, read, unused):
        def body(i, c):
            written.T[0, i] = read[i, 0] + c
            return c

        return lax.fori_loop(0, 3, body, 1.0)

    pure = discharged(f, *(xlab.new_ref(X) for _ in range(3)))
    (loop,) = [e for e in pure.jaxpr.eqns if e.primitive.name == "scan"]
    assert (loop.params["num_consts"], loop.params["num_carry"]) == (1, 3)
    assert all(v.aval.shape in ((), (3, 4)) for v in loop.outvars)
