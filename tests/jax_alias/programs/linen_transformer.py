"""A small transformer of flax.linen with dropout, trained with optax."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Block(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x, train):
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(
            self.heads, dropout_rate=0.1, deterministic=not train
        )(h)
        h = nn.LayerNorm()(x)
        h = nn.Dense(32)(nn.gelu(nn.Dense(64)(h)))
        return x + nn.Dropout(0.1, deterministic=not train)(h)


class Model(nn.Module):
    @nn.compact
    def __call__(self, tokens, train=False):
        x = nn.Embed(20, 32)(tokens)
        for _ in range(2):
            x = Block(4)(x, train)
        return nn.Dense(20)(nn.LayerNorm()(x))


model = Model()
tokens = jax.random.randint(jax.random.key(0), (4, 8), 0, 20)
params = model.init(jax.random.key(1), tokens)["params"]
# Plain gradient steps: adam would divide rounding by rounding where a gradient is zero.
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))
state = tx.init(params)


@jax.jit
def step(params, state, key):
    def loss(params):
        logits = model.apply({"params": params}, tokens, train=True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:]).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


losses = []
for i in range(4):
    params, state, value = step(params, state, jax.random.fold_in(jax.random.key(2), i))
    losses.append(float(value))
RESULT = {
    "losses": losses,
    "norm": float(optax.global_norm(params)),
    "names": sorted(params),
    "shapes": jax.tree.map(jnp.shape, params),
}
