"""Functions where their formulas meet infinities, zeros and the ends of a dtype: complex sine and cosine, sinc, frexp, Python numbers that wrap around."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp

AXIS = np.complex64(
    [complex(a, b) for a in (0.0, -0.0) for b in (np.inf, -np.inf, np.nan, 2, 1e-30)]
)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_the_imaginary_axis_stays_itself(name):
    for z in (AXIS, np.complex64([1 + 2j, 3 - 50j, -2 + 1e-3j])):
        with np.errstate(invalid="ignore"):
            expected = getattr(np, name)(z)
        out = np.asarray(getattr(jnp, name)(z))
        np.testing.assert_allclose(out.real, expected.real, rtol=2e-6, atol=1e-38)
        np.testing.assert_allclose(out.imag, expected.imag, rtol=2e-6, atol=1e-38)


def test_sinc_and_its_slopes_near_zero_and_far_out():
    x = np.float32([0, 1e-20, 1e-4, 0.1, 0.2, 0.5, 3.3, 1e4, 1e30])
    y = np.pi * np.float64(x)
    with np.errstate(all="ignore"):
        slopes = np.where(y < 1e-3, -y / 3, np.cos(y) / y - np.sin(y) / y**2) * np.pi
    np.testing.assert_allclose(jnp.sinc(x), np.sinc(np.float64(x)), rtol=2e-6, atol=1e-7)
    found = xlab.grad(lambda x: jnp.sinc(x).sum())(x)
    np.testing.assert_allclose(found[:-2], slopes[:-2], rtol=2e-5, atol=1e-20)
    assert np.isfinite(found).all()
    assert np.isclose(xlab.grad(xlab.grad(jnp.sinc))(1e-12), -(np.pi**2) / 3)


def test_slopes_of_the_fraction():
    x = np.float32([6, 0.3, -5, 0, np.inf, 1])
    fraction, slopes = xlab.jvp(lambda x: jnp.frexp(x)[0], (x,), (np.ones_like(x),))
    np.testing.assert_array_equal(fraction, np.frexp(x)[0])
    np.testing.assert_array_equal(slopes, [0.125, 2, 0.125, 1, 1, 0.5])


@pytest.mark.parametrize(
    ("dtype", "number"), [("uint32", -2), ("uint8", 300), ("int8", 200), ("uint8", -1)]
)
def test_python_numbers_wrap_around_in_programs_as_they_do_eagerly(dtype, number):
    x = np.array([1, 2], dtype)
    for f in (
        lambda x: x * number,
        lambda x: x + number,
        lambda x: x // number,
        lambda x: number < x,
    ):
        np.testing.assert_array_equal(xlab.jit(f)(x), f(jnp.asarray(x)))
    np.testing.assert_array_equal(
        xlab.jit(lambda x: x * number)(x), x * np.array(number).astype(dtype)
    )
    with pytest.raises(OverflowError):
        xlab.jit(lambda x: x * 2**40)(x)


def test_booleans_and_whole_numbers_with_64_bit_types():
    with xlab.enable_x64(True):
        assert jnp.square(True).dtype == jnp.floor_divide(np.True_, np.True_).dtype == "int32"
        assert jnp.rint(np.int32(3)).dtype == jnp.rint(True).dtype == "float64"
        assert jnp.sum(np.array([True])).dtype == "int64"
    assert jnp.isnan(3.0).weak_type


def test_unwrap_refuses():
    with pytest.raises(ValueError, match="real angles, got dtype complex64"):
        jnp.unwrap(np.complex64([1j]))
    with pytest.raises(IndexError, match="a scalar has none"):
        jnp.unwrap(2.0)


def test_products_of_wide_integers_with_narrow_types():
    wide, half = np.int32([1, 2, 3]), np.float16([0.5, 1, 2])
    for f in (jnp.dot, jnp.inner, jnp.vdot, jnp.matmul):
        for a, b in ((wide, half), (half, wide)):
            out = f(a, b)
            assert out.dtype == np.float16 and out == 8.5
    out = jnp.inner(3, np.int8([1, 2]))
    assert out.dtype == np.int8 and out.tolist() == [3, 6]


def test_running_sums_of_narrow_integers():
    for dtype, wide in (
        ("int8", "int32"),
        ("int16", "int32"),
        ("uint8", "uint32"),
        ("bool", "int32"),
        ("float16", "float16"),
    ):
        out = jnp.cumulative_sum(np.ones(3, dtype))
        assert out.dtype == wide and out.tolist() == [1, 2, 3]
    assert jnp.cumulative_sum(np.int8([127, 127])).tolist() == [127, 254]
    assert jnp.cumsum(np.ones(3, "int8")).dtype == "int8"
