"""Gather, scatter, sort and running reductions beyond the samples: modes, batching, derivatives, text."""

import numpy as np
import pytest

import xlab
from xlab import lax

X = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))
INTO_ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
OUTSIDE = np.int32([[0], [9], [-7]])
UPDATES = np.arange(15, dtype=np.float32).reshape(3, 5)


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        ("clip", X[[0, 3, 0]]),
        ("promise_in_bounds", X[[0, 3, 0]]),
        ("fill", np.stack([X[0], np.full(5, np.nan), np.full(5, np.nan)])),
        ("one_hot", np.stack([X[0], np.zeros(5), np.zeros(5)])),
        (lax.GatherScatterMode.ONE_HOT, np.stack([X[0], np.zeros(5), np.zeros(5)])),
    ],
)
def test_reads_outside(mode, rows):
    np.testing.assert_array_equal(
        lax.gather(X, OUTSIDE, ROWS, (1, 5), mode=mode), rows.astype(np.float32)
    )


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [(np.int32, np.iinfo(np.int32).min), (np.uint8, 255), (np.bool_, True), (np.complex64, np.nan)],
)
def test_default_fill_values(dtype, fill):
    out = np.asarray(
        lax.gather(
            np.ones(3, dtype),
            np.int32([[7]]),
            lax.GatherDimensionNumbers((), (0,), (0,)),
            (1,),
            mode="fill",
        )
    )
    np.testing.assert_array_equal(out, np.array([fill], dtype))


def test_one_hot_reads_zero_wherever_it_is_asked_for():
    x = xlab.numpy.arange(4.0) + 1
    np.testing.assert_array_equal(x.at[np.array([1, 9])].get(mode="one_hot"), [2, 0])
    assert (x.at[9].get(mode="one_hot"), x.at[3].get(mode="one_hot")) == (0, 4)
    np.testing.assert_array_equal(xlab.numpy.take(x, np.array([0, 7]), mode="one_hot"), [1, 0])
    assert "dot_general" in str(
        xlab.make_jaxpr(lambda x: xlab.numpy.take_along_axis(x, np.array([1]), 0, mode="one_hot"))(
            x
        )
    )
    with pytest.raises(ValueError, match="'promise_in_bounds' or 'one_hot'"):
        x.at[9].get(mode="none_hot")


def test_writes_outside_are_dropped_or_clipped():
    dropped = lax.scatter(X, OUTSIDE, UPDATES, INTO_ROWS)
    np.testing.assert_array_equal(dropped, np.concatenate([UPDATES[:1], X[1:]]))
    clipped = lax.scatter_add(X, OUTSIDE, UPDATES, INTO_ROWS, mode="clip")
    expected = X.copy()
    np.add.at(expected, [0, 3, 0], UPDATES)
    np.testing.assert_allclose(clipped, expected, rtol=1e-6)


def test_small_indices_reach_into_large_operands():
    x = np.arange(1000, dtype=np.float32)
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    out = lax.gather(x, np.int8([[-100], [100]]), numbers, (1,), mode="clip")
    np.testing.assert_array_equal(out, [0, 100])


@pytest.mark.parametrize("batched", [(True, False), (False, True), (True, True)])
def test_batched_gather_is_a_loop(batched):
    xs, indices = np.stack([X, 2 * X]), np.int32([[[0], [3]], [[1], [1]]])
    args = (xs if batched[0] else X, indices if batched[1] else indices[0])

    def f(x, i):
        return lax.gather(x, i, ROWS, (1, 5), mode="fill")

    out = xlab.vmap(f, tuple(0 if b else None for b in batched))(*args)
    for k in range(2):
        np.testing.assert_array_equal(out[k], f(*(a[k] if b else a for a, b in zip(args, batched))))


def test_derivative_of_scatter_follows_the_update_that_was_kept():
    indices = np.int32([[1], [1], [2]])

    def f(x, u):
        return lax.scatter(x, indices, u, INTO_ROWS)

    out, pull = xlab.vjp(f, X, UPDATES + 1)
    ct_x, ct_u = pull(np.ones_like(X))
    kept = int(np.asarray(out)[1, 0] == UPDATES[1, 0] + 1)
    np.testing.assert_array_equal(np.asarray(ct_u)[:, 0], [1 - kept, kept, 1])
    np.testing.assert_array_equal(np.asarray(ct_x)[:, 0], [1, 0, 0, 1])


def test_derivative_of_scatter_max_is_shared_by_ties():
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    x, u = np.float32([1, 5]), np.float32([5, 2])
    ct_x, ct_u = xlab.vjp(lambda x, u: lax.scatter_max(x, np.int32([[1], [0]]), u, numbers), x, u)[
        1
    ](np.float32([1, 1]))
    np.testing.assert_array_equal(ct_x, [0, 0.5])
    np.testing.assert_array_equal(ct_u, [0.5, 1])


def test_scatter_apply_and_its_derivative():
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    x = np.float32([1, 2, 3])

    def f(x):
        return lax.scatter_apply(
            x,
            np.int32([[2], [0]]),
            lambda v: v * v,
            numbers,
            update_shape=(2,),
            unique_indices=True,
        )

    np.testing.assert_array_equal(f(x), [1, 2, 9])
    np.testing.assert_array_equal(xlab.jvp(f, (x,), (np.ones_like(x),))[1], [2, 1, 6])
    with pytest.raises(NotImplementedError, match="unique_indices=True"):
        xlab.jvp(
            lambda x: lax.scatter_apply(
                x, np.int32([[0]]), lambda v: v * v, numbers, update_shape=(1,)
            ),
            (x,),
            (x,),
        )


def test_printed_like_the_field():
    text = str(xlab.make_jaxpr(lambda x: lax.scatter_add(x, OUTSIDE, UPDATES, INTO_ROWS))(X))
    assert "scatter-add[" in text and "mode=GatherScatterMode.FILL_OR_DROP" in text
    assert "update_jaxpr={ lambda ; " in text


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_sort_is_total(dtype):
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    x = np.array([3, np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-7, -1], dtype)
    out = np.asarray(lax.sort(x)).astype(np.float32)
    np.testing.assert_array_equal(out, np.sort(x.astype(np.float32)))
    _keys, order = lax.sort_key_val(x, np.arange(9, dtype=np.int32))
    assert np.asarray(order).tolist() == [6, 8, 3, 4, 7, 0, 5, 1, 2]


def test_sort_by_two_keys_moves_the_rest_along():
    a, b, c = np.int32([1, 0, 1, 0]), np.float32([2, 4, 1, 3]), np.int32([0, 1, 2, 3])
    out = lax.sort((a, b, c), num_keys=2)
    np.testing.assert_array_equal(out[2], [3, 1, 2, 0])
    with pytest.raises(ValueError, match="num_keys"):
        lax.sort((a,), num_keys=2)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_reductions(name, n, reverse):
    x = np.random.default_rng(n).uniform(0.5, 1.5, size=(2, n)).astype(np.float32)
    model = {
        "cumsum": np.add,
        "cumprod": np.multiply,
        "cummax": np.maximum,
        "cummin": np.minimum,
        "cumlogsumexp": np.logaddexp,
    }[name].accumulate
    expected = model(x[:, ::-1], axis=1)[:, ::-1] if reverse else model(x, axis=1)
    np.testing.assert_allclose(getattr(lax, name)(x, axis=1, reverse=reverse), expected, rtol=2e-5)


def test_top_k_along_another_axis_and_its_derivative():
    values, positions = lax.top_k(X, 2, axis=0)
    np.testing.assert_array_equal(positions, np.argsort(-X, axis=0)[:2])
    ct = xlab.grad(lambda x: lax.reduce_sum(lax.top_k(x, 2, axis=0)[0], (0, 1)))(X)
    np.testing.assert_array_equal(ct, (np.sort(X, axis=0)[-2] <= X).astype(np.float32))
    assert np.asarray(values).shape == (2, 5)
