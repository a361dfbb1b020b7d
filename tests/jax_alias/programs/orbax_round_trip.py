"""orbax: a training state saved and restored, whole and onto a mesh."""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("x",))
params = {
    "w": jax.device_put(jnp.arange(32.0).reshape(8, 4), NamedSharding(mesh, P("x"))),
    "b": jnp.ones(4, jnp.bfloat16),
}
state = {"params": params, "opt": optax.adam(1e-3).init(params), "step": 3}
with tempfile.TemporaryDirectory() as folder:
    with ocp.StandardCheckpointer() as saver:
        saver.save(f"{folder}/one", state)
    with ocp.StandardCheckpointer() as saver:
        back = saver.restore(f"{folder}/one", jax.tree.map(ocp.utils.to_shape_dtype_struct, state))
    with ocp.CheckpointManager(
        f"{folder}/many", options=ocp.CheckpointManagerOptions(max_to_keep=2)
    ) as many:
        for i in range(3):
            many.save(i, args=ocp.args.StandardSave(state))
        many.wait_until_finished()
        steps = sorted(many.all_steps())
RESULT = {
    "equal": all(
        np.array_equal(np.asarray(a), np.asarray(b))
        for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(back))
    ),
    "spec": str(back["params"]["w"].sharding.spec),
    "dtype": str(back["params"]["b"].dtype),
    "step": int(back["step"]),
    "steps": steps,
    "structure": str(jax.tree.structure(back)),
}
