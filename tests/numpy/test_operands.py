"""Operands that are no arrays."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax


@pytest.mark.parametrize("position", [0, 1])
def test_a_token_is_no_number(position):
    def program(x):
        operands = [x, x]
        operands[position] = lax.create_token()
        return operands[0] + operands[1]

    with pytest.raises(TypeError, match=f"operand at position {position} is of type Token"):
        xlab.jit(program)(jnp.ones(2))


@pytest.mark.parametrize(
    "use",
    [jnp.sin, lax.exp, jnp.sum, lambda t: -t, lambda t: t[0], lambda t: t.astype("float32")],
    ids=["sin", "exp", "sum", "neg", "index", "astype"],
)
def test_a_token_has_no_numbers(use):
    with pytest.raises(TypeError, match="an array was expected, and a token has no"):
        xlab.jit(lambda: use(lax.create_token()))()


def test_a_numpy_array_is_reshaped_by_numpy():
    """So do programs written for JAX expect it: libraries check shapes and values while they trace."""
    x = np.arange(6)  # of 64 bits

    def f():
        found = jnp.reshape(x, (2, -1), order="F")
        assert type(found) is np.ndarray and found.dtype == x.dtype and found[0, 1] == 2
        assert not np.shares_memory(jnp.reshape(x, (3, 2), copy=True), x)
        assert jnp.reshape(np.float32(2), (1,)).tolist() == [2.0]
        return jnp.reshape(2.0, (1,)) + found.sum()

    assert xlab.jit(f)().tolist() == [17.0]
    assert type(jnp.ravel(x)) is not np.ndarray and jnp.ravel(x).dtype == np.int32
    with pytest.raises(TypeError, match="cannot reshape array of shape"):
        jnp.reshape(x, (4, 2))


@pytest.mark.parametrize(
    "fun",
    [jnp.mean, jnp.std, jnp.var, jnp.argmin, jnp.cumsum, jnp.sort, jnp.sum, jnp.flip]
    + [xlab.nn.glu, xlab.nn.standardize, xlab.scipy.signal.detrend, xlab.scipy.fft.dct]
    + [
        lambda x, axis, f=f: f(x, x, axis=axis)
        for f in (jnp.vecdot, jnp.linalg.cross, jnp.linalg.vecdot)
    ]
    + [lambda x, axis, f=f: f(x, axes=axis) for f in (jnp.fft.fftshift, jnp.fft.ifftshift)],
)
def test_an_axis_that_is_not_there_is_numpys_own_error(fun):
    """Programs catch it as an IndexError or as a ValueError."""
    with pytest.raises(np.exceptions.AxisError, match="axis 3 is out of bounds .* dimension 2"):
        fun(jnp.ones((2, 4)), axis=3)


@pytest.mark.parametrize("exponent", [np.int8(2), np.uint16(2), np.array(2), "int32", "uint8"])
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int32", "bfloat16", "float32", "complex64"]
)
def test_powers_with_a_known_integer_have_the_type_of_the_base(dtype, exponent):
    if isinstance(exponent, str):
        exponent = jnp.asarray(2, exponent)
    x = jnp.asarray([1, 0], dtype)
    for out in (x**exponent, jnp.power(x, exponent), xlab.jit(lambda x: x**exponent)(x)):
        assert out.dtype == (np.int32 if dtype == "bool" else x.dtype)
        np.testing.assert_array_equal(np.asarray(out, complex), [1, 0])


@pytest.mark.parametrize("exponent", [-1, np.int8(-1), np.array(-1), "array"])
def test_integers_are_not_raised_to_known_negative_powers(exponent):
    if isinstance(exponent, str):
        exponent = jnp.asarray(-1)
    for run in (lambda f: f, xlab.jit):
        with pytest.raises(TypeError, match="negative powers"):
            run(lambda x: x**exponent)(jnp.asarray([2, 3]))
        np.testing.assert_array_equal(
            run(lambda x: x**exponent)(jnp.asarray([2.0, 4.0])), [0.5, 0.25]
        )


def test_a_weak_base_stays_weak_under_a_known_integer():
    half = jnp.ones(2, jnp.bfloat16)
    for step in (2, np.int32(2), jnp.asarray(2)):
        assert (half * jnp.power(0.5, step)).dtype == half.dtype
        assert (jnp.full(2, 0.5) ** step).weak_type
    # Whole powers of complex numbers are products, without a logarithm's rounding.
    np.testing.assert_array_equal(jnp.asarray([2j]) ** jnp.asarray(2), [-4])
    np.testing.assert_array_equal(jnp.asarray([2j]) ** True, [2j])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
@pytest.mark.parametrize(
    "value", [np.inf, -np.inf, np.nan, 1e20, -300.5, 7.9, np.float32(np.inf), np.float32(-np.inf)]
)
def test_arrays_of_integers_full_of_a_float_hold_what_a_program_converts_it_to(dtype, value):
    converted = xlab.jit(lambda v: v.astype(dtype))(np.float32(value))
    like = jnp.zeros(2, dtype)
    for out in (
        jnp.full(2, value, dtype), jnp.full_like(like, value), lax.full((2,), value, dtype), lax.full_like(like, value),
        xlab.jit(lambda: jnp.full(2, value, dtype))(),
    ):  # fmt: skip
        assert out.dtype == dtype
        np.testing.assert_array_equal(out, [converted, converted])


def test_exponents_and_steps_are_whole():
    with pytest.raises(TypeError, match="whole exponent, got 1.5"):
        lax.integer_pow(jnp.ones(2), 1.5)
    assert lax.integer_pow(jnp.asarray(3.0), 2.0) == 9
    key = xlab.random.key(0)
    with pytest.raises(OverflowError, match="infinity"):
        xlab.random.fold_in(key, np.inf)
    with pytest.raises(TypeError, match="complex"):
        xlab.random.fold_in(key, 1j)
    same = [
        xlab.random.key_data(xlab.random.fold_in(key, step)) for step in (1, 1.5, np.float32(1))
    ]
    np.testing.assert_array_equal(same[0], same[1])
    np.testing.assert_array_equal(same[0], same[2])


@pytest.mark.parametrize("name", ["max", "min", "ptp", "nanmax", "nanmin", "nanvar", "nanstd"])
def test_the_slope_of_an_extreme_of_weak_numbers_is_weak(name):
    """As that of a sum is, though their values are not."""
    f = getattr(jnp, name)
    for x in (2.0, jnp.broadcast_to(2.0, (3,))):
        assert xlab.grad(f)(x).weak_type and xlab.grad(xlab.jit(f))(x).weak_type
        assert not f(x).weak_type
    assert not xlab.grad(f)(np.float32([1, 2])).weak_type


@pytest.mark.parametrize(
    "fun",
    [
        jnp.add,
        jnp.maximum,
        jnp.arctan2,
        jnp.less,
        jnp.power,
        jnp.logical_and,
        xlab.jit(jnp.subtract),
        jnp.ldexp,
        lambda x, y: jnp.ones(8) * x,
        lambda x, y: x + np.ones(8, np.float32),
        lambda x, y: jnp.hypot(x, y),
    ],
)
def test_shapes_of_other_ranks_that_do_not_fit_are_named_as_they_were_given(fun):
    y = jnp.ones(8, int) if fun is jnp.ldexp else jnp.ones(8)
    with pytest.raises(ValueError, match=r"Incompatible shapes for broadcasting: .*\(8,\)"):
        fun(jnp.ones((8, 4)), y)
    with pytest.raises(TypeError, match="got incompatible shapes for broadcasting"):
        jnp.ones(2) + jnp.ones(3)


@pytest.mark.parametrize("options", [(1j,), (0, 1j), (0, 3, 1j), (jnp.complex64(2),)])
def test_arange_counts_in_real_numbers(options):
    with pytest.raises(ValueError, match="arange counts in real numbers, got .*j"):
        jnp.arange(*options)
    assert jnp.arange(2, dtype=complex).tolist() == [0, 1]


@pytest.mark.parametrize("options", [(np.ones(2),), (0, np.ones(1))])
def test_arange_takes_scalars(options):
    with pytest.raises(ValueError, match=r"arange takes scalars, got shapes \[.*\(\d,\)\]"):
        jnp.arange(*options)
