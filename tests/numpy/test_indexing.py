"""Indexing against NumPy, read and write; what is particular to traced and immutable arrays."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.errors import NonConcreteBooleanIndexError
from xlab.numpy import indexing

X = np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)
I, J, M = np.array([1, -1, 0]), np.array([[0, 2], [-2, 1]]), X[:, :, 0] > 0
INDICES = [
    1, -2, (1, 2), slice(1, 3), slice(None, None, 2), slice(None, None, -1), (slice(3, 0, -2), slice(None, None, -1)),
    slice(3, 1), (..., 1), (1, ..., slice(0, 2)), None, (None, 1, None, slice(1, 2), None), I, J, (I, 0), (0, I),
    (I, slice(None), I), (I, I[::-1]), (J, slice(None), np.array([0, 1])), (slice(None), J), (slice(1, 3), J),
    (slice(None, None, 2), J), (J, slice(None, None, -1), 1), (I, None, I), (None, 0, None, I), (0, slice(None), I), (..., I),
    M, M[:, 0], (M[:, 0], slice(None), 0), True, False, (True, 1), (1, True), np.zeros(0, int), np.int64(2), np.array(1),
    np.uint8([1, 3]), np.int8([1, -1]), ([0, 1], 0), slice(None), ..., ()]  # fmt: skip
NAMES = [str(i).replace("\n", "").replace(" ", "")[:60] for i in INDICES]


@pytest.mark.parametrize("index", INDICES, ids=NAMES)
def test_reading_is_numpys(index):
    x = jnp.asarray(X)
    for out in (
        x[index],
        xlab.jit(lambda x: x[index])(x),
        xlab.vmap(lambda x: x[index])(x[None])[0],
    ):
        np.testing.assert_array_equal(out, X[index])
        assert out.shape == X[index].shape


@pytest.mark.parametrize("index", INDICES, ids=NAMES)
def test_writing_is_numpys(index):
    x = jnp.asarray(X)
    expected, values = X.copy(), np.arange(X[index].size, dtype=np.float32).reshape(X[index].shape)
    np.add.at(expected, index, values)
    for out in (x.at[index].add(values), xlab.jit(lambda x, v: x.at[index].add(v))(x, values)):
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    expected = X.copy()
    expected[index] = 7
    np.testing.assert_array_equal(x.at[index].set(7), expected)


@pytest.mark.parametrize("index", INDICES, ids=NAMES)
def test_derivative_adds_up_where_it_was_read(index):
    expected = np.zeros_like(X)
    np.add.at(expected, index, X[index])
    ct = xlab.grad(lambda x: (x[index] * X[index]).sum())(jnp.asarray(X))
    np.testing.assert_allclose(ct, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        ((0, 0, 0, 0), IndexError),
        ((..., ...), IndexError),
        (1.5, TypeError),
        (np.array([1.0]), TypeError),
        ("a", TypeError),
        ([0, 1], TypeError),
        (M[:, :2], IndexError),
        (slice(None, None, 0), ValueError),
        ((I, np.array([0, 1])), ValueError),
    ],
)
def test_what_is_no_index(index, error):
    with pytest.raises(error):
        jnp.asarray(X)[index]


def test_traced_masks_and_slices_say_what_to_write():
    with pytest.raises(NonConcreteBooleanIndexError, match="where"):
        xlab.jit(lambda x: x[x > 0])(X)
    with pytest.raises(IndexError, match="dynamic_slice"):
        xlab.jit(lambda x, i: x[i:])(X, 1)
    with pytest.raises(TypeError, match=r"\.at\[index\]\.set"):
        jnp.asarray(X)[0] = 1.0


def test_positions_are_operands_of_one_program():
    x = jnp.arange(100.0)
    x[3], x[2:5]
    before = indexing.row._cache_size(), indexing._reader.cache_info().currsize
    for i in range(0, 90, 7):
        assert x[i] == i
        np.testing.assert_array_equal(x[i + 1 : i + 4], np.arange(i + 1, i + 4))
    assert (indexing.row._cache_size(), indexing._reader.cache_info().currsize) == before


def test_out_of_bounds():
    x = jnp.arange(4)
    assert x[10] == 3 and x[-10] == 0
    assert x.at[jnp.array([10])].get(mode="fill", fill_value=-1)[0] == -1
    np.testing.assert_array_equal(x.at[jnp.array([10, 1])].set(9), [0, 9, 2, 3])
    np.testing.assert_array_equal(x.at[jnp.array([10])].set(9, mode="clip"), [0, 1, 2, 9])
    np.testing.assert_array_equal(jnp.take(x, jnp.array([5, -1]), mode="wrap"), [1, 3])
    np.testing.assert_array_equal(jnp.take(x, jnp.array([5, -1]), mode="clip"), [3, 0])


def test_updates_keep_the_dtype_and_say_when_that_loses():
    with pytest.warns(FutureWarning, match="float32 to dtype=int32"):
        out = jnp.arange(3).at[0].set(jnp.float32(1.5))
    assert out.dtype == np.int32 and out[0] == 1
    assert jnp.arange(3, dtype=jnp.int8).at[0].add(3).dtype == np.int8


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("set", 3),
        ("add", 5),
        ("subtract", -1),
        ("multiply", 6),
        ("divide", 2 / 3),
        ("power", 8),
        ("min", 2),
        ("max", 3),
    ],
)
def test_every_update(op, expected):
    x = jnp.full(3, 2.0)
    np.testing.assert_allclose(getattr(x.at[1], op)(3.0), [2, expected, 2], rtol=1e-6)


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_extrema_of_complex_numbers_compare_real_parts_first(op, dtype):
    choose = {"max": max, "min": min}[op]
    with xlab.enable_x64(dtype == np.complex128):
        x = np.array([1 + 2j, 3 - 1j, -2, 1 + 5j], dtype)
        given, where = np.array([1 + 3j, 3 - 2j, 4 + 1j, 1 + 1j], dtype), [0, 1, 1, 3]
        expected = x.copy()
        for i, v in zip(where, given):
            expected[i] = choose(expected[i], v, key=lambda z: (z.real, z.imag))

        def update(x, given):
            return getattr(x.at[jnp.array(where)], op)(given)

        for f in (update, xlab.jit(update)):
            out = f(jnp.asarray(x), given)
            assert out.dtype == dtype
            np.testing.assert_array_equal(out, expected)
        stacked = xlab.vmap(update)(jnp.stack([x, x + 1]), np.stack([given, given + 1]))
        np.testing.assert_array_equal(stacked, [expected, expected + 1])
        kept = (expected == x).astype(dtype)  # no two are equal here
        _, back = xlab.vjp(lambda x: update(x, given), jnp.asarray(x))
        np.testing.assert_array_equal(back(jnp.ones(4, dtype))[0], kept)


def test_apply():
    np.testing.assert_array_equal(
        jnp.arange(4.0).at[jnp.array([1, 3, 3])].apply(lambda v: v * 10), [0, 10, 2, 300]
    )


def test_iteration_in_chunks_and_traced():
    x = jnp.arange(70)
    assert [int(v) for v in x] == list(range(70))
    np.testing.assert_array_equal(xlab.jit(lambda x: sum(x))(x), sum(range(70)))
    with pytest.raises(TypeError, match="0-d"):
        iter(jnp.float32(1))


def test_take_along_axis_broadcasts():
    out = jnp.take_along_axis(jnp.asarray(X), np.array([[[1]]]), axis=1)
    np.testing.assert_array_equal(out, np.take_along_axis(X, np.array([[[1]]]), axis=1))
    with pytest.raises(ValueError, match="same number of dimensions"):
        jnp.take_along_axis(jnp.asarray(X), np.array([1]), axis=1)
    np.testing.assert_array_equal(
        jnp.put_along_axis(jnp.zeros((2, 2)), np.array([[1], [0]]), 5.0, axis=1, inplace=False),
        [[0, 5], [5, 0]],
    )
