"""Models of the libraries in the views, through both doors: modules are scopes, parameters have their paths, lines are the user's."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL = """
import json
import flax.linen as nn, jax, jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from xlab import observe

class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Dense(16)(x)
        return nn.Dense(4, name="head")(x)

net = Net()
mesh = jax.make_mesh((8,), ("model",), axis_types=(AxisType.Auto,))
x = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P()))
params = net.init(jax.random.key(0), x)["params"]
params = jax.tree.map(lambda p: jax.device_put(p, NamedSharding(mesh, P("model", None) if p.ndim == 2 else P())), params)

def loss(params, x):
    return (net.apply({"params": params}, x) ** 2).mean()

p = observe.program(jax.grad(loss), params, x)
dots = [e for e, _ in p.walk() if e.primitive == "dot_general"]
predict = lambda params, x: net.apply({"params": params}, x)
# more
print(json.dumps({
    "by": p.made_by, "inputs": [v.note for v in p.inputs], "scopes": [e.scope for e in dots],
    "lines": [e.source.text.strip() for e in dots], "files": [listing.file for listing in p.sources],
    "fix": [[t.kind, t.fix] for t in observe.transfers(predict, params, x)], "memory": str(observe.memory(predict, params, x)),
    **more(),
}))
"""
SEEN_THROUGH = """
def more():
    stepper = observe.Stepper(predict, params, x)
    stepper.run_to_nan()
    with_nan = {**params, "head": {**params["head"], "kernel": params["head"]["kernel"].at[0, 0].set(jnp.nan)}}
    found = observe.findings(predict, params, x)
    path = observe.nan_path(predict, with_nan, x)
    return {
        "steps": bool(stepper.finished and jnp.allclose(stepper.result(), predict(params, x), atol=1e-6)),
        "findings": [[f.kind, f.call] for f in found], "nan": [path.origin, [s.source.text.strip() for s in path.steps][-1]],
        "moved": [len(observe.what_if(predict, (params, x), in_shardings=(P(), p), mesh=mesh).transfers) for p in (P("model"), P(None, "model"))],
        "ledger": str(observe.ledger()),
    }
"""
FORWARD = ["x = nn.Dense(16)(x)", 'return nn.Dense(4, name="head")(x)']


def seen_through(door: str, text: str, folder: Path, *libraries: str) -> tuple[dict, str]:
    """What a program says of itself as JSON, with xlab in the place of JAX or beside it, and the file that it is in."""
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: pip install '.[libraries]'")
    file = folder / "model.py"
    file.write_text(("import xlab.as_jax\n" if door == "one" else "") + text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                   "XLAB_NUM_CPU_DEVICES": "8", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}  # fmt: skip
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=240, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["by"].startswith("traced and compiled by jax") == (door == "two")
    return seen, str(file)


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("door", ["one", "two"])
def test_a_flax_model_is_seen_as_its_author_wrote_it(door, tmp_path):
    more = SEEN_THROUGH if door == "one" else "more = dict"
    seen, file = seen_through(door, MODEL.replace("# more", more), tmp_path, "flax")
    names = [f"params[{m!r}][{n!r}]" for m in ("Dense_0", "head") for n in ("bias", "kernel")]
    assert seen["inputs"] == [*names, "x"]
    assert seen["scopes"][:2] == ["Net/Dense_0", "Net/head"]
    assert set(seen["scopes"]) == {"Net/Dense_0", "Net/head"}  # the backward pass too
    assert seen["lines"][:2] == FORWARD and set(seen["lines"]) == set(FORWARD)
    assert set(seen["files"]) == {file}
    assert [kind for kind, _ in seen["fix"]] == ["all_to_all", "all_reduce"]
    assert "`params['Dense_0']['kernel']`" in seen["fix"][0][1]
    assert "params['Dense_0']['kernel']" in seen["memory"]
    if door == "one":
        assert seen["steps"] and ["removable collective", "Net/Dense_0"] in seen["findings"]
        assert seen["nan"] == ["`params['head']['kernel']`", FORWARD[1]]
        assert seen["moved"][0] == 0 < seen["moved"][1] and "<lambda>, compile 1" in seen["ledger"]


NNX = """
import jax, jax.numpy as jnp
from flax import nnx

class Block(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(8, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        h = self.norm(self.linear(x))
        return self.drop(nnx.relu(h))

class Net(nnx.Module):
    def __init__(self, rngs):
        self.encoder = Block(rngs)
        self.layers = nnx.List([Block(rngs)])
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
        self.head = nnx.Linear(8, 4, rngs=rngs)

    def __call__(self, x):
        x = self.encoder(x)
        x = self.layers[0](x)
        x = self.attention(x)
        return self.head(x)

model = Net(nnx.Rngs(0))

@nnx.jit
def step(net, x):
    value, grads = nnx.value_and_grad(lambda net: (net(x) ** 2).mean())(net)
    return value, grads

args = model, jnp.ones((4, 8))
poisoned = Net(nnx.Rngs(0))
poisoned.head.kernel[...] = poisoned.head.kernel[...].at[0, 0].set(jnp.nan)
"""
EQUINOX = """
import equinox as eqx, jax, jax.numpy as jnp

class Block(eqx.Module):
    linear: eqx.nn.Linear
    norm: eqx.nn.LayerNorm

    def __init__(self, key):
        self.linear, self.norm = eqx.nn.Linear(8, 8, key=key), eqx.nn.LayerNorm(8)

    def __call__(self, x):
        return jax.nn.relu(self.norm(self.linear(x)))

class Net(eqx.Module):
    encoder: Block
    layers: list
    mlp: eqx.nn.MLP
    head: eqx.nn.Linear

    def __init__(self, key):
        a, b, c, d = jax.random.split(key, 4)
        self.encoder, self.layers = Block(a), [Block(b)]
        self.mlp, self.head = eqx.nn.MLP(8, 8, 8, 1, key=c), eqx.nn.Linear(8, 4, key=d)

    def __call__(self, x):
        x = self.encoder(x)
        x = self.layers[0](x)
        x = self.mlp(x)
        return self.head(x)

model = Net(jax.random.key(0))

@eqx.filter_jit
def step(net, x):
    return eqx.filter_value_and_grad(lambda net: (jax.vmap(net)(x) ** 2).mean())(net)

args = model, jnp.ones((4, 8))
poisoned = eqx.tree_at(lambda m: m.head.weight, model, model.head.weight.at[0, 0].set(jnp.nan))
"""
HAIKU = """
import haiku as hk, jax, jax.numpy as jnp

class Block(hk.Module):
    def __call__(self, x):
        h = hk.Linear(8, name="linear")(x)
        h = hk.BatchNorm(True, True, 0.9, name="norm")(h, True)
        return hk.dropout(hk.next_rng_key(), 0.5, jax.nn.relu(h))

def forward(x):
    x = Block(name="encoder")(x)
    return hk.Linear(4, name="head")(x)

net = hk.transform_with_state(forward)
params, state = net.init(jax.random.key(0), jnp.ones((4, 8)))

@jax.jit
def step(params, state, key, x):
    def loss(params):
        y, new = net.apply(params, state, key, x)
        return (y ** 2).mean(), new
    return jax.value_and_grad(loss, has_aux=True)(params)

args = params, state, jax.random.key(1), jnp.ones((4, 8))
poisoned = {**params, "head": {**params["head"], "w": params["head"]["w"].at[0, 0].set(jnp.nan)}}
"""
LOOK = """
import json
from xlab import observe

def said(p):
    equations = [e for e, _ in p.walk()]
    dots = [e for e in equations if e.primitive == "dot_general"]
    return {"inputs": [v.note for v in p.inputs], "scopes": [e.scope for e in dots], "all": sorted({e.scope for e in equations}),
            "lines": sorted({e.source.text.strip() for e in dots}), "files": [one.file for one in p.sources],
            "from": sorted({e.source.file for e in equations if e.source is not None})}

p = observe.program(step, *args)
path = observe.nan_path(step, poisoned, *args[1:])
found = {"by": p.made_by, **said(p), "memory": str(observe.memory(step, *args)), "cost": [one.name for one in observe.cost(step, *args).scopes],
         "findings": sorted({f.source.file for f in observe.findings(step, *args) if f.source is not None}),
         "nan": [path.origin, next(s.source.text.strip() for s in path.steps if s.source is not None)]}
# and the call itself, which no view asked for
with observe.record() as session:
    step(*args)
found["called"] = [said(one)["inputs"] for one in observe.report(session).programs]
# more
print(json.dumps(found))
"""
# What is seen through where xlab runs the program: each step, other placements, what was compiled and why.
SEEN_THROUGH_STATE = """
from jax.sharding import AxisType, PartitionSpec as P
mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
stepper = observe.Stepper(step, *args)
stepper.run_to_nan()
arrays = lambda tree: sorted(float(abs(x.astype("float32")).sum()) for x in jax.tree.leaves(tree) if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.number))
stepped, ran = arrays(stepper.result()), arrays(step(*args))
# Of nnx's own jit the program also returns the model as it is afterwards.
found["steps"] = stepper.finished and all(min(abs(a - b) for b in stepped) <= 1e-4 * max(1, abs(a)) for a in ran)
lies = lambda spec: observe.what_if(step, args, in_shardings=(*[P()] * (len(args) - 1), spec), mesh=mesh)
found["moved"] = [len(lies(P()).transfers), sorted({t.kind for t in lies(P("data")).transfers})]
found["moving lines"] = sorted({t.source.file for t in lies(P("data")).transfers if t.source is not None})
found["searched"] = len(observe.search_shardings(step, args, mesh, limit=2))
step(*args[:-1], args[-1][:2])
found["ledger"] = str(observe.ledger())
"""

SEEN = {
    "nnx": (NNX, ("flax",), {
        "scopes": ["Net/encoder/linear", "Net/layers[0]/linear", "Net/attention/query", "Net/attention/key", "Net/attention/value", "Net/attention/out", "Net/head"],
        "other": ["Net/encoder/norm", "Net/encoder/drop", "Net/layers[0]/drop"],
        "inputs": ["net.head.kernel.value", "net.layers[0].linear.bias.value", "net.encoder.norm.mean.value", "net.encoder.drop.rngs.count.value", "x"],
        "lines": ["h = self.norm(self.linear(x))", "return self.head(x)", "x = self.attention(x)"],
        "nan": ["`net.head.kernel.value`", "return self.head(x)"],
    }),
    "equinox": (EQUINOX, ("equinox",), {
        "scopes": ["Net/encoder/linear", "Net/layers[0]/linear", "Net/mlp/layer", "Net/mlp/layers[-1]", "Net/head"],
        "other": ["Net/encoder/norm", "Net/layers[0]/norm", "Net/encoder"],
        "inputs": ["net.head.weight", "net.layers[0].linear.bias", "net.encoder.norm.weight", "net.mlp.layers[0].weight", "x"],
        "lines": ["return jax.nn.relu(self.norm(self.linear(x)))", "return self.head(x)", "x = self.mlp(x)"],
        "nan": ["`net.head.weight`", "return self.head(x)"],
    }),
    "haiku": (HAIKU, ("haiku",), {
        "scopes": ["encoder/linear", "head"],
        "other": ["encoder/norm", "encoder/norm/mean_ema", "encoder"],
        "inputs": ["params['head']['w']", "params['encoder/linear']['b']", "state['encoder/norm/~/mean_ema']['average']", "key", "x"],
        "lines": ['h = hk.Linear(8, name="linear")(x)', 'return hk.Linear(4, name="head")(x)'],
        "nan": ["`params['head']['w']`", 'return hk.Linear(4, name="head")(x)'],
    }),
}  # fmt: skip


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("door", ["one", "two"])
@pytest.mark.parametrize("library", SEEN)
def test_a_model_with_state_is_seen_as_its_author_wrote_it(library, door, tmp_path):
    """Batch statistics, dropout, layers in a list, layers that are made of layers; jitted by the library's own `jit`."""
    text, needed, wanted = SEEN[library]
    look = LOOK.replace("# more", SEEN_THROUGH_STATE) if door == "one" else LOOK
    seen, file = seen_through(door, text + look, tmp_path, *needed)
    # The backward pass too. What JAX names after a formula is in the module that asked for it.
    plain = [scope for scope in seen["scopes"] if "->" not in scope]
    assert set(plain) - {"Net/attention"} == set(wanted["scopes"])
    formulas = {scope.rpartition("/")[0] for scope in seen["cost"] if "->" in scope}
    assert formulas <= {"Net/attention"}
    assert {*wanted["scopes"], *wanted["other"]} <= {*seen["all"], *seen["cost"]}
    assert set(wanted["inputs"]) <= set(seen["inputs"])
    own = {name.partition(".")[0].partition("[")[0] for name in seen["inputs"]}
    assert own == {name.partition(".")[0].partition("[")[0] for name in wanted["inputs"]}
    assert seen["lines"] == sorted(wanted["lines"])
    assert {*seen["files"], *seen["from"], *seen["findings"]} == {file}  # no library's
    assert seen["nan"] == wanted["nan"]
    if door == "one":  # the call that was recorded, too
        assert seen["inputs"] in seen["called"]
        assert seen["steps"] is True and seen["searched"] == 2
        assert seen["moved"][0] == 0 and "all_reduce" in seen["moved"][1]
        assert seen["moving lines"] == [file]
        # One compile for each shape of the batch, and why.
        assert re.search(
            r"step\)?, compile 2: `(step )?x` went from f32\[4,8\] to f32\[2,8\]", seen["ledger"]
        )


PLAIN = """
import json
import equinox as eqx, jax, jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P
from xlab import observe

net = eqx.nn.MLP(8, 4, 8, 1, key=jax.random.key(0))

def loss(net, x, how):
    return {"loss": (jax.vmap(net)(x) ** 2).mean(), "how": how, "act": net.activation}

args = net, jnp.ones((4, 8)), "train"
stepper = observe.Stepper(loss, *args)
stepper.run_to_nan()
p = observe.program(loss, *args)
print(json.dumps({
    "by": p.made_by, "inputs": [v.note for v in p.inputs], "steps": abs(float(stepper.result()["loss"]) - float(loss(*args)["loss"])) < 1e-6,
    "kinds": [type(stepper.result()[k]).__name__ for k in ("how", "act")], "time": observe.time(loss, *args, repeat=2).runs,
    "moved": len(observe.what_if(loss, args, in_shardings=(P(), P("d"), None), mesh=jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))).transfers),
    "again": str(observe.program(loss, *args)) == str(p),
}))
"""


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("door", ["one", "two"])
def test_a_plain_function_of_a_model_that_holds_functions(door, tmp_path):
    """Which `jax.jit` would refuse: what is no array stays what it is."""
    seen, _ = seen_through(door, PLAIN, tmp_path, "equinox")
    names = [f"net.layers[{i}].{n}" for i in (0, 1) for n in ("weight", "bias")]
    assert seen["inputs"] == [*names, "x"]
    assert seen["steps"] and seen["again"] and seen["time"] == 2 and seen["moved"] > 0
    assert seen["kinds"] == ["NoneType", "NoneType"]  # no results of the program
