"""Keys used twice are found under `debug_key_reuse`, and only those."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab import random as R
from xlab.errors import KeyReuseError
from xlab.sharding import AxisType
from xlab.sharding import PartitionSpec as P


def key():
    return R.key(0)


def kept(f):
    k = key()
    return f(k)


def twice(k):
    return R.uniform(k) + R.normal(k)


def in_while(draw):
    return xlab.jit(lambda k: lax.while_loop(lambda c: c < 2, lambda c: c + 1 + draw(k), 0.0))(
        key()
    )


def split_in_scan():
    def body(k, _):
        k, sub = R.split(k)
        return k, R.uniform(sub)

    return lax.scan(body, key(), None, length=3)


def forgot_to_carry():
    def body(k, _):
        _, sub = R.split(k)
        return k, R.uniform(sub)

    return lax.scan(body, key(), None, length=3)


def on_devices():
    mesh = xlab.make_mesh((8,), ("i",), axis_types=AxisType.Auto)
    f = xlab.shard_map(
        lambda k, x: x + R.uniform(k[0]), mesh=mesh, in_specs=(P("i"), P("i")), out_specs=P("i")
    )
    keys = R.split(key(), 8)
    f(keys, jnp.ones(8))
    return keys, f


REUSED = {
    "two draws": lambda: kept(twice),
    "split twice": lambda: kept(lambda k: [R.split(k), R.split(k)]),
    "draw and split": lambda: kept(lambda k: [R.bits(k), R.split(k)]),
    "in one program": lambda: xlab.jit(twice)(key()),
    "one program twice": lambda: kept(lambda k: [xlab.jit(R.uniform)(k) for _ in range(2)]),
    "a program and a draw": lambda: kept(lambda k: [xlab.jit(R.uniform)(k), R.uniform(k)]),
    "one of several": lambda: (lambda ks: [R.uniform(ks[0]), R.uniform(ks[0])])(R.split(key())),
    "one of several in a program": lambda: xlab.jit(
        lambda k: (lambda ks: R.uniform(ks[0]) + R.uniform(ks[0]))(R.split(k))
    )(key()),
    "constant of a scan": lambda: kept(
        lambda k: lax.scan(lambda c, _: (c + R.uniform(k), None), 0.0, None, length=3)
    ),
    "carry of a scan": forgot_to_carry,
    "fori": lambda: xlab.jit(lambda k: lax.fori_loop(0, 3, lambda i, c: c + R.uniform(k), 0.0))(
        key()
    ),
    "while": lambda: in_while(R.uniform),
    "after a cond": lambda: xlab.jit(
        lambda k, p: lax.cond(p, R.uniform, lambda k: 0.0, k) + R.uniform(k)
    )(key(), True),
    "inside a checkpoint": lambda: xlab.jit(xlab.checkpoint(twice))(key()),
    "through a reshape": lambda: xlab.jit(lambda k: R.bits(k.reshape(1)[0]) + R.bits(k))(key()),
    "made inside": lambda: xlab.jit(lambda: twice(R.key(1)))(),
    "drawn after devices drew": lambda: (lambda keys, f: R.bits(keys[3]))(*on_devices()),
    "on devices again": lambda: (lambda keys, f: f(keys, jnp.ones(8)))(*on_devices()),
}
FINE = {
    "split": lambda: kept(lambda k: [R.uniform(a) for a in R.split(k)]),
    "split in a program": lambda: xlab.jit(lambda k: [R.uniform(a) for a in R.split(k)])(key()),
    "folded": lambda: kept(lambda k: [R.uniform(R.fold_in(k, i)) for i in range(3)]),
    "raw": lambda: (lambda k: twice(k))(R.PRNGKey(0)),
    "cloned": lambda: xlab.jit(lambda k: R.uniform(k) + R.uniform(R.clone(k)))(key()),
    "each branch": lambda: xlab.jit(lambda k, p: lax.cond(p, R.uniform, R.normal, k))(key(), True),
    "cloned eagerly": lambda: kept(lambda k: R.uniform(k) + R.uniform(R.clone(k))),
    "rows of a scan": lambda: lax.scan(
        lambda c, k: (c + R.uniform(k), None), 0.0, R.split(key(), 3)
    ),
    "carried": split_in_scan,
    "folded in fori": lambda: xlab.jit(
        lambda k: lax.fori_loop(0, 3, lambda i, c: c + R.uniform(R.fold_in(k, i)), 0.0)
    )(key()),
    "mapped": lambda: xlab.vmap(R.uniform)(R.split(key(), 3)),
    "words": lambda: kept(lambda k: [R.key_data(k), R.uniform(k)]),
    "neighbors": lambda: (lambda ks: [R.uniform(ks[0]), R.uniform(ks[1])])(R.split(key())),
    "devices": on_devices,
    "distributions that split": lambda: [
        R.gamma(key(), 2.0),
        R.permutation(key(), 5),
        R.truncated_normal(key(), -1.0, 1.0),
    ],
    "derivative": lambda: xlab.grad(lambda x: x * R.normal(key()))(1.0),
}


@pytest.mark.parametrize("case", REUSED)
def test_a_key_used_twice(case):
    REUSED[case]()  # nobody asked
    with (
        xlab.debug_key_reuse(),
        pytest.raises(
            KeyReuseError,
            match=r"uses a key that was used before, by random_|uses a key .* by \w+ at",
        ),
    ):
        REUSED[case]()


@pytest.mark.parametrize("case", FINE)
def test_keys_used_once(case):
    with xlab.debug_key_reuse():
        FINE[case]()


def test_the_error_is_a_type_error_with_both_lines():
    with xlab.debug_key_reuse(), pytest.raises(TypeError) as e:
        k = key()
        R.uniform(k)  # first
        R.normal(k)  # second
    assert str(e.value).count("test_reuse.py") == 2 and str(e.value).startswith("normal at ")
    assert np.isfinite(float(R.uniform(k)))


def at(ks, i):
    return lax.dynamic_index_in_dim(ks, i, keepdims=False)


MOVED = {
    "stacked": lambda k, i: R.bits(k[0]) + R.bits(jnp.stack([k[1], k[0]])[1]),
    "joined": lambda k, i: R.bits(jnp.concatenate([k, k])[2]) + R.bits(k[0]),
    "reversed": lambda k, i: R.bits(k[::-1][0]) + R.bits(k[1]),
    "unstacked": lambda k, i: R.bits(jnp.unstack(k)[0]) + R.bits(k[0]),
    "split": lambda k, i: R.bits(lax.split(k, (1, 1))[1][0]) + R.bits(k[1]),
    "chosen": lambda k, i: R.bits(jnp.where(i > 0, k[0], k[1])) + R.bits(k[1]),
    "chosen by a branch": lambda k, i: (
        R.bits(lax.cond(i > 0, lambda k: k[0], lambda k: k[1], k)) + R.bits(k[1])
    ),
    "one that is not known, twice": lambda k, i: R.bits(at(k, i)) + R.bits(at(k, i)),
    "one that is not known, then all": lambda k, i: R.bits(at(k, i)) + xlab.vmap(R.bits)(k)[0],
    "all, then one that is not known": lambda k, i: xlab.vmap(R.bits)(k)[0] + R.bits(at(k, i)),
}
NOT_THE_SAME = {
    "others of a stack": lambda k, i: R.bits(k[0]) + R.bits(jnp.stack([k[1], k[0]])[0]),
    "the other half": lambda k, i: R.bits(lax.split(k, (1, 1))[1][0]) + R.bits(k[0]),
    "two that are not known": lambda k, i: R.bits(at(k, i)) + R.bits(at(k, 1 - i)),
    "row by row": lambda k, i: lax.fori_loop(0, 2, lambda i, c: c + R.bits(at(k, i)), np.uint32(0)),
    "branches of a choice": lambda k, i: lax.cond(i > 0, lambda k: k[0], lambda k: k[1], k),
}


@pytest.mark.parametrize("case", [*MOVED, *NOT_THE_SAME])
def test_keys_are_followed_where_they_move(case):
    from xlab.experimental.key_reuse import first_reuse

    program = xlab.make_jaxpr({**MOVED, **NOT_THE_SAME}[case])(R.split(key()), 1)
    found = first_reuse(program)
    assert (found is not None) == (case in MOVED)
    if found is not None:
        assert found.text.count("test_reuse.py") == 2


def test_distributions_of_two_methods_use_their_key_once():
    with xlab.debug_key_reuse():
        R.poisson(key(), 3.0)
        R.binomial(key(), 3.0, 0.5)


def test_a_primitive_of_ones_own_says_that_it_draws():
    from xlab.core.primitive import Primitive
    from xlab.experimental.key_reuse import first_reuse, key_consumers

    own_p = Primitive("own_draw", hidden=True)
    own_p.def_abstract_eval(lambda k: xlab.core.ShapedArray((), np.dtype(np.float32)))
    program = xlab.make_jaxpr(lambda k: own_p.bind(k) + own_p.bind(k))(key())
    assert first_reuse(program) is None
    key_consumers[own_p] = lambda params: (0,)
    try:
        assert first_reuse(program).equation.primitive is own_p
    finally:
        del key_consumers[own_p]


def test_a_report_says_it_without_the_flag():
    from xlab import observe

    f = xlab.jit(twice)
    with observe.record() as session:
        f(key())
    (notice,) = [n for n in observe.report(session).notices if "used before" in n.text]
    assert notice.severity == "warning" and notice.equation >= 0


def test_a_long_computation_without_keys_is_numbered_in_one_walk():
    from xlab.interpreters.key_reuse import first_reuse

    def doubled(x):  # as text its value has 2**200 terms
        for _ in range(200):
            x = x + x
        return x

    closed = xlab.make_jaxpr(lambda k, x: R.uniform(k) + doubled(x))(key(), 1.0)
    assert first_reuse(closed, "f") is None
