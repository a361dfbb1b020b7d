"""flax.nnx: modules with batch statistics and dropout, trained under nnx.jit."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(4, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.last = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))


net = Net(nnx.Rngs(0))
optimizer = nnx.Optimizer(net, optax.sgd(0.05), wrt=nnx.Param)
x = jax.random.normal(jax.random.key(3), (16, 4))
y = jnp.sum(x, axis=1, keepdims=True)


@nnx.jit
def step(net, optimizer, x, y):
    value, grads = nnx.value_and_grad(lambda net: jnp.mean((net(x) - y) ** 2))(net)
    optimizer.update(net, grads)
    return value


losses = [float(step(net, optimizer, x, y)) for _ in range(3)]
net.eval()
graph, params, rest = nnx.split(net, nnx.Param, ...)
RESULT = {
    "losses": losses,
    "mean": float(jnp.mean(net.norm.mean[...])),
    "out": float(net(x).sum()),
    "count": sum(int(v.size) for v in jax.tree.leaves(params)),
}
