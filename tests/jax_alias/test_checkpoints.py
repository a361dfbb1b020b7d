"""Checkpoints of orbax: made under JAX and opened on xlab, and the other way round; each side in a process of its own."""

from __future__ import annotations

import importlib.util
import os

import pytest

from tests.jax_alias.test_finder import printed

pytestmark = [
    pytest.mark.reference,
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("orbax") is None,
        reason="orbax not installed: pip install '.[libraries]'",
    ),
]
OTHER = {"jax": "xlab", "xlab": "jax"}

STATE = """
import jax, jax.numpy as jnp, numpy as np, optax, orbax.checkpoint as ocp
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2,), ("x",))
params = {"w": jax.device_put(jnp.arange(8.0).reshape(4, 2), NamedSharding(mesh, P("x"))), "b": jnp.ones(3, jnp.bfloat16)}
state = {"params": params, "opt": optax.adam(1e-3).init(params), "step": 3}
def words(s):
    w = s["params"]["w"]
    return [w.sharding.spec[0], len(w.sharding.device_set), w.tolist(), str(s["params"]["b"].dtype), s["params"]["b"].tolist(), int(s["step"]), type(s["opt"][0]).__name__]
"""
SAVE = "with ocp.StandardCheckpointer() as c:\n    c.save({folder!r}, state)\nprint(words(state))"
# Arrays of zeros in place of the state's: what comes back is the checkpoint's.
OPEN = (
    "like = jax.tree.map(ocp.utils.to_shape_dtype_struct, jax.tree.map(lambda x: x * 0, state))\n"
    "with ocp.StandardCheckpointer() as c:\n    print(words(c.restore({folder!r}, like)))"
)


def said(side: str, text: str) -> str:
    """The last line that a program of two devices prints under JAX, or with xlab in its place."""
    start = {"jax": "", "xlab": "import xlab.as_jax\n"}[side]
    two = {"XLAB_NUM_CPU_DEVICES": "2", "JAX_NUM_CPU_DEVICES": "2", "XLA_FLAGS": ""}
    return (printed(start + text, PYTHONWARNINGS="ignore", **two).splitlines() or [""])[-1]


@pytest.mark.parametrize("saved_on", OTHER)
def test_saved_on_one_opened_on_the_other(tmp_path, saved_on):
    folder = os.path.join(tmp_path, "checkpoint")
    saved = said(saved_on, STATE + SAVE.format(folder=folder))
    opened = said(OTHER[saved_on], STATE + OPEN.format(folder=folder))
    assert saved == opened and saved.startswith("['x', 2, [[0.0, 1.0]")


# What a checkpoint says of its own shardings, axis types among it.
AS_SAVED = """
import jax, jax.numpy as jnp, orbax.checkpoint as ocp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 1, 1), ("x", "y", "z"), axis_types=(AxisType.Explicit, AxisType.Auto, AxisType.Explicit))
state = {"w": jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("x"))), "one": jnp.ones(2)}
c = ocp.StandardCheckpointer()
"""
READ_AS_SAVED = """
w = c.restore({folder!r})["w"]
metadata = c.metadata({folder!r}).item_metadata["w"].sharding.to_jax_sharding()
print([str(t) for t in w.sharding.mesh.axis_types], w.sharding.spec[0], w.tolist(), metadata == w.sharding)
"""


@pytest.mark.parametrize("saved_on", OTHER)
def test_opened_on_the_other_as_it_was_saved(tmp_path, saved_on):
    folder = os.path.join(tmp_path, "checkpoint")
    said(saved_on, AS_SAVED + f"c.save({folder!r}, state); c.wait_until_finished()")
    opened = said(OTHER[saved_on], AS_SAVED + READ_AS_SAVED.format(folder=folder))
    kinds = "['AxisType.Explicit', 'AxisType.Auto', 'AxisType.Explicit']"
    assert opened == f"{kinds} x [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0] True"
