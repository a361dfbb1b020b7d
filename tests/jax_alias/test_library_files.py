"""What libraries write: made under JAX and opened where xlab stands in for it, and the other way round; each side in a process of its own."""

from __future__ import annotations

import importlib.util

import pytest

from tests.jax_alias.test_finder import printed

STATE = """
import io, pathlib, pickle, jax, jax.numpy as jnp, numpy as np
folder = pathlib.Path({folder!r})
def words(tree):
    return repr([(str(x.dtype), np.asarray(x, np.float64).tolist()) for x in jax.tree.leaves(tree) if hasattr(x, "dtype")])
"""
# What makes the state, how it is written, and how it is opened into one of zeros.
KINDS = {
    "flax bytes": (("flax", "optax"), """
from flax import linen as nn, serialization
from flax.core import freeze
import optax
params = nn.Sequential([nn.Dense(3), nn.Dense(2, param_dtype=jnp.bfloat16)]).init(jax.random.key(0), jnp.ones((1, 2)))["params"]
state = {"params": freeze(params), "opt": optax.adam(1e-3).init(params), "step": jnp.int32(3)}
""", "(folder / 'state').write_bytes(serialization.to_bytes(state))",
         "back = serialization.from_bytes(jax.tree.map(lambda x: x * 0, state), (folder / 'state').read_bytes())"),
    "flax msgpack": (("flax",), """
from flax import serialization
state = {"a": jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3), "b": np.float64(2), "c": [jnp.ones(()), {"d": jnp.int8(3)}]}
""", "(folder / 'state').write_bytes(serialization.msgpack_serialize(jax.tree.map(np.asarray, state)))",
         "back = serialization.msgpack_restore((folder / 'state').read_bytes())"),
    "equinox leaves": (("equinox",), """
import equinox as eqx
class Net(eqx.Module):
    mlp: eqx.nn.MLP
    scale: jax.Array
    steps: int
state = Net(eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0)), jnp.bfloat16(2), 3)
""", "eqx.tree_serialise_leaves(folder / 'state', state)",
         "back = eqx.tree_deserialise_leaves(folder / 'state', jax.tree.map(lambda x: x * 0 if eqx.is_array(x) else x, state))"),
    "a pickle of optax and nnx": (("flax", "optax"), """
from flax import nnx
import optax
net = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
params = nnx.to_pure_dict(nnx.state(net))
state = (params, optax.chain(optax.clip(1.0), optax.adamw(1e-3)).init(params), jax.tree.structure(optax.adam(1.0).init(params)))
""", "(folder / 'state').write_bytes(pickle.dumps(state))", "back = pickle.loads((folder / 'state').read_bytes())"),
    "a pickle of nnx variables": (("flax",), """
from flax import nnx
state = nnx.state(nnx.BatchNorm(3, rngs=nnx.Rngs(0)))
""", "(folder / 'state').write_bytes(pickle.dumps(state))", "back = pickle.loads((folder / 'state').read_bytes())"),
    "a pickle of haiku": (("haiku",), """
import haiku as hk
net = hk.transform_with_state(lambda x: hk.BatchNorm(True, True, 0.9)(hk.Linear(3)(x), True))
state = net.init(jax.random.PRNGKey(0), jnp.ones((2, 2)))
""", "(folder / 'state').write_bytes(pickle.dumps(state))", "back = pickle.loads((folder / 'state').read_bytes())"),
    "a pickle of a model": (("equinox",), """
import equinox as eqx
layers = [eqx.nn.Linear(2, 3, key=jax.random.key(0)), eqx.nn.LayerNorm(3)]
state = (layers, eqx.filter(layers, eqx.is_array))
""", "(folder / 'state').write_bytes(pickle.dumps(state))", "back = pickle.loads((folder / 'state').read_bytes())"),
    "arrays of numpy": ((), "state = {'a': jnp.arange(6.0).reshape(2, 3), 'b': jnp.array([True, False]), 'k': jax.random.key_data(jax.random.key(3))}",
         "np.savez(folder / 'state.npz', **state)", "back = dict(np.load(folder / 'state.npz'))"),
}  # fmt: skip
SIDES = {"jax": "", "xlab": "import xlab.as_jax\n"}


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("made_on", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_made_on_one_opened_on_the_other(kind, made_on, tmp_path):
    needed, state, write, read = KINDS[kind]
    missing = [lib for lib in needed if importlib.util.find_spec(lib) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: pip install '.[libraries]'")
    opened_on = "xlab" if made_on == "jax" else "jax"
    begin = STATE.format(folder=str(tmp_path)) + state + "\n"
    made, opened = (
        printed(
            SIDES[side] + begin + act + f"\nprint(words({what}))", PYTHONWARNINGS="ignore"
        ).splitlines()[-1]
        for side, act, what in ((made_on, write, "state"), (opened_on, read, "back"))
    )
    assert made == opened and len(made) > 20


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("flax") is None,
    reason="flax not installed: pip install '.[libraries]'",
)
def test_the_structure_of_a_model(tmp_path):
    """One made under JAX is ours where xlab stands in for it. One of ours, opened beside JAX, is JAX's, to which the library's classes are known there."""
    begin = STATE.format(folder=str(tmp_path)) + (
        "from flax.core import FrozenDict\nmodel = FrozenDict({'a': jnp.ones(2), 'b': {'c': jnp.zeros(())}})\nleaves = jax.tree.leaves(model)\n"
    )
    write = "(folder / 'tree').write_bytes(pickle.dumps(jax.tree.structure(model)))"
    read = """
tree = pickle.loads((folder / 'tree').read_bytes())
print(type(tree.unflatten(leaves)).__name__, words(tree.unflatten(leaves)) == words(model), tree == jax.tree.structure(model))
"""
    for made_on, opened_on in (("jax", "xlab"), ("xlab", "xlab"), ("xlab", "jax")):
        printed(SIDES[made_on] + begin + write, PYTHONWARNINGS="ignore")
        said = printed(SIDES[opened_on] + begin + read, PYTHONWARNINGS="ignore")
        assert said == "FrozenDict True True"
