"""dm-haiku: attention with layers scanned, batch statistics in a state, trained with optax."""

import haiku as hk
import jax
import optax


def forward(tokens, is_training):
    x = hk.Embed(20, 16)(tokens)
    for _ in range(2):
        h = hk.LayerNorm(-1, True, True)(x)
        x = x + hk.MultiHeadAttention(2, 8, w_init=hk.initializers.VarianceScaling(2.0))(h, h, h)
        x = x + hk.dropout(hk.next_rng_key(), 0.1, x) if is_training else x
    x = hk.BatchNorm(True, True, 0.9)(x, is_training)
    return hk.Linear(20)(x)


model = hk.transform_with_state(forward)
tokens = jax.random.randint(jax.random.key(0), (4, 6), 0, 20)
params, state = model.init(jax.random.PRNGKey(1), tokens, True)
tx = optax.sgd(0.1)
opt = tx.init(params)


@jax.jit
def step(params, state, opt, key):
    def loss(params):
        logits, new = model.apply(params, state, key, tokens, True)
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean(), new

    (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params)
    updates, opt = tx.update(grads, opt)
    return optax.apply_updates(params, updates), state, opt, value


losses = []
for i in range(3):
    params, state, opt, value = step(params, state, opt, jax.random.PRNGKey(i))
    losses.append(float(value))
RESULT = {
    "losses": losses,
    "names": sorted(params),
    "mean": float(jax.tree.leaves(state)[0].sum()),
    "sizes": hk.data_structures.tree_size(params),
}
