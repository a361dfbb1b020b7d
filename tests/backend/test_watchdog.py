"""A program whose devices wait for one another ends its reader's wait, and not the process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAD = """
import warnings; warnings.simplefilter("ignore")
import numpy as np, xlab
from xlab import lax
from xlab.config import config
from xlab.errors import CollectiveTimeoutError
from xlab.sharding import AxisType, PartitionSpec as P
mesh = xlab.make_mesh((4,), ("i",), axis_types=AxisType.Auto)
def mapped(f): return xlab.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
f = mapped(lambda x: lax.cond(x[0] > 1, lambda v: v + lax.psum(v, "i"), lambda v: v, x))
x = np.arange(4, dtype=np.float32)
config.update("collective_timeout", 1.0)
assert f(x + 4).tolist() == [26, 27, 28, 29]
"""

STUCK = (
    HEAD
    + """
y = f(x)
waits = [lambda: y.block_until_ready(), lambda: xlab.block_until_ready(y), lambda: np.asarray(y), lambda: print(y), lambda: float(y[3]),
         lambda: np.asarray(y + 1), lambda: f(x), lambda: y.sum().block_until_ready()]
for wait in waits:
    try:
        wait()
    except CollectiveTimeoutError as e:
        said = str(e)
        assert "devices 2, 3 wait" in said and "devices 0, 1, which have ended" in said and "psum at <string>:10" in said, said
    else:
        raise AssertionError("nothing was said")
assert float(xlab.jit(lambda a: a + 1)(1.0)) == 2.0                       # other programs run
assert np.asarray(xlab.device_put(np.ones(3), xlab.devices()[3])).sum() == 3.0
print("survived")
"""
)

BUSY = (
    HEAD
    + """
import time
long = mapped(lambda x: lax.cond(x[0] > -1, lambda v: lax.fori_loop(0, 1500, lambda i, m: m @ m / 300, 0 * v[0] + np.ones((300, 300), np.float32))
                                 [0, :1] * 0 + lax.psum(v, "i"), lambda v: v, x))
config.update("collective_timeout", 0.3)
start = time.monotonic()
assert long(x).tolist() == [6, 6, 6, 6]
assert time.monotonic() - start > 0.4, "too fast to tell"
def slowly(v):
    time.sleep(1.5)
    return np.asarray(v)
called = mapped(lambda x: lax.cond(x[0] > -1, lambda v: lax.psum(xlab.pure_callback(slowly, v, v), "i"), lambda v: v, x))
assert called(x).tolist() == [6, 6, 6, 6]
print("survived")
"""
)


@pytest.mark.parametrize("code", [STUCK, BUSY], ids=["stuck", "busy"])
def test_waits_end_when_and_only_when_devices_never_meet(code):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "XLAB_NUM_CPU_DEVICES": "4"},
    )
    assert done.returncode == 0 and "survived" in done.stdout, done.stderr[-3000:]


def test_the_environment_is_left_as_it_was():
    from xlab.backend import client

    client.devices()
    assert "collective_call_terminate" not in os.environ.get("XLA_FLAGS", "")
