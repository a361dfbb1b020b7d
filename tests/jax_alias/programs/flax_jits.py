"""flax's own forms of jit: linen's with static arguments by name and state that changes; nnx's on variables that are references, in and out."""

from functools import partial

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import nnx


class Method(nn.Module):
    @partial(nn.jit, static_argnames=("train", "widths"))
    @nn.compact
    def __call__(self, x, *, train, widths=(3, 4)):
        for width in widths:
            x = nn.Dense(width)(x)
        return nn.Dropout(0.5, deterministic=not train)(nn.BatchNorm(not train)(x))


class Plain(nn.Module):
    width: int = 3

    @nn.compact
    def __call__(self, x, train, scale=1.0):
        return nn.Dropout(0.5, deterministic=not train)(nn.BatchNorm(not train)(nn.Dense(self.width)(x))) * scale  # fmt: skip


ByName = nn.jit(Plain, static_argnames=("train",))
ByNumber = nn.jit(Plain, static_argnums=(2,))
x = jnp.arange(6.0).reshape(2, 3) ** 2
rngs = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
found = {}
for name, net, named, options in (
    ("method", Method(), True, {"widths": (5, 2)}),
    ("class by name", ByName(), True, {"scale": 2.0}),
    ("class by number", ByNumber(4), False, {}),
):
    call = {"train": False, **options} if named else {}
    variables = net.init(rngs, x, *(() if named else (False,)), **call)
    call = {"train": True, **options} if named else {}
    key = {"dropout": jax.random.key(2)}
    outs = []
    for _ in range(2):
        y, new = net.apply(variables, x, *(() if named else (True,)), rngs=key, mutable=["batch_stats"], **call)  # fmt: skip
        variables = {**variables, **new}
        outs.append(float((y**2).sum()))
    found[name] = [outs, [float(v.sum()) for v in jax.tree.leaves(variables["batch_stats"])]]
try:
    ByName().init(rngs, x, train={})
    found["unhashable"] = "taken"
except ValueError as error:
    found["unhashable"] = "Non-hashable static arguments" in str(error)


class Counter(nnx.Module):
    def __init__(self):
        self.count, self.total = nnx.Variable(jnp.array(0)), nnx.Variable(jnp.zeros(2))
        self.same = self.count

    def __call__(self, x):
        self.count[...] += 1
        self.total[...] += x
        return self.total[...].sum()


@nnx.jit
def made(x):
    counter = Counter()
    return counter(x), counter


# Variables that hold arrays, and those that hold references to arrays.
for kind in (False, True):
    with nnx.var_defaults(hijax=False, ref=kind):

        @nnx.jit
        def count(counter, r, x):
            r[...] += x
            return counter(r[...]), {"last": r[...], "counter": counter}

        counter, r = Counter(), jax.new_ref(jnp.zeros(2))
        sums = []
        for i in range(3):
            value, out = count(counter, r, float(i))
            sums.append([float(value), out["last"].tolist(), out["counter"] is counter])
        state = [int(counter.count[...]), counter.same is counter.count, counter.total[...].tolist()]  # fmt: skip
        value, other = made(2.0)
        inside = [float(value), int(other.count[...]), other.total[...].tolist()]
        graph, leaves = nnx.split(counter)
        again = nnx.merge(graph, leaves)
        again(1.0)
        found[f"references {kind}"] = [sums, state, r[...].tolist(), inside, nnx.variablelib.is_array_ref(counter.count.get_raw_value()), int(again.count[...]), int(counter.count[...])]  # fmt: skip
RESULT = found
