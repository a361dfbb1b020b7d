"""The whole of the collectives in a process where the reference cannot be imported."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "jax":
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
import numpy as np, xlab
from xlab import lax
from xlab.sharding import AxisType, P, NamedSharding, make_mesh
mesh = make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
where = P(("x", "y"))
v = xlab.device_put(np.arange(64, dtype=np.float32), NamedSharding(mesh, where))
def body(v):
    a = lax.psum(v, "x") + lax.pmax(v, "y") + lax.pmean(v, ("x", "y"))
    b = lax.all_gather(v, "x", tiled=True)[:8] + lax.psum_scatter(lax.all_gather(v, "y", tiled=True), "y", tiled=True)
    c = lax.all_to_all(v, "x", 0, 0, tiled=True) + lax.ppermute(v, "y", [(0, 1)]) + lax.pbroadcast(v, "x", 2)
    return a + b + c + lax.axis_index("x")
f = xlab.shard_map(body, mesh=mesh, in_specs=where, out_specs=where)
g = xlab.jit(xlab.vmap(f, in_axes=1, out_axes=1))(np.stack([np.asarray(v), np.asarray(v)], 1))
np.testing.assert_allclose(np.asarray(f(v)), np.asarray(g)[:, 0])
h = xlab.shard_map(lambda v: lax.psum(v, "x") * lax.all_gather(v, "x", tiled=True)[:8], mesh=mesh, in_specs=where, out_specs=where)
print(float(xlab.grad(lambda v: h(v).sum())(v).sum()) > 0, xlab.pmap(lambda x: x + 1)(np.ones(8)).sum())
assert not [m for m in sys.modules if m.split(".")[0] == "jax"]
"""


@pytest.mark.beside
def test_collectives_run_with_the_reference_blocked():
    env = {**os.environ, "XLAB_NUM_CPU_DEVICES": "8"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=env,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["True", "16.0"]
