"""flax.linen parameters laid over a mesh by logical axes, and a step that keeps them so."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
RULES = (("batch", "data"), ("embed", None), ("hidden", "model"))


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        init = nn.initializers.lecun_normal()
        x = nn.Dense(32, kernel_init=nn.with_logical_partitioning(init, ("embed", "hidden")))(x)
        x = nn.with_logical_constraint(nn.relu(x), ("batch", "hidden"))
        return nn.Dense(8, kernel_init=nn.with_logical_partitioning(init, ("hidden", "embed")))(x)


model = Mlp()
x = jax.device_put(jnp.arange(64.0).reshape(8, 8) / 64, NamedSharding(mesh, P("data", None)))
shapes = jax.eval_shape(model.init, jax.random.key(0), x)
specs = nn.get_partition_spec(shapes)
with mesh:
    shardings = nn.logical_to_mesh_sharding(specs, mesh, RULES)
    params = jax.jit(model.init, out_shardings=shardings)(jax.random.key(0), x)
    with nn.logical_axis_rules(RULES):
        grads = jax.jit(jax.grad(lambda p: jnp.sum(model.apply(p, x) ** 2)))(params)
first = params["params"]["Dense_0"]["kernel"]
RESULT = {
    "spec": str(first.value.sharding.spec),
    "shard": list(first.value.addressable_shards[0].data.shape),
    "names": list(first.names),
    "norm": float(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)) ** 0.5),
}
