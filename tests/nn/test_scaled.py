"""Products of arrays rounded in blocks, against NumPy with the same narrow types."""

import ml_dtypes
import numpy as np
import pytest

import xlab
from xlab import lax, nn

F8, E8, F4 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn
BATCHED = (((2,), (2,)), ((0,), (0,)))
rng = np.random.RandomState(0)


def wide(values, scales):
    values, scales = (np.asarray(x).astype(np.float64) for x in (values, scales))
    return values * np.repeat(scales, values.shape[-1] // scales.shape[-1], -1)


def rounded(x, mode, global_scale=1.0):
    """What an array is worth after rounding, in plain NumPy."""
    size, most = (32, 448.0) if mode == "mxfp8" else (16, 6.0)
    blocks = (x / global_scale).reshape(*x.shape[:-1], -1, size)
    scale = np.abs(blocks).max(-1, keepdims=True) / most
    scale = (
        2.0 ** np.ceil(np.log2(scale))
        if mode == "mxfp8"
        else scale.astype(np.float32).astype(F8).astype(np.float64)
    )
    narrow = np.clip((blocks.astype(np.float32) / scale.astype(np.float32)), -most, most).astype(
        F8 if mode == "mxfp8" else F4
    )
    return (narrow.astype(np.float64) * scale).reshape(x.shape) * global_scale


def test_scaled_matmul_spreads_scales_over_blocks():
    a, b = rng.randn(2, 4, 64).astype(F8), rng.randn(2, 5, 64).astype(F8)
    sa, sb = (
        (2.0 ** rng.randint(-3, 4, (2, 4, 2))).astype(E8),
        (2.0 ** rng.randint(-3, 4, (2, 5, 2))).astype(E8),
    )
    out = nn.scaled_matmul(a, b, sa, sb)
    assert out.dtype == np.float32
    np.testing.assert_allclose(
        out, np.einsum("bmk,bnk->bmn", wide(a, sa), wide(b, sb)), rtol=1e-5, atol=1e-4
    )
    assert (
        nn.scaled_matmul(a, b, sa, sb, preferred_element_type=ml_dtypes.bfloat16).dtype
        == ml_dtypes.bfloat16
    )


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_operands_are_rounded_in_blocks(mode):
    a, b = (
        rng.randn(2, n, 64).astype(np.float32)
        * 10.0 ** rng.randint(-2, 3, (2, n, 1)).astype(np.float32)
        for n in (4, 5)
    )
    a[0, 0] = 0
    config = nn.get_scaled_dot_general_config(mode, np.float32(0.5) if mode == "nvfp4" else None)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.einsum(
            "bmk,bnk->bmn",
            *(np.nan_to_num(rounded(x, mode, 0.5 if mode == "nvfp4" else 1.0)) for x in (a, b)),
        )
    fun = lambda a, b: nn.scaled_dot_general(a, b, BATCHED, configs=[config] * 3)
    for run in (fun, xlab.jit(fun)):
        out = run(a, b)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-3 * np.abs(expected).max())


def test_any_dimension_numbers_and_no_configs():
    config = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    a, b = (
        rng.randn(2, 3, 8, 4, 16).astype(np.float32),
        rng.randn(16, 5, 3, 2, 4).astype(np.float32),
    )
    numbers = (((3, 4), (4, 0)), ((0, 1), (3, 2)))
    exact = np.asarray(nn.scaled_dot_general(a, b, numbers))
    np.testing.assert_allclose(exact, lax.dot_general(a, b, numbers), rtol=1e-6)
    out = nn.scaled_dot_general(a, b, numbers, configs=config)
    assert out.shape == exact.shape
    assert np.abs(np.asarray(out) - exact).max() < 0.1 * np.abs(exact).max()
    assert nn.scaled_dot_general(a, b, numbers, np.float16, configs=config).dtype == np.float16


@pytest.mark.slow
def test_derivatives_are_rounded_products():
    config = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    a, b, ct = (rng.randn(1, n, m).astype(np.float32) for n, m in ((32, 64), (96, 64), (32, 96)))
    fun = lambda a, b: nn.scaled_dot_general(a, b, BATCHED, configs=config)
    ct_a, ct_b = xlab.vjp(fun, a, b)[1](ct)
    r = lambda x: rounded(x.astype(np.float64), "mxfp8")
    turned = lambda x: np.ascontiguousarray(x.transpose(0, 2, 1))
    np.testing.assert_allclose(ct_a, r(ct) @ turned(r(turned(b))), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ct_b, r(turned(ct)) @ turned(r(turned(a))), rtol=1e-3, atol=1e-3)
    mapped = xlab.vmap(fun)(np.stack([a, 2 * a]), np.stack([b, b]))
    np.testing.assert_allclose(mapped[1], 2 * np.asarray(fun(a, b)), rtol=1e-5, atol=1e-4)


def test_configs_have_names():
    mx, nv = (nn.get_scaled_dot_general_config(mode) for mode in ("mxfp8", "nvfp4"))
    assert (mx.mode, mx.block_size, mx.data_type, mx.scale_type, mx.global_scale) == (
        "mxfp8",
        32,
        F8,
        E8,
        None,
    )
    assert (nv.mode, nv.block_size, nv.data_type, nv.scale_type) == ("nvfp4", 16, F4, F8)
    np.testing.assert_array_equal(nv.global_scale, [1.0])
    with pytest.raises(ValueError, match="Unsupported mode"):
        nn.get_scaled_dot_general_config("int8")


def test_bad_inputs():
    config = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    x, s = np.ones((1, 2, 64), F8), np.ones((1, 2, 2), E8)
    three = np.ones((1, 2, 3), E8)
    for args in (
        (x[0], x, s, s),
        (x, x[:, :, :32], s, s),
        (x, x, s, s[:, :, :1]),
        (x, x, three, three),
    ):
        with pytest.raises(ValueError, match="scaled_matmul requires"):
            nn.scaled_matmul(*args)
    with pytest.raises(TypeError, match="8-bit"):
        nn.scaled_matmul(x, x, s.astype(np.float32), s)
    with pytest.raises(TypeError, match="preferred_element_type"):
        nn.scaled_dot_general(
            np.ones((2, 32)), np.ones((2, 32)), (((1,), (1,)), ((), ())), np.int32, configs=config
        )
    with pytest.raises(ValueError, match="blocks of 32"):
        nn.scaled_dot_general(
            np.ones((2, 33)), np.ones((2, 33)), (((1,), (1,)), ((), ())), configs=config
        )
    with pytest.raises(IndexError, match="config"):
        nn.scaled_dot_general(
            np.ones((2, 32)), np.ones((2, 32)), (((1,), (1,)), ((), ())), configs=config[:1]
        )
