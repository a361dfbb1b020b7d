"""Bounds of random integers beyond their dtype."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp

INF = float("inf")
ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}


@pytest.mark.parametrize("dtype", ENDS)
@pytest.mark.parametrize("far", [INF, 1e10, np.float32(INF)], ids=["inf", "large", "float32"])
def test_an_infinite_or_too_large_bound_is_the_end_of_the_dtype(dtype, far):
    """So it is where it is an argument of a program."""
    key, (low, high) = xlab.random.key(3), ENDS[dtype]

    def draw(a, b):
        return xlab.random.randint(key, (200,), a, b, dtype)

    for a, b in ((0, far), (-far, far), (-far, 5)):
        out = draw(a, b)
        assert out.dtype == dtype
        np.testing.assert_array_equal(out, xlab.jit(draw)(a, b))
        assert len(np.unique(out)) > (4 if dtype == "uint8" and b == 5 else 50)
        a, b = (min(max(int(min(max(v, -1e10), 1e10)), low), high) for v in (a, b))
        assert a <= int(out.min()) and int(out.max()) <= b


def test_arrays_of_bounds_may_hold_infinities():
    out = xlab.random.randint(xlab.random.key(0), (100, 3), 0, np.array([INF, 3, 1]))
    assert (out[:, 0] > 1000).any() and (out[:, 0] >= 0).all()
    assert set(np.unique(out[:, 1])) == {0, 1, 2} and not out[:, 2].any()
    assert jnp.all(xlab.random.randint(xlab.random.key(0), (5,), 7, np.nan) == 7)
