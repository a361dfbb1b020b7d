"""Checkpoints of orbax: made under JAX and opened on xlab, and the other way round; each side in a process of its own."""

from __future__ import annotations

import ast
import importlib.util
import os

import pytest

import xlab
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


# A manager's folder, as a program leaves it: two of four steps, each with what orbax and the user say of it.
MANAGED = """
options = ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=2, create=True, step_prefix="run")
def items(step):
    made = jax.tree.map(lambda x: x + step, {"w": params["w"], "b": params["b"]})
    return ocp.args.Composite(params=ocp.args.StandardSave(made), notes=ocp.args.JsonSave({"step": step}), key=ocp.args.JaxRandomKeySave(jax.random.key(step)))
"""
KEEP = """
with ocp.CheckpointManager({folder!r}, options=options, metadata={{"by": "a user"}}) as many:
    print([many.save(i, args=items(i)) for i in range(7)])
"""
GO_ON = """
other = NamedSharding(jax.make_mesh((2,), ("z",)), P(None, "z"))
like = {{"w": jax.ShapeDtypeStruct((4, 2), jnp.bfloat16, sharding=other), "b": jax.ShapeDtypeStruct((3,), jnp.float32)}}
with ocp.CheckpointManager({folder!r}, options=options) as many:
    steps, by = many.all_steps(), many.metadata().custom_metadata
    found = many.restore(6, args=ocp.args.Composite(params=ocp.args.StandardRestore(like), notes=ocp.args.JsonRestore(), key=ocp.args.JaxRandomKeyRestore()))
    as_saved = many.restore(4, args=ocp.args.Composite(params=ocp.args.StandardRestore()))["params"]
    of_item = many.item_metadata(6)["params"]["w"]
    many.save(8, args=items(8)), many.wait_until_finished()
    w = found["params"]["w"]
    print([steps, by, many.latest_step(), many.all_steps(), many.should_save(9), str(w.dtype), w.sharding == other, w.tolist(), str(found["params"]["b"].dtype),
           found["notes"], jax.random.bits(found["key"]).item(), as_saved["w"].tolist(), as_saved["w"].sharding.spec[0], of_item.shape, str(of_item.dtype)])
"""


@pytest.mark.parametrize("saved_on", OTHER)
def test_a_folder_of_steps_is_gone_on_with_on_the_other(tmp_path, saved_on):
    """Its steps, what is said of them, their values under other shardings and dtypes; and the oldest makes room for the next."""
    folder = os.path.join(tmp_path, "steps")
    kept = said(saved_on, STATE + MANAGED + KEEP.format(folder=folder))
    assert kept == "[True, False, True, False, True, False, True]"
    went_on = said(OTHER[saved_on], STATE + MANAGED + GO_ON.format(folder=folder))
    steps, by, latest, after, due, dtype, placed, w, b, notes, bits, as_saved, spec, shape, kind = ast.literal_eval(went_on)  # fmt: skip
    assert [steps, by, latest, after, due] == [[4, 6], {"by": "a user"}, 8, [6, 8], False]
    assert [dtype, placed, b, notes] == ["bfloat16", True, "float32", {"step": 6}]
    assert w == [[6.0, 7.0], [8.0, 9.0], [10.0, 11.0], [12.0, 13.0]]
    assert [as_saved[0], spec, shape, kind] == [[4.0, 5.0], "x", (4, 2), "float32"]
    assert bits == int(xlab.random.bits(xlab.random.key(6)))


# `flax.training.checkpoints`: whole states in one file, and arrays over devices in a folder of TensorStore's beside it.
FLAX = """
import jax, jax.numpy as jnp, optax, flax
from flax.training import checkpoints, train_state
from jax.experimental.array_serialization.serialization import GlobalAsyncCheckpointManager
from jax.sharding import NamedSharding, PartitionSpec as P
flax.config.update("flax_use_orbax_checkpointing", {orbax})
mesh = jax.make_mesh((2,), ("x",))
place = NamedSharding(mesh, P("x"))
def state(n):
    params = {{"dense": {{"kernel": jax.device_put(jnp.arange(8.0).reshape(4, 2) + n, place), "bias": jnp.full(2, n, jnp.bfloat16)}}}}
    return train_state.TrainState.create(apply_fn=None, params=params, tx=optax.adam(1e-3)).replace(step=n)
"""
FLAX_SAVE = """
for n in range(1, 5):
    checkpoints.save_checkpoint({folder!r}, state(n), n, prefix="s_", keep=2)
print(checkpoints.latest_checkpoint({folder!r}, "s_").rpartition("/")[2], checkpoints.available_steps({folder!r}, "s_"))
"""
FLAX_OPEN = """
like = jax.tree.map(lambda x: x * 0, state(1))
found = checkpoints.restore_checkpoint({folder!r}, like, prefix="s_")
older = checkpoints.restore_checkpoint({folder!r}, None, step=3, prefix="s_")
k = found.params["dense"]["kernel"]
checkpoints.save_checkpoint({folder!r}, state(9), 9, prefix="s_", keep=2)
print([checkpoints.available_steps({folder!r}, "s_"), int(found.step), jnp.asarray(k).tolist(), str(found.params["dense"]["bias"].dtype),
       type(found.opt_state[0]).__name__, float(older["params"]["dense"]["bias"][0]), sorted(older)])
"""


@pytest.mark.parametrize("orbax", [True, False])
@pytest.mark.parametrize("saved_on", OTHER)
def test_checkpoints_of_flax(tmp_path, saved_on, orbax):
    folder = os.path.join(tmp_path, "states")
    start = FLAX.format(orbax=orbax)
    kept = said(saved_on, start + FLAX_SAVE.format(folder=folder))
    assert kept == "s_4 [3, 4]"
    opened = said(OTHER[saved_on], start + FLAX_OPEN.format(folder=folder))
    kernel = [[4.0, 5.0], [6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]
    keys = ["opt_state", "params", "step"]
    assert ast.literal_eval(opened) == [
        [4, 9],
        4,
        kernel,
        "bfloat16",
        "ScaleByAdamState",
        3.0,
        keys,
    ]


# What flax's checkpoints of several processes are made of.
ARRAYS = """
import jax, jax.numpy as jnp
from jax.experimental.array_serialization import serialization
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2,), ("x",))
place = lambda *spec: NamedSharding(mesh, P(*spec))
paths = [{folder!r} + f"/{{n}}" for n in ("w", "b", "scalar")]
manager = serialization.GlobalAsyncCheckpointManager()
"""
ARRAYS_SAVE = """
arrays = [jax.device_put(jnp.arange(8.0).reshape(4, 2), place("x")), jnp.arange(3, dtype=jnp.bfloat16), jnp.int32(7)]
done = []
manager.serialize_with_paths(arrays, paths, on_commit_callback=lambda: done.append("committed"))
manager.wait_until_finished()
print(done)
"""
ARRAYS_OPEN = """
got = manager.deserialize_with_paths([place(None, "x"), place(), place()], paths, global_shapes=[(4, 4), (3,), ()], dtypes=[jnp.float32, None, jnp.float32])
print([[x.tolist(), str(x.dtype), tuple(x.sharding.spec), len(x.addressable_shards)] for x in got])
"""


@pytest.mark.parametrize("saved_on", OTHER)
def test_files_of_arrays(tmp_path, saved_on):
    """Of TensorStore's: other shardings, shapes and dtypes than they were written with."""
    start = ARRAYS.format(folder=os.path.join(tmp_path, "arrays"))
    assert said(saved_on, start + ARRAYS_SAVE) == "['committed']"
    w, b, scalar = ast.literal_eval(said(OTHER[saved_on], start + ARRAYS_OPEN))
    rows = [[2.0 * i, 2.0 * i + 1, 0.0, 0.0] for i in range(4)]
    assert w == [rows, "float32", (None, "x"), 2]
    assert b == [[0.0, 1.0, 2.0], "bfloat16", (), 2]
    assert scalar == [7.0, "float32", (), 2]
