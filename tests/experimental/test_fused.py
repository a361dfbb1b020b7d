"""`experimental.fused`: operands from any memory, results where they are asked to be."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.experimental.fused import fused
from xlab.memory import Space


@fused(out_spaces=(Space.Host, Space.Device))
def f(x, y):
    return {"sum": x + y, "whole": x * y}


def test_operands_and_results_in_any_memory():
    y = jnp.arange(3.0)
    for x in (y + 1, xlab.device_put(y + 1, Space.Host)):
        for call in (f, xlab.jit(f)):
            out = call(x, y=y)
            assert out["sum"].sharding.memory_kind == "pinned_host"
            assert out["whole"].sharding.memory_kind == "device"
            assert out["sum"].tolist() == [1, 3, 5] and out["whole"].tolist() == [0, 2, 6]
    types = xlab.make_jaxpr(f)(xlab.device_put(y, Space.Host), y).out_avals
    assert [str(t) for t in types] == ["float32<host>[3]", "float32[3]"]


def test_transformations_pass_through():
    x = np.float32([1, 2])
    np.testing.assert_allclose(xlab.grad(lambda x: f(x, x)["whole"].sum())(x), 2 * x)
    np.testing.assert_allclose(xlab.vmap(f)(x, x)["sum"], 2 * x)


def test_bad_input():
    with pytest.raises(TypeError, match=r"a memory.Space for each result.*got <?MemorySpace.Host"):
        fused(out_spaces=Space.Host)
    with pytest.raises(TypeError, match=r"got \('device',\)"):
        fused(out_spaces=("device",))
    with pytest.raises(
        ValueError, match=r"fused got 1 out_spaces, and `<lambda>` returned 2 arrays"
    ):
        fused(out_spaces=[Space.Host])(lambda x: (x, x))(1.0)
