"""equinox: a module as a tree, filtered transformations, state and a serialised copy."""

import io

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Net(eqx.Module):
    layers: list
    scale: jax.Array
    name: str = eqx.field(static=True)

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.layers = [eqx.nn.Linear(3, 16, key=one), jax.nn.tanh, eqx.nn.Linear(16, 1, key=two)]
        self.scale, self.name = jnp.array(0.5), "net"

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.scale * x


net = Net(jax.random.key(0))
x = jax.random.normal(jax.random.key(1), (8, 3))
y = jnp.sin(x).sum(axis=1, keepdims=True)
tx = optax.adam(1e-2)
state = tx.init(eqx.filter(net, eqx.is_inexact_array))


@eqx.filter_jit
def step(net, state):
    value, grads = eqx.filter_value_and_grad(lambda n: jnp.mean((jax.vmap(n)(x) - y) ** 2))(net)
    updates, state = tx.update(grads, state, net)
    return eqx.apply_updates(net, updates), state, value


losses = []
for _ in range(4):
    net, state, value = step(net, state)
    losses.append(float(value))
file = io.BytesIO()
eqx.tree_serialise_leaves(file, net)
file.seek(0)
again = eqx.tree_deserialise_leaves(file, Net(jax.random.key(7)))
try:
    eqx.filter_jit(lambda x: eqx.error_if(x, x > 0, "too large"))(
        jnp.array(1.0)
    ).block_until_ready()
    refused = ""
except Exception as error:
    refused = "too large" in str(error)
RESULT = {
    "losses": losses,
    "again": float(again(x[0])[0]),
    "equal": bool(eqx.tree_equal(again, net)),
    "refused": refused,
}
