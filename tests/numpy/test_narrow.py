"""Numbers of 4 and 8 bits where the reference makes NaN of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlab
import xlab.numpy as jnp


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2fnuz", "float8_e5m2"])
def test_softmax_without_infinities(name):
    x = jnp.array([1, -3, 2]).astype(name)
    close = np.exp([1, -3, 2.0]) / np.exp([1, -3, 2.0]).sum()
    np.testing.assert_allclose(np.asarray(xlab.nn.softmax(x)).astype(np.float32), close, atol=0.2)
    some = np.asarray(xlab.nn.softmax(x, where=np.array([True, False, True]))).astype(np.float32)
    assert some[1] == 0 and abs(some.sum() - 1) < 0.2


@pytest.mark.parametrize("name", ["float4_e2m1fn", "float8_e8m0fnu"])
def test_the_narrowest_floats_have_extremes(name):
    x = jnp.array([1, 3, 2]).astype(getattr(ml_dtypes, name))
    assert [int(jnp.argmax(x)), int(jnp.argmin(x)), float(jnp.max(x)), float(jnp.min(x))] == [
        1,
        0,
        float(x[1]),
        1.0,
    ]


def test_bits_of_complex_numbers():
    """The compiler refuses them with words of its own."""
    x = np.ones(2, np.complex64)
    for wrong in (
        lambda: xlab.lax.bitcast_convert_type(x, np.float32),
        lambda: xlab.lax.bitcast_convert_type(x.real, np.complex64),
    ):
        with pytest.raises(TypeError, match=r"Take parts with lax\.real and lax\.imag"):
            wrong()
    assert xlab.lax.bitcast_convert_type(x, np.complex64).dtype == np.complex64


def test_piecewise_takes_lists():
    for wrong in (({"a": 1}, [1]), ([True], {"a": 1}), ([True], "f")):
        with pytest.raises(TypeError, match="piecewise takes its (condlist|funclist) in a list"):
            jnp.piecewise(jnp.ones(3), *wrong)


@pytest.mark.parametrize("axis", [1, -2])
def test_bits_along_an_axis_that_is_not_there(axis):
    for f in (jnp.packbits, jnp.unpackbits):
        with pytest.raises(ValueError, match=f"axis {axis} is out of bounds"):
            f(jnp.ones(8, "uint8"), axis=axis)


def test_hard_tanh_of_unsigned_integers():
    x = jnp.array([0, 1, 5], "uint8")
    np.testing.assert_array_equal(xlab.nn.hard_tanh(x), np.uint8([0, 1, 1]))


@pytest.mark.parametrize("name", ["igamma", "igammac", "random_gamma_grad"])
def test_special_functions_compute_in_32_bits(name):
    """The reference computes these in the narrow type itself, up to half of the value away."""
    fun, x = getattr(xlab.lax, name), jnp.array([0.5, 1, 2, 4])
    np.testing.assert_array_equal(
        fun(x.astype("float8_e5m2"), x.astype("float8_e5m2")), fun(x, x).astype("float8_e5m2")
    )


@pytest.mark.parametrize(
    "cast",
    [
        lambda z: jnp.asarray(z, float),
        lambda z: jnp.array(z, dtype=int),
        lambda z: jnp.float32(z),
        lambda z: jnp.asarray(np.asarray(z), float),
        lambda z: xlab.lax.convert_element_type(z, "float32"),
        lambda z: xlab.jit(lambda v: xlab.lax.convert_element_type(v, "float32"))(z),
        lambda z: jnp.sum(z, dtype=float, keepdims=True),
        lambda z: jnp.concatenate([z], dtype=float),
    ],
)
def test_a_lost_imaginary_part_is_warned_of_at_the_users_line(cast):
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part") as got:
        assert cast(jnp.array([2 + 1j])).tolist() == [2]
    assert {w.filename for w in got} == {__file__}


def test_astype_to_real_is_deprecated():
    z = jnp.array([2 + 1j])
    for cast in (z.astype, lambda d: jnp.astype(np.asarray(z), d), lambda d: xlab.jit(lambda v: v.astype(d))(z)):  # fmt: skip
        with pytest.warns(DeprecationWarning, match="will soon raise a ValueError") as got:
            assert cast(float).tolist() == [2]
        assert [w.filename for w in got] == [__file__]
    assert z.astype(bool).tolist() == [True] and z.astype("complex64") is z


@pytest.mark.parametrize("number", [float, int])
def test_a_complex_array_is_no_real_number_of_python(number):
    z = jnp.array(2 + 1j)
    with pytest.raises(TypeError, match=r"complex64: take its \.real"):
        number(z)
    assert complex(z) == 2 + 1j and number(z.real) == 2
