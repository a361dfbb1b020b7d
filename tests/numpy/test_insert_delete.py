"""Files of `save`, large sets, and keywords that are mapped."""

import io

import ml_dtypes
import numpy as np
import pytest

import xlab.numpy as jnp


@pytest.mark.parametrize(
    "values",
    [
        np.arange(3).astype(ml_dtypes.bfloat16),
        jnp.arange(3, dtype=jnp.bfloat16),
        np.arange(3),
        np.float64(2),
    ],
)
def test_a_saved_array_comes_back(values):
    file = io.BytesIO()
    jnp.save(file, values)
    file.seek(0)
    back = jnp.load(file)
    assert (
        back.dtype == jnp.asarray(values).dtype and (np.asarray(back) == np.asarray(values)).all()
    )


@pytest.mark.parametrize(
    "values", [np.arange(3).astype(ml_dtypes.float8_e4m3fn), np.array(["a"]), np.ones(2, ">f4")]
)
def test_what_no_array_can_hold_comes_from_files_as_numpy(values):
    file = io.BytesIO()
    np.save(file, values)
    file.seek(0)
    assert type(jnp.load(file)) is np.ndarray


def test_fromfunction_maps_arrays_among_its_keywords():
    found = jnp.fromfunction(
        lambda i, j, k, scale: i * scale + j + k, (2, 3), k=np.arange(6).reshape(2, 3), scale=10
    )
    np.testing.assert_array_equal(
        found, np.add.outer(10 * np.arange(2), np.arange(3)) + np.arange(6).reshape(2, 3)
    )


def test_large_sets_are_searched_and_not_compared_pair_by_pair():
    many = np.arange(0, 400_000, 2, dtype=np.int32)
    assert jnp.isin(np.int32([3, 4, 399_998, 500_000]), many).tolist() == [False, True, True, False]
    assert jnp.isin(many, many).all()
