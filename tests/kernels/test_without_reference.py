"""K104j: kernels run, are interpreted and are recorded in a process where the reference cannot be imported."""

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
from xlab import kernels, observe
from xlab.experimental import pallas as pl
from xlab.experimental.pallas import tpu as pltpu
from xlab.kernels import CoreMesh, MemorySpace, SemaphoreType, kernel_call, mpmd_map, semaphore_signal, semaphore_wait
X = np.arange(8, dtype=np.float32)
block = pl.BlockSpec((4,), lambda i: (i,))
def twice(x, o):
    o[...] = x[...] * 2
call = pl.pallas_call(twice, xlab.ShapeDtypeStruct((8,), "float32"), grid=2, in_specs=[block], out_specs=block, interpret=True)
assert np.asarray(xlab.jit(call)(X)).tolist() == (X * 2).tolist()
np.testing.assert_array_equal(xlab.vmap(call)(np.stack([X, X])), [X * 2, X * 2])
assert kernels.machine.Machine(call, X).run()[0].tolist() == (X * 2).tolist()
def producer(o, b, s):
    b[0] = np.int32(10)
    semaphore_signal(s)
def consumer(o, b, s):
    semaphore_wait(s)
    o[0] = b[0] + 1
pairs = [(CoreMesh("p", 1, core_type="scalar"), producer), (CoreMesh("q", 1), consumer)]
scratch = [MemorySpace.SHARED((1,), "int32"), SemaphoreType.REGULAR]
for mode in (True, "value", pltpu.InterpretParams(detect_races=True)):
    both = mpmd_map(pairs, xlab.ShapeDtypeStruct((1,), "int32"), scratch_shapes=scratch, interpret=mode)
    assert both().tolist() == [11]
print(len(list(observe.kernel_run(call, X).blocks)))
assert not [m for m in sys.modules if m.split(".")[0] == "jax"]
"""


@pytest.mark.beside
def test_k104j_kernels_run_with_the_reference_blocked():
    env = {**os.environ, "XLAB_NUM_CPU_DEVICES": "8"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=env,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["4"]
