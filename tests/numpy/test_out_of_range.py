"""Numbers that an integer dtype cannot hold: refused where a dtype is asked for, converted as programs do elsewhere."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp

INF = float("inf")


@pytest.mark.parametrize(
    ("given", "dtype", "error", "match"),
    [
        (INF, "int8", OverflowError, "infinity to integer, here int8"),
        ([-INF, 1], "uint8", OverflowError, "infinity to integer, here uint8"),
        (np.nan, "int32", ValueError, "NaN to integer, here int32"),
        ([[np.nan]], "int32", ValueError, "NaN to integer"),
        ([np.float32(INF)], "int32", OverflowError, "infinity to integer"),
        (1e10, "int32", OverflowError, "10000000000 out of bounds for int32"),
        ([300.5], "int8", OverflowError, "300 out of bounds for int8, which holds -128 to 127"),
        ([np.int32(300)], "int8", OverflowError, "300 out of bounds for int8"),
        ([np.int32(3), -1], "uint8", OverflowError, "-1 out of bounds for uint8"),
        ([np.array(1), 300], "int8", OverflowError, "300 out of bounds for int8"),
        ((300,), "int8", OverflowError, "300 out of bounds for int8"),
    ],
)
def test_numbers_have_to_fit_in_the_dtype_asked_for(given, dtype, error, match):
    for make in (
        lambda: jnp.array(given, dtype),
        lambda: jnp.asarray(given, dtype),
        xlab.jit(lambda: jnp.array(given, dtype)),
        lambda: getattr(jnp, dtype)(given),
    ):
        with pytest.raises(error, match=match):
            make()


def test_numbers_beside_arrays_and_traced_values_have_to_fit_too():
    with pytest.raises(OverflowError, match="300 out of bounds for int8"):
        jnp.array([jnp.int32(300), 300], "int8")
    with pytest.raises(OverflowError, match="infinity"):
        jnp.array([jnp.int32(1), INF], "int8")
    for value in (300, INF, np.int32(300)):
        with pytest.raises(OverflowError):
            xlab.jit(lambda x, value=value: jnp.array([x, value], "int8"))(1)


def test_numbers_that_fit_once_cut_and_elements_of_arrays_are_converted():
    assert jnp.array([-0.5, 255.5], "uint8").tolist() == [0, 255]
    assert jnp.array(127.9, "int8") == 127 and jnp.array([True], "int8").tolist() == [1]
    assert jnp.array([np.array([300])], "int8").tolist() == [[44]]
    assert jnp.array([jnp.float32(INF)], "int8").tolist() == [127]
    assert jnp.array([2**70], "float32").tolist() == [float(2**70)]
    assert jnp.array([2**70, 1j], "complex64").tolist() == [float(2**70), 1j]


@pytest.mark.parametrize(("value", "held"), [(INF, 127), (-INF, -128), (np.nan, 0), (300.0, 127)])
def test_fill_values_are_converted_as_a_program_does(value, held):
    x, expected = jnp.arange(1, 3, dtype="int8"), [1, 2, held]
    for find in (jnp.unique, jnp.union1d, jnp.setdiff1d):
        operands = (x,) if find is jnp.unique else (x, x if find is jnp.union1d else x[:0])
        find = xlab.jit(lambda *a, find=find: find(*a, size=3, fill_value=value))
        out = find(*operands)
        assert out.dtype == "int8" and out.tolist() == expected
    assert jnp.insert(x, 2, value).tolist() == expected
    assert jnp.insert(x, 2, np.float32(value)).tolist() == expected
    assert jnp.pad(x, (0, 1), constant_values=value).tolist() == expected
    assert jnp.max(x, initial=value) == max(2, held)
    assert jnp.min(x, initial=value) == min(1, held)


def test_a_fill_value_of_another_kind_is_refused():
    x, at = jnp.arange(3), jnp.array([7, 1])
    reads = [
        lambda fill: jnp.take(x, at, mode="fill", fill_value=fill),
        lambda fill: x.at[at].get(mode="fill", fill_value=fill),
        lambda fill: x.at[7].get(mode="fill", fill_value=fill),
        lambda fill: jnp.take_along_axis(x, at, 0, mode="fill", fill_value=fill),
    ]
    for read in reads:
        for fill in (jnp.float32(INF), jnp.float32(1.5)):
            with pytest.raises(TypeError, match=r"fill_value is of type float32\[\]"):
                read(fill)
        for fill in (1j, np.complex64(1j)):
            with pytest.raises(TypeError, match="fill_value is the complex number"):
                read(fill)
        assert read(jnp.int32(5)).ravel()[0] == 5 and read(2.5).ravel()[0] == 2
    with pytest.raises(TypeError, match="complex number"):
        jnp.arange(3.0).at[7].get(mode="fill", fill_value=1j)
    with pytest.raises(ValueError, match="fill_value has to be a scalar"):
        x.at[7].get(mode="fill", fill_value=np.array([1.0]))
    assert jnp.take(jnp.arange(3.0), 7, fill_value=2**70) == float(2**70)


def test_the_largest_of_reals_and_complex_numbers_is_that_of_the_real_parts():
    x = jnp.arange(3)
    with pytest.warns(FutureWarning, match="incompatible types"):
        assert x.at[1].max(5 + 1j).tolist() == [0, 5, 2]
    with pytest.warns(FutureWarning, match="incompatible types"):
        assert x.at[1].max(jnp.complex64(0.5 + 7j)).tolist() == [0, 1, 2]
    with pytest.warns(FutureWarning, match="incompatible types"):
        out = jnp.arange(3.0).at[:].min(np.complex64([1j, -1, 2]))
    assert out.dtype == "float32" and out.tolist() == [0, -1, 2]


def test_roll_cuts_floats_and_takes_integers_of_any_size():
    x = jnp.arange(3)
    for shift in (1.5, np.float32(1.5), jnp.float32(1.5), jnp.bool_(True), 2**70, (2**70,)):
        assert jnp.roll(x, shift).tolist() == [2, 0, 1]
    assert jnp.roll(x, -(2**70)).tolist() == [1, 2, 0]
    assert xlab.jit(jnp.roll)(x, -1.5).tolist() == [1, 2, 0]
    for shift in (1j, jnp.complex64(1j)):
        with pytest.raises(TypeError, match="roll takes a number of places"):
            jnp.roll(x, shift)
    with pytest.raises(OverflowError, match="infinity"):
        jnp.roll(x, INF)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_roll_by_a_narrow_integer_of_a_longer_array(dtype):
    for n in (300, 70_000):
        shift = jnp.asarray(100, dtype)
        np.testing.assert_array_equal(jnp.roll(jnp.arange(n), shift), np.roll(np.arange(n), 100))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("ends", [300, -5, (300, -200), 1e10, -1.7, 70000.5])
def test_ramps_start_from_ends_that_their_values_cannot_reach(dtype, ends):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 2], dtype)
    first, last = np.broadcast_to(ends, 2).astype(np.float64)
    ramps = [
        np.linspace(first, 0, 4, endpoint=False),
        np.linspace(last, 2, 4, endpoint=False)[::-1],
    ]
    before, after = (np.clip(np.floor(r), limits.min, limits.max).astype(np.int64) for r in ramps)
    for pad in (jnp.pad, xlab.jit(jnp.pad, static_argnames=("pad_width", "mode", "end_values"))):
        out = pad(x, pad_width=4, mode="linear_ramp", end_values=ends)
        assert out.dtype == dtype
        # float32 may miss a whole number by one step, and the largest int32 by its own.
        np.testing.assert_allclose(out[:4], before, atol=1, rtol=1e-6)
        np.testing.assert_allclose(out[-4:], after, atol=1, rtol=1e-6)
        np.testing.assert_array_equal(out[4:7], x)
