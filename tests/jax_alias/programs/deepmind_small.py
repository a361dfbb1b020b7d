"""chex, distrax, rlax, jraph: assertions, densities, targets of reinforcement learning, a graph network."""

import chex
import distrax
import jax
import jax.numpy as jnp
import jraph
import rlax


@chex.dataclass
class Pair:
    a: chex.Array
    b: chex.Array


@jax.jit
@chex.assert_max_traces(n=2)
def scaled(pair):
    chex.assert_rank([pair.a, pair.b], [1, 2])
    return jax.tree.map(lambda x: x * 2, pair)


pair = scaled(Pair(a=jnp.ones(3), b=jnp.ones((2, 2))))
normal = distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.array([1.0, 2.0]))
flow = distrax.Transformed(normal, distrax.Block(distrax.Tanh(), 1))
sample, density = flow.sample_and_log_prob(seed=jax.random.PRNGKey(0), sample_shape=(3,))
mixture = distrax.MixtureSameFamily(
    distrax.Categorical(logits=jnp.array([0.1, 0.9])),
    distrax.Normal(jnp.array([-1.0, 1.0]), jnp.ones(2)),
)
rewards, discounts = jnp.array([1.0, 0.0, 2.0]), jnp.array([0.9, 0.9, 0.0])
values = jnp.array([0.5, 0.2, 0.1])
graph = jraph.GraphsTuple(
    nodes=jnp.arange(6.0).reshape(3, 2), edges=jnp.ones((2, 1)), senders=jnp.array([0, 1]),
    receivers=jnp.array([1, 2]), n_node=jnp.array([3]), n_edge=jnp.array([2]), globals=jnp.zeros((1, 1)),
)  # fmt: skip
network = jraph.GraphNetwork(
    update_edge_fn=lambda e, s, r, g: e + s[:, :1] * r[:, 1:],
    update_node_fn=lambda n, s, r, g: n + jnp.concatenate([s, r], axis=1),
)
RESULT = {
    "pair": jax.tree.map(lambda x: x.tolist(), (pair.a, pair.b)),
    "density": density.tolist(),
    "mixture": float(mixture.log_prob(0.3)),
    "entropy": float(normal.entropy()),
    "returns": rlax.lambda_returns(rewards, discounts, values, 0.9).tolist(),
    "vtrace": rlax.vtrace(values, values, rewards, discounts, jnp.ones(3), 0.9).tolist(),
    "nodes": network(graph).nodes.tolist(),
}
