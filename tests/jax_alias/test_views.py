"""A flax model in the views, through both doors: modules are scopes, parameters have their paths, lines are the user's."""

from __future__ import annotations

import importlib.util
import json
import os
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


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("door", ["one", "two"])
def test_a_flax_model_is_seen_as_its_author_wrote_it(door, tmp_path):
    if importlib.util.find_spec("flax") is None:
        pytest.skip("flax not installed: pip install '.[libraries]'")
    file = tmp_path / "model.py"
    more = SEEN_THROUGH if door == "one" else "more = dict"
    file.write_text(
        ("import xlab.as_jax\n" if door == "one" else "") + MODEL.replace("# more", more)
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                   "XLAB_NUM_CPU_DEVICES": "8", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}  # fmt: skip
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=240, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["by"].startswith("traced and compiled by jax") == (door == "two")
    names = [f"params[{m!r}][{n!r}]" for m in ("Dense_0", "head") for n in ("bias", "kernel")]
    assert seen["inputs"] == [*names, "x"]
    assert seen["scopes"][:2] == ["Net/Dense_0", "Net/head"]
    assert set(seen["scopes"]) == {"Net/Dense_0", "Net/head"}  # the backward pass too
    assert seen["lines"][:2] == FORWARD and set(seen["lines"]) == set(FORWARD)
    assert set(seen["files"]) == {str(file)}
    assert [kind for kind, _ in seen["fix"]] == ["all_to_all", "all_reduce"]
    assert "`params['Dense_0']['kernel']`" in seen["fix"][0][1]
    assert "params['Dense_0']['kernel']" in seen["memory"]
    if door == "one":
        assert seen["steps"] and ["removable collective", "Net/Dense_0"] in seen["findings"]
        assert seen["nan"] == ["`params['head']['kernel']`", FORWARD[1]]
        assert seen["moved"][0] == 0 < seen["moved"][1] and "<lambda>, compile 1" in seen["ledger"]
