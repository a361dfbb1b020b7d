"""equinox: layers with and without state, filtered transformations of each kind, surgery on a tree, what is static in a program."""

import functools
import io

import equinox as eqx
import jax
import jax.numpy as jnp

keys = iter(jax.random.split(jax.random.key(0), 40))
total = lambda tree: float(sum(jnp.sum(jnp.abs(x)) for x in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))))  # fmt: skip

# Layers without state, on one example each.
image, series, line = jax.random.normal(next(keys), (3, 8, 8)), jax.random.normal(next(keys), (4, 6)), jnp.arange(6.0)  # fmt: skip
layers = {
    "conv": (eqx.nn.Conv2d(3, 4, 3, stride=2, padding=1, key=next(keys)), image),
    "grouped": (eqx.nn.Conv2d(3, 6, (3, 1), groups=3, dilation=2, padding="SAME", key=next(keys)), image),
    "transposed": (eqx.nn.ConvTranspose2d(3, 2, 3, stride=2, output_padding=1, padding=1, key=next(keys)), image),
    "average": (eqx.nn.AvgPool2d(2, 2), image),
    "largest": (eqx.nn.MaxPool2d(3, 2, padding=1), image),
    "adaptive": (eqx.nn.AdaptiveAvgPool2d(3), image),
    "layer_norm": (eqx.nn.LayerNorm(6), line),
    "group_norm": (eqx.nn.GroupNorm(2, 4), series),
    "rms_norm": (eqx.nn.RMSNorm(6), line),
    "prelu": (eqx.nn.PReLU(0.1), -line),
    "embedding": (eqx.nn.Embedding(10, 3, key=next(keys)), jnp.array(7)),
    "mlp": (eqx.nn.MLP(6, 2, 16, 2, activation=jax.nn.gelu, final_activation=jax.nn.softplus, key=next(keys)), line),
    "sequential": (eqx.nn.Sequential([eqx.nn.Linear(6, 5, key=next(keys)), eqx.nn.Lambda(jax.nn.swish), eqx.nn.Dropout(0.4, inference=True), eqx.nn.Linear(5, "scalar", key=next(keys))]), line),
    "rotary": (eqx.nn.RotaryPositionalEmbedding(6), jax.random.normal(next(keys), (4, 6))),
}  # fmt: skip
told = {}
for name, (layer, x) in layers.items():
    value, grads = eqx.filter_value_and_grad(lambda l, x: jnp.sum(l(x) ** 2))(layer, x)
    told[name] = [float(value), total(grads), list(jnp.shape(eqx.filter_jit(layer)(x)))]

gru, lstm = eqx.nn.GRUCell(4, 5, key=next(keys)), eqx.nn.LSTMCell(4, 5, key=next(keys))
attention = eqx.nn.MultiheadAttention(2, 6, key=next(keys), dropout_p=0.3)
rows = jax.random.normal(next(keys), (7, 6))
told["gru"] = total(jax.lax.scan(lambda h, x: (gru(x, h), h), jnp.zeros(5), series.T[:, :4]))
told["lstm"] = total(jax.lax.scan(lambda h, x: (lstm(x, h), None), (jnp.zeros(5), jnp.ones(5)), series.T[:, :4])[0])  # fmt: skip
mask = jnp.tril(jnp.ones((7, 7), bool))
told["attention"] = total(attention(rows, rows, rows, mask=mask, key=next(keys)))
told["inference"] = total(eqx.nn.inference_mode(attention)(rows, rows, rows, mask=mask))


# Layers with state: batch statistics over a mapped axis, spectral norm, a counter of one's own.
class Net(eqx.Module):
    norm: eqx.nn.BatchNorm
    dense: eqx.nn.SpectralNorm
    calls: eqx.nn.StateIndex

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.norm = eqx.nn.BatchNorm(6, axis_name="batch", mode="batch")
        self.dense = eqx.nn.SpectralNorm(eqx.nn.Linear(6, 3, key=one), "weight", key=two)
        self.calls = eqx.nn.StateIndex(jnp.array(0))

    def __call__(self, x, state):
        x, state = self.norm(x, state)
        x, state = self.dense(x, state)
        return jnp.tanh(x), state.set(self.calls, state.get(self.calls) + 1)


net, state = eqx.nn.make_with_state(Net)(next(keys))
batch = jax.random.normal(next(keys), (5, 6))


@eqx.filter_jit
@functools.partial(eqx.filter_value_and_grad, has_aux=True)
def loss(net, state, batch):
    forward = eqx.filter_vmap(net, in_axes=(0, None), out_axes=(0, None), axis_name="batch")
    out, state = forward(batch, state)
    return jnp.mean(out**2), state


told["stateful"] = []
for _ in range(3):
    (value, state), grads = loss(net, state, batch)
    net = eqx.apply_updates(net, jax.tree.map(lambda g: -0.1 * g, grads))
    told["stateful"] += [float(value), total(grads), total(state)]
told["calls"] = int(state.get(net.calls))
frozen = eqx.nn.inference_mode(net)
kept = jax.tree.map(lambda x: x, state)  # a state is given up by the call that changes it
told["frozen"] = total(jax.vmap(lambda x: frozen(x, kept)[0])(batch))

# Surgery, an ensemble, parts that are not trained, files, derivatives by rules of one's own.
mlp = layers["mlp"][0]
wider = eqx.tree_at(lambda m: (m.layers[0].weight, m.layers[-1].bias), mlp, replace_fn=lambda x: 2 * x)  # fmt: skip
nobias = eqx.tree_at(lambda m: m.layers[1].bias, mlp, None, is_leaf=lambda x: x is None)
told["surgery"] = [total(wider), total(nobias), bool(eqx.tree_equal(wider, mlp)), nobias.layers[1].bias is None]  # fmt: skip
ensemble = eqx.filter_vmap(lambda key: eqx.nn.MLP(6, 2, 4, 1, key=key))(
    jax.random.split(next(keys), 3)
)
told["ensemble"] = eqx.filter_vmap(lambda m, x: m(x), in_axes=(eqx.if_array(0), None))(ensemble, line).tolist()  # fmt: skip
only = jax.tree.map(lambda _: False, mlp)
only = eqx.tree_at(lambda m: m.layers[-1].weight, only, True)
trained, fixed = eqx.partition(mlp, only)
told["only"] = total(eqx.filter_grad(lambda t: jnp.sum(eqx.combine(t, fixed)(line)))(trained))
file = io.BytesIO()
eqx.tree_serialise_leaves(file, (net, state))
file.seek(0)
like = eqx.filter_eval_shape(eqx.nn.make_with_state(Net), next(keys))
again, back = eqx.tree_deserialise_leaves(file, like)
told["file"] = [bool(eqx.tree_equal((net, state), (again, back))), total(again)]
_, push = eqx.filter_jvp(lambda x, f: f(x), (line, jnp.sin), (jnp.ones(6), None))
told["pushed"] = push.tolist()
_, pull = eqx.filter_vjp(lambda m: m(line), mlp)
told["pulled"] = total(pull(jnp.ones(2)))
told["hessian"] = total(eqx.filter_hessian(lambda x: jnp.sum(mlp(x)))(line))
told["jacobian"] = total(eqx.filter_jacrev(lambda m: m(line))(mlp))


@eqx.filter_custom_vjp
def clipped(x, bound):
    return x


clipped.def_fwd(lambda perturbed, x, bound: (x, None))
clipped.def_bwd(lambda residual, g, perturbed, x, bound: jnp.clip(g, -bound, bound))
told["clipped"] = jax.grad(lambda x: jnp.sum(3 * clipped(x, 0.5) * x))(line).tolist()
traced = []
count = eqx.filter_jit(lambda x, words: (traced.append(words), x + len(words))[1])
told["traces"] = [float(count(1.0, "a")), float(count(jnp.array(2.0), "a")), float(count(jnp.array(3.0), "bc")), len(traced)]  # fmt: skip
made = eqx.filter_closure_convert(lambda x: mlp(x) ** 2, line)
told["closed"] = total(made(line + 1))
pure = eqx.filter_pure_callback(lambda x: x * 2, line, result_shape_dtypes=jax.ShapeDtypeStruct((6,), jnp.float32))  # fmt: skip
told["called"] = pure.tolist()
told["words"] = eqx.tree_pformat((mlp.layers[0], 1, "a"))
told["looped"] = float(jax.grad(lambda x: eqx.internal.while_loop(lambda c: c[1] < 4, lambda c: (jnp.sin(c[0]), c[1] + 1), (x, 0), kind="checkpointed", max_steps=8)[0])(0.7))  # fmt: skip
RESULT = told
