"""The same programs on 2 to 512 virtual devices; beyond 16 they are compiled and not run."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
    import sys
    import numpy as np
    import xlab
    from xlab import lax, numpy as jnp
    from xlab.sharding import AxisType, NamedSharding, PartitionSpec as P

    n, run = int(sys.argv[1]), sys.argv[2] == "run"
    a = next(k for k in range(int(n**0.5), 0, -1) if n % k == 0)
    mesh = xlab.make_mesh((n // a, a), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    rows, both = NamedSharding(mesh, P(("x", "y"))), NamedSharding(mesh, P("x", "y"))

    def one(v):
        total = lax.psum(v, ("x", "y"))
        biggest = lax.pmax(lax.psum(v, "y"), "x")
        gathered = lax.all_gather(v, "x", tiled=True)
        scattered = lax.psum_scatter(gathered, "x", tiled=True)
        moved = lax.ppermute(v, "x", [(i, (i + 1) % (n // a)) for i in range(n // a)])
        swapped = lax.all_to_all(jnp.tile(v, (n // a, 1)), "x", 0, 0, tiled=True)
        return total + biggest + scattered + moved + swapped[:1] + lax.axis_index("y")

    def whole(x):
        return xlab.shard_map(one, mesh=mesh, in_specs=P(("x", "y")), out_specs=P(("x", "y")))(x)

    def step(w, x):
        return xlab.value_and_grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w)

    x = np.arange(n * 2, dtype=np.float32).reshape(n, 2)
    w, batch = np.ones((4 * n // a, 2 * a), np.float32) * 0.01, np.ones((2 * n, 4 * n // a), np.float32)
    manual = xlab.jit(whole, in_shardings=(rows,))
    auto = xlab.jit(step, in_shardings=(both, NamedSharding(mesh, P("x", None))), out_shardings=(None, both))
    for f, args in ((manual, (x,)), (auto, (w, batch))):
        compiled = f.lower(*args).compile()
        text = compiled.as_text()
        assert "all-reduce" in text, text[:500]
        assert f"num_partitions={n}" in text or f"replica_count={n}" in text or n == 1, text[:300]
    if run:
        grid = x.reshape(n // a, a, 2)
        want = (grid.sum((0, 1)) + grid.sum(1).max(0) + (n // a) * grid * 1.0 + np.roll(grid, 1, 0)
                + grid[:1] * 0 + np.arange(a)[None, :, None])
        got = np.asarray(manual(x)).reshape(n // a, a, 2)
        got = got - grid[0][None]      # all_to_all: each device has its column's first row in front
        np.testing.assert_allclose(got, want, rtol=1e-5)
        loss, slope = auto(w, batch)
        want_loss, want_slope = step(w, batch)
        np.testing.assert_allclose(loss, want_loss, rtol=1e-4)
        np.testing.assert_allclose(slope, want_slope, rtol=1e-3, atol=1e-5)
    print("right")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "mode"),
    [(2, "run"), (3, "run"), (6, "run"), (16, "run"), (64, "compile"), (512, "compile")],
)
def test_programs(devices, mode):
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(devices), mode],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": str(devices)},
    )
    assert child.stdout.strip().endswith("right"), child.stdout + child.stderr[-3000:]
