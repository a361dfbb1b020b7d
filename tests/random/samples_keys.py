"""Samples of arrays of keys that are moved about like other arrays: passed in, closed over by a traced function, and compared."""

from __future__ import annotations

import numpy as np

from tests.random.samples import SEED, WAYS
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
I, B = np.int32([2, 0]), np.array([True, False, True, False])


def words(n, tree):
    return n.jax.tree.map(lambda x: n.random.key_data(x) if n.jax.numpy.issubdtype(x.dtype, n.jax.dtypes.prng_key) else x, tree)


def on_keys(fun):
    """What `fun(n, keys)` gives, and what it gives of the same keys as constants of a compiled function."""
    def run(n, seed):
        keys = n.random.split(n.random.key(seed), 4)
        return words(n, fun(n, keys)), n.jax.jit(lambda: words(n, fun(n, keys)))()
    return run


def per_example(n, keys):
    return n.jax.vmap(lambda k, i: (k[i], k.at[i].set(k[0])), (None, 0))(keys, I)


def in_pairs(n, keys):
    two = keys.reshape(2, 2)
    return two.T, two.swapaxes(0, 1), two[None].squeeze(0), two.ravel(), two.flatten(), two.transpose(1, 0), two[:, 0], two.take(I, 0)


MOVES = {
    "stack": lambda n, k: n.jnp.stack([k, k[::-1]]), "array": lambda n, k: n.jnp.array([k[0], k[1]]),
    "concatenate": lambda n, k: n.jnp.concatenate([k, k[:1]]), "where": lambda n, k: n.jnp.where(B, k, k[0]), "tile": lambda n, k: n.jnp.tile(k, 2),
    "roll": lambda n, k: n.jnp.roll(k, 1), "flip": lambda n, k: n.jnp.flip(k), "broadcast_to": lambda n, k: n.jnp.broadcast_to(k, (3, 4)),
    "repeat": lambda n, k: n.jnp.repeat(k, 2), "pairs": in_pairs, "per_example": per_example,
    "zeros_like": lambda n, k: (n.jnp.zeros_like(k), n.jnp.ones_like(k), n.jnp.empty_like(k), n.jnp.full_like(k, 7)),
    "zeros": lambda n, k: (n.jnp.zeros((2,), k.dtype), n.jnp.ones((), k.dtype), n.jnp.empty((1, 2), k.dtype), n.jnp.full((2,), k[0])),
    "take": lambda n, k: (n.jnp.take(k, I), k.take(3), n.jnp.take(k, np.int32([1, 9])), n.jnp.take_along_axis(k, I, 0)),
    "get": lambda n, k: (k.at[np.int32([0, 9])].get(mode="fill"), k.at[np.int32([0, 9])].get(mode="fill", fill_value=3),
                         k.at[np.int32([0, 9])].get(mode="clip"), k.at[I].get()),
    "set": lambda n, k: (k.at[I].set(k[:2]), k.at[np.int32([9])].set(k[:1], mode="drop")),
    "equal": lambda n, k: (k == k[::-1], k != k[0], n.jnp.equal(k, k[2]), n.jnp.array_equal(k, k), n.lax.eq(k, k), n.lax.ne(k, k[::-1])),
    "isin": lambda n, k: n.jnp.isin(k, k[1:3]), "triu": lambda n, k: n.jnp.triu(k.reshape(2, 2)),
    "scan": lambda n, k: n.lax.scan(lambda c, x: (n.random.fold_in(c, 1), x), k[0], k),
    "gather": lambda n, k: n.lax.gather(k, np.int32([[1], [7]]), n.lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="fill"),
}

SAMPLES = [
    *(Sample(f"keys {name}", on_keys(fun), [SEED], WAYS) for name, fun in MOVES.items()),
    *(Sample(f"bad keys {name}", lambda n, s, f=fun: f(n, n.random.split(n.random.key(s), 4)), [SEED], error=error)
      for name, fun, error in [
          ("added", lambda n, k: k + 1, "TypeError"), ("ordered", lambda n, k: n.jnp.less(k, k), "TypeError"),
          ("summed", lambda n, k: n.jnp.sum(k), "TypeError"), ("true", lambda n, k: bool(k[0]), "TypeError"),
          ("hashed", lambda n, k: hash(k), "TypeError"), ("of numbers", lambda n, k: k.at[0].set(1), "TypeError")]),
]
