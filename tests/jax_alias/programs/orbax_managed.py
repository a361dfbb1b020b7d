"""orbax: saved while the program goes on, restored onto other meshes and dtypes, parts of a checkpoint, items of several kinds."""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("x", "y"))
other = jax.make_mesh((2,), ("z",), devices=jax.devices()[:2])
put = lambda x, *spec: jax.device_put(x, NamedSharding(mesh, P(*spec)))
params = {
    "w": put(jnp.arange(64.0).reshape(8, 8), "x", "y"),
    "half": put(jnp.arange(16, dtype=jnp.bfloat16).reshape(4, 4), None, "y"),
    "whole": put(jnp.arange(3), None),
    "scalar": jnp.float32(2.5),
}
state = {"params": params, "opt": optax.adamw(1e-3).init(params), "step": np.int64(3), "lr": 0.1}
told = {}
told_of = lambda x: [np.asarray(x, np.float64).sum().tolist(), str(x.dtype), str(getattr(getattr(x, "sharding", None), "spec", ""))]  # fmt: skip

with tempfile.TemporaryDirectory() as folder:
    with ocp.AsyncCheckpointer(ocp.StandardCheckpointHandler()) as saver:
        saver.save(f"{folder}/async", args=ocp.args.StandardSave(state))
        doubled = jax.tree.map(lambda x: x * 2, params)  # while it is written
        saver.wait_until_finished()
        told["async"] = [told_of(x) for x in jax.tree.leaves(saver.restore(f"{folder}/async")["params"])]  # fmt: skip
    told["doubled"] = told_of(doubled["w"])

    # Onto another mesh, as another type.
    aimed = jax.tree.map(ocp.utils.to_shape_dtype_struct, params)
    aimed["w"] = jax.ShapeDtypeStruct((8, 8), jnp.bfloat16, sharding=NamedSharding(other, P(None, "z")))  # fmt: skip
    aimed["half"] = jax.ShapeDtypeStruct((4, 4), jnp.float32, sharding=NamedSharding(other, P("z")))
    with ocp.StandardCheckpointer() as saver:
        saver.save(f"{folder}/params", params)
        saver.wait_until_finished()
        moved = saver.restore(f"{folder}/params", aimed)
    told["moved"] = {name: told_of(x) for name, x in moved.items()}
    told["shard"] = list(moved["w"].addressable_shards[0].data.shape)

    # By the handler of trees: a part of a checkpoint, what NumPy reads, what a checkpoint says of itself.
    with ocp.PyTreeCheckpointer() as saver:
        saver.save(f"{folder}/tree", params)
        known = saver.metadata(f"{folder}/tree")
        tree = getattr(getattr(known, "item_metadata", known), "tree", None) or known
        told["shape"] = list(tree["w"].shape)
        kinds = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in params}
        plain = saver.restore(f"{folder}/tree", restore_args=kinds)
        told["numpy"] = [type(plain["w"]).__name__, float(plain["w"].sum())]
        args = ocp.checkpoint_utils.construct_restore_args(params)
        told["args"] = {name: told_of(x) for name, x in saver.restore(f"{folder}/tree", restore_args=args).items()}  # fmt: skip

    # Several items a step, kept by how good they are.
    options = ocp.CheckpointManagerOptions(max_to_keep=2, best_fn=lambda m: m["loss"], best_mode="min", create=True)  # fmt: skip
    with ocp.CheckpointManager(f"{folder}/many", options=options) as many:
        for i, loss in enumerate((0.5, 0.1, 0.9, 0.3)):
            items = ocp.args.Composite(
                params=ocp.args.StandardSave(jax.tree.map(lambda x: x + i, params)),
                notes=ocp.args.JsonSave({"epoch": i}),
                key=ocp.args.JaxRandomKeySave(jax.random.key(i)),
            )
            many.save(i, args=items, metrics={"loss": loss})
        many.wait_until_finished()
        told["steps"] = [sorted(many.all_steps()), many.best_step(), many.latest_step()]
        back = many.restore(1, args=ocp.args.Composite(
            params=ocp.args.StandardRestore(jax.tree.map(ocp.utils.to_shape_dtype_struct, params)),
            notes=ocp.args.JsonRestore(), key=ocp.args.JaxRandomKeyRestore(),
        ))  # fmt: skip
        told["best"] = [told_of(back["params"]["w"]), back["notes"], jax.random.uniform(back["key"]).tolist()]  # fmt: skip
    with ocp.StandardCheckpointer() as saver:
        try:
            saver.restore(f"{folder}/params", {"w": aimed["w"]})
            told["refused"] = ""
        except Exception as error:
            told["refused"] = type(error).__name__
RESULT = told
