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
