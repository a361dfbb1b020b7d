"""Samples of `numpy`, `lax` and the top level: parameters that are given by keyword, or seldom."""

from __future__ import annotations

import numpy as np

from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
f32 = np.float32
A = np.array([[3, 1, 2], [0, 5, 4]], f32)
N = np.array([[1, np.nan, 3], [4, 5, np.nan]], f32)
HALVES = np.array([1.5, -2.5], np.float16)
ONE, TWO = ("eager",), ("eager", "jit")


def sample(name, fun, args=(), transforms=TWO, **more):
    return Sample(name, fun, list(args), transforms, **more)


SAMPLES = [
    # parameters
    *(sample(f"argsort_{dtype}", lambda n, x, dtype=dtype: n.jnp.argsort(x, dtype=dtype, descending=True), [A]) for dtype in ("int8", "float32")),
    *(sample(f"argsort_many_{dtype}", lambda n, dtype=dtype: n.jnp.argsort(np.arange(300) % 7, dtype=dtype, descending=True), (), ONE) for dtype in ("int8", "float16")),
    sample("argsort_bool", lambda n, x: n.jnp.argsort(x, dtype=bool), [A], ONE, error="TypeError"),
    *(sample(f"cov_{dtype}", lambda n, x, dtype=dtype: (n.jnp.cov(x, dtype=dtype), n.jnp.corrcoef(x, dtype=dtype)), [A], tol=4e-3 if dtype == "float16" else None)
      for dtype in ("float16", "complex64")),
    sample("cov_int32", lambda n, x: n.jnp.cov(x, dtype="int32"), [A], ONE, error="ValueError"),
    sample("keywords", lambda n: (n.jnp.fmax(x1=1.0, x2=2), n.jnp.fmin(x1=1.0, x2=2), n.jnp.gcd(x1=4, x2=6), n.jnp.lcm(x1=4, x2=6), n.jnp.trunc(x=1.5),
                                  n.lax.nextafter(x1=f32(1), x2=f32(2)), n.jnp.iinfo(int_type="int8").max, n.jnp.issubdtype(arg1="float32", arg2=np.floating)), (), ONE),
    sample("isinf_out", lambda n, x: (n.jnp.isneginf(x, out=None), n.jnp.isposinf(x, None), n.jnp.modf(x, out=None)), [A]),
    *(sample(f"{name}_out", lambda n, x, name=name: getattr(n.jnp, name)(x, out=x), [A], ONE, error="NotImplementedError") for name in ("isneginf", "modf")),
    sample("nanvar_mean", lambda n, x: (n.jnp.nanvar(x, axis=1, mean=f32([[2], [3]])), n.jnp.nanstd(x, mean=2.5, dtype="float16")), [N]),
    sample("nanvar_mean_of_ints", lambda n, x: n.jnp.nanvar(x, mean=2.5), [A.astype(np.int32)]),
    sample("ravel_multi_index", lambda n: (n.jnp.ravel_multi_index((1, 2), (2, 3), dtype="uint8"), n.jnp.ravel_multi_index((1, 2), (2, 3))), (), ONE),
    *(sample(f"ravel_multi_index_{dtype}", lambda n, dtype=dtype: n.jnp.ravel_multi_index((1, 2), (200, 3), dtype=dtype), (), ONE, error="ValueError")
      for dtype in ("int8", "float32")),
    sample("like_out_sharding", lambda n, x: [f(x, *v, out_sharding=None) for f, *v in ((n.jnp.zeros_like,), (n.jnp.ones_like,), (n.jnp.full_like, 3), (n.jnp.repeat, 2))], [A]),
    sample("like_both", lambda n, x: n.jnp.zeros_like(x, device=n.jax.devices()[0], out_sharding=n.jax.P()), [A], ONE, error="ValueError"),
    sample("dynamic_slice", lambda n, i: (n.lax.dynamic_slice(np.arange(10), (i,), (2,), allow_negative_indices=False),
                                          n.lax.dynamic_index_in_dim(np.arange(10), i, allow_negative_indices=False),
                                          n.lax.dynamic_update_index_in_dim(np.arange(10), 7, i, 0, allow_negative_indices=False)), [np.int32(4)]),
    sample("dynamic_slice_negative", lambda n: n.lax.dynamic_slice(np.arange(12).reshape(3, 4), (-1, -2), (1, 2), allow_negative_indices=(True, False)), (), ONE,
           error="ValueError"),
    sample("dynamic_index_negative", lambda n: n.lax.dynamic_index_in_dim(np.arange(10), -3, allow_negative_indices=False), (), ONE),
    sample("mul_out_dtype", lambda n, x: n.lax.mul(x, x, out_dtype=f32), [HALVES], ("eager", "jit", "grad", "jvp", "vmap"), tol=2e-3),
    sample("mul_mixed", lambda n: (n.lax.mul(np.int8([100]), np.uint8([3]), out_dtype="int32"), n.lax.mul(2.0, 3.0, out_dtype=f32)), (), ONE),
    sample("mul_bool", lambda n: n.lax.mul(np.bool_([1]), np.bool_([1]), out_dtype="int32"), (), ONE, error="TypeError"),
    sample("standardize", lambda n, x: n.nn.standardize(x, algorithm="stable"), [A + 1000], TWO, tol=1e-4),
    sample("standardize_unknown", lambda n, x: n.nn.standardize(x, algorithm="two"), [A], ONE, error="ValueError"),
    # values at the edges
    *(sample(f"nonzero_{name}", lambda n, x, v=v: (n.jnp.nonzero(x, size=7, fill_value=v), n.jnp.argwhere(True, size=4, fill_value=v)), [A], TWO)
      for name, v in (("float", 1.5), ("float16", np.float16(1)), ("int", 2))),
    sample("nonzero_nothing", lambda n, x: (n.jnp.nonzero(x * 0, fill_value=1.5), n.jnp.nonzero(x[:0], fill_value=1.5), n.jnp.nonzero(x, fill_value=(1, 2.5))), [A], ONE),
    sample("nonzero_vector", lambda n, x: n.jnp.nonzero(x, fill_value=np.ones(2)), [A], ONE, error="ValueError"),
    *(sample(f"array_equal_{i}", lambda n, v=v: n.jnp.array_equal(v, A), (), ONE, error=e) for i, (v, e) in enumerate(((None, "ValueError"), ("a", "TypeError")))),
    sample("bincount_bools", lambda n, x: n.jnp.bincount(x, length=3), [np.array([True, False, True])]),
    sample("cumsum_bool", lambda n, x: (n.jnp.cumsum(x, dtype=bool), n.jnp.cumprod(x, dtype="bool")), [f32([0.5, 0.2, 0])]),
    sample("diagonal_beyond", lambda n, x: (n.jnp.diag(x[:0], k=-1), n.jnp.diagonal(x, 5), n.jnp.trace(x, -5), n.jnp.diagonal(n.jnp.ones((2, 0, 3)), 4, 0, 2)), [A]),
    sample("ediff1d_empty", lambda n, x: (n.jnp.ediff1d(x), n.jnp.ediff1d(x, to_end=1.0, to_begin=f32([1, 2]))), [f32([])]),
    sample("diff_weak", lambda n, x: [n.jnp.diff(x, prepend=v) for v in (1.0, 1, 1j, np.float16(1))], [np.int8([1, 5, 3])]),
    sample("linspace_few", lambda n, x: [n.jnp.linspace(x, 5, num, retstep=True, axis=-1) for num in (0, 1)], [f32([0, 1])]),
    sample("geomspace_axis", lambda n, x: (n.jnp.geomspace(x, 8, 4, axis=-1), n.jnp.geomspace(-x, -8, 3, axis=1), n.jnp.geomspace(x, 8, 0, axis=-1)), [A + 1]),
    sample("isin", lambda n, x: (n.jnp.isin(x, 1j), n.jnp.isin(3, 3.0, method="sort")), [np.array([1, 2])]),
    sample("isin_weak", lambda n: [n.jnp.isin(3, 3.0, method=m, invert=True) for m in ("auto", "compare_all", "binary_search", "sort")], ()),
    sample("isin_nothing", lambda n, x: (n.jnp.isin(x, x[:0], method="none"), n.jnp.isin(x[:0], x, invert=True, method="none")), [np.array([1, 2])]),
    sample("isin_unknown", lambda n, x: n.jnp.isin(x, x, method="none"), [np.array([1, 2])], ONE, error="ValueError"),
    *(sample(f"insert_{i}", lambda n, x, at=at: n.jnp.insert(x, at, 5), [A], ONE, error="ValueError") for i, at in enumerate((1.0, np.array([True, False])))),
    sample("insert_empty", lambda n, x: n.jnp.insert(x, np.array([]), 5), [A], ONE),
    sample("insert_empty_array", lambda n, x: n.jnp.insert(x, n.jnp.array([]), 5), [A], ONE, error="ValueError"),
    sample("kaiser", lambda n, x: (n.jnp.kaiser(3, x), n.jnp.kaiser(4, x[:1]), n.jnp.kaiser(1, x)), [f32([1, 2, 3])]),
    sample("kaiser_complex", lambda n: n.jnp.kaiser(3, 2j), (), ONE, error="ValueError"),
    sample("extract_beyond", lambda n, x: n.jnp.extract(x, x[:2]), [np.array([True, False, True])], ONE, error="ValueError"),
    sample("extract_size", lambda n, x: n.jnp.extract(x, x[:2], size=3), [np.array([True, False, True])], ONE, error="ValueError"),
    sample("choose", lambda n: (n.jnp.choose(np.array([0, 1]), [1, 2.0]), n.jnp.choose(np.zeros(0, int), [1, 2])), (), ONE),
    sample("can_cast_none", lambda n: n.jnp.can_cast(None, "float16"), (), ONE, error="TypeError"),
    sample("nextafter_weak", lambda n: n.jnp.nextafter(1.0, 2.0), ()),
    # found by calls drawn at random
    sample("full_like_scalars", lambda n, x: [n.jnp.full_like(a, v) for a in (x, 3, n.jnp.full(2, 1.5)) for v in (np.int32(2), np.array(2, np.int32), 2)], [np.int32(3)], ONE),
    sample("windows_of_floats", lambda n: [f(v) for f in (n.jnp.blackman, n.jnp.hamming, n.jnp.hanning, n.jnp.bartlett) for v in (-0.5, 1.0, f32(5.5))], (), ONE),
    sample("std_of_ints", lambda n, x: n.jnp.std(x, dtype="int32"), [A], ONE, error="ValueError"),
    sample("sum_bools_narrow", lambda n: (n.jnp.sum(np.array([True, True]), promote_integers=False), n.jnp.prod(np.array([True]), promote_integers=False)), (), ONE),
    sample("unwrap_nothing", lambda n, x: n.jnp.unwrap(x), [f32([])]),
    sample("ix_nothing", lambda n, x: n.jnp.ix_(x, np.array([1, 2])), [np.zeros(0, np.complex64)], ONE),
    sample("diagflat_weak", lambda n: (n.jnp.diagflat(2), n.jnp.diagflat(0.5)), (), ONE),
    sample("rfftfreq_of_ints", lambda n: (n.jnp.fft.rfftfreq(4, dtype="int32"), n.jnp.fft.rfftfreq(5, 2.0, dtype="int8")), (), ONE),
    sample("fftfreq_of_arrays", lambda n, x: n.jnp.fft.fftfreq(3, x), [A[:, :1]], ONE),
    sample("rfftfreq_complex", lambda n: n.jnp.fft.rfftfreq(4, 1j), (), ONE, error="TypeError"),
    sample("broadcast_to_lower_rank", lambda n, x: n.lax.broadcast_to_rank(n.jnp.asarray(x), 1), [A]),
]
