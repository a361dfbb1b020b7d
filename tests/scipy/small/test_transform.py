"""Rotations between rotations: dtypes."""

import numpy as np
import pytest

import xlab.numpy as jnp
from xlab.scipy.spatial.transform import Rotation, Slerp

QUATERNIONS = [[0.0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("given", ["float16", "float32", "int32"])
def test_times_take_the_dtype_of_the_rotations(dtype, given):
    between = Slerp.init(
        jnp.arange(3).astype(given), Rotation.from_quat(jnp.array(QUATERNIONS, dtype))
    )
    assert {a.dtype.name for a in (between.times, between.timedelta, between.rotvecs)} == {dtype}
    out = between(jnp.array([0, 1]).astype(given)).as_quat()
    assert out.dtype == dtype
    np.testing.assert_allclose(np.abs(out.astype(np.float32)), QUATERNIONS[:2], atol=1e-2)
