"""Bounds of random numbers: beyond the dtype of integers, and of a shape that does not fit."""

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


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda r, k: r.uniform(k, (3,), minval=jnp.zeros(2)), TypeError,
         r"uniform got shape \(3,\), which its parameter minval of shape \(2,\)"),
        (lambda r, k: r.uniform(k, (), maxval=np.ones(2)), TypeError, r"maxval of shape \(2,\)"),
        (lambda r, k: r.uniform(k, (3,), minval=jnp.zeros((1, 3))), TypeError, r"minval of shape \(1, 3\)"),
        (lambda r, k: r.uniform(k, (3,), minval=[0, 1, 2]), TypeError, "list is not a valid array"),
        (lambda r, k: r.randint(k, (3,), 0, jnp.arange(2)), ValueError, r"randint .* maxval of shape \(2,\)"),
        (lambda r, k: r.truncated_normal(k, jnp.zeros(2), 1.0, (3,)), ValueError, r"lower of shape \(2,\)"),
        (lambda r, k: r.truncated_normal(k, jnp.zeros(2), jnp.ones(3)), ValueError,
         r"lower of shape \(2,\), upper of shape \(3,\)"),
        (lambda r, k: r.beta(k, 1.0, jnp.ones((2, 3)), (1, 3)), ValueError, r"b of shape \(2, 3\)"),
    ],
)  # fmt: skip
def test_a_parameter_of_a_shape_that_does_not_fit_is_named(draw, error, message):
    with pytest.raises(error, match=message):
        draw(xlab.random, xlab.random.key(0))
