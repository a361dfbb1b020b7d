"""Samples of `numpy` on unusual arguments: directions, batches, weights, bins, edges of the number line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.numpy.samples_more import rows
from tests.reference.data import complexes, floats, ints
from tests.reference.sample import WHOLE

X, I, C, T = floats(3, 4), ints(3, 4), complexes(3, 4), floats(2, 3, 4)
UP, DOWN = np.float32([0, 1, 2, 3]), np.float32([3, 2, 1, 0])
POINTS = np.float32([-1, 0, 0.5, 1, 2, 3, 9, np.nan, np.inf, -np.inf])
SPOTTED = np.complex64([[2 + 1j, 2 - 1j, 1], [3, np.nan, 0]])

ORDER = rows(
    WHOLE, *((f"jnp.digitize(x, y, right={right})", POINTS, bins) for bins in (UP, DOWN, DOWN[:1], DOWN[:0]) for right in (False, True)),
    ("jnp.digitize(x, y)", np.int32([1, 2, 3, 1, 0, 4]), np.int32([4, 3, 1])), ("jnp.digitize(x, y)", np.uint8([1, 2, 3]), np.uint8([3, 2, 1])),
    ("jnp.digitize(x, y)", I, np.int32([2, 2, 1])), ("jnp.digitize(x, np.arange(2))", SPOTTED),
    ("jnp.searchsorted(jnp.sort(x.ravel()), x, side='right')", C), ("jnp.sort_complex(x)", SPOTTED), ("jnp.sort_complex(x)", T),
    ("jnp.sort_complex(x)", I), ("jnp.sort_complex(x)", X.astype(np.float16)), ("jnp.sort_complex(x > 0)", X),
    ("jnp.partition(x, 4)", np.int32([6, 8, 4, 3, 1, 9, 7, 5, 2, 3])), ("jnp.argpartition(x, -3)", np.int32([6, 8, 4, 3, 1, 9, 7, 5, 2, 3])),
    ("jnp.partition(x, 1, axis=0)", X), ("jnp.partition(x, 4)", POINTS))

ORDER += rows(("eager", "jit"), ("jnp.digitize(x, y, method='sort')", POINTS, UP))

PRODUCTS = rows(
    (*WHOLE, "grad"), ("jnp.vecmat(x[:1, :3], x.T[:3])", X), ("jnp.vecmat(x, np.ones((2, 3, 4, 5), np.float32))", X), ("jnp.vecmat(x[:, :1], np.ones((1, 3, 4, 5), np.float32))", T),
    ("jnp.matvec(x[:1], y)", T, X[:, :4]), ("jnp.matmul(x[:1], np.ones((4, 2), np.float32))", T), ("jnp.matmul(x, y[None, :, :])", X, X.T.copy()),
    ("jnp.matmul(x[None, :1], y)", T, T.transpose(0, 2, 1).copy()), ("jnp.matmul(x[:1, None], x[0, 0])", T))
PRODUCTS += rows(WHOLE, ("jnp.vecmat(x[:, 0], x)", C), ("jnp.vecmat(x[:, 0], y)", I, C), ("jnp.matvec(x, x[0])", C), ("jnp.vecmat(x[:, :0], np.ones((0, 5)))", X))

WEIGHTS, FRACTIONS, GAPS = floats(3, 4, low=0.1, high=2.0), np.float32([0, 0.1, 0.3, 0.5, 0.75, 1]), np.where(X > 1, np.nan, X)
BOUNDS = np.float32([-2, -1, 0, 2])

BINS = rows(
    ("eager", "jit"), *((f"jnp.{f}(x, y, axis=1, method='inverted_cdf')", a, FRACTIONS) for f in ("quantile", "nanquantile") for a in (X, I, GAPS)),
    *((f"jnp.{f}(x, y, axis=1, weights=z, method='inverted_cdf')", a, FRACTIONS, WEIGHTS) for f in ("quantile", "nanquantile") for a in (X, I, GAPS)),
    ("jnp.percentile(x, 30, weights=y, method='inverted_cdf', keepdims=True)", X, np.abs(I)), ("jnp.nanpercentile(x, 30, axis=0, weights=y, method='inverted_cdf')", X, WEIGHTS[:, 0]),
    ("jnp.quantile(x, y, axis=(2, 1), weights=z.T, method='inverted_cdf')", T, FRACTIONS, WEIGHTS), ("jnp.quantile(x, 0.5, weights=y, method='inverted_cdf')", X, -WEIGHTS),
    ("jnp.quantile(x, y, method='linear')", X.astype(np.float16), FRACTIONS), ("jnp.histogram(x, y, density=True)", X.astype(np.float16), BOUNDS),
    ("jnp.histogram(x, 3, weights=y)", X, I), ("jnp.histogram(x, 3, weights=y)", I, X.astype(np.float16)), ("jnp.histogram(x, y, weights=x > 0)", X, np.int32([-1, 0, 2])),
    ("jnp.histogram_bin_edges(x, y)", X.astype(np.float16), BOUNDS), ("jnp.histogram2d(x, y, 3)", I[0], I[1]), ("jnp.histogram2d(x, y, (np.arange(3), 2))", I[0], X[0]),
    ("jnp.histogram2d(x, y, np.array([3, 4]))", I[0], X[0]), ("jnp.histogram2d(x, y, z, density=True)", I[0], X[0], BOUNDS),
    ("jnp.histogram2d(x, y, 5, range=np.array([[0, 3], [-1, 4]]), weights=z)", X[0], X[1], np.arange(4)), ("jnp.histogramdd(x, 2, range=[(-1, 1), None], density=True)", T[0, :, :2]),
    tol=(1e-5, 1e-5))

NUMBERS = np.float32([0, -0.0, 1, -2.5, 1e-41, 1e-30, 3e38, np.nan, np.inf, -np.inf])

EDGES = rows(
    ("eager", "jit"), ("jnp.spacing(x)", NUMBERS), ("jnp.spacing(x)", I), ("jnp.isposinf(2.0), jnp.isneginf(2.0), jnp.signbit(2), jnp.angle(2.0)",),
    ("jnp.log2(3.0), jnp.log10(3), jnp.rint(3), jnp.rint(2.5), jnp.nan_to_num(2.5), jnp.heaviside(x, 0.5)", 2.0), ("jnp.heaviside(x, 0.5)", I),
    ("jnp.isreal(2.0), jnp.iscomplex(2)",), ("jnp.log2(x), jnp.log10(x)", np.complex64([0, 1j, -2 + 1j, 3])), ("jnp.i0(x)", NUMBERS[:6]),
    ("jnp.polyadd(x[:1], x)", I), ("jnp.polysub(x[0, :1], x)", I), ("jnp.polyadd(x, x[0, :1])", X))
EDGES += rows(("eager", "jit", "vmap"), *(("jnp.roots(x, strip_zeros=False)", np.float32(p)) for p in ([0, 0, 1, 2], [1, -3, 2], [1, 2, 0, 0], [0, 0])), tol=(1e-5, 1e-5))
EDGES += rows(("eager",), *((f"jax.grad({'jax.grad(' * n}jnp.sinc{')' * n})(jnp.float32(0))",) for n in range(5)), tol=(1e-4, 1e-4))

B, E8 = np.array([True, False, True, False]), np.int8([1, 2, -3, 0])
PAIRS = rows(
    ("eager", "jit"), *((f"jnp.{f}(2.5, x), jnp.{f}(x, 2.5), jnp.{f}(2, 3)", E8) for f in (
        "hypot", "logaddexp", "logaddexp2", "heaviside", "nextafter", "logical_and", "logical_xor")),
    *((f"jnp.{f}(2, x), jnp.{f}(x, 2), jnp.{f}(6, 4)", a) for f in ("gcd", "lcm", "ldexp") for a in (E8,)),
    ("jnp.gcd(4, x), jnp.power(2, x), jnp.left_shift(x, x), jnp.ldexp(1.5, x)", B), ("jax.nn.softplus(x), jax.nn.softplus(2)", E8),
    ("jnp.logaddexp(1j, x), jnp.logaddexp(1j, 2)", E8), tol=(1e-5, 1e-5))
MATRIX = np.float32([[1, 2, 0.5], [2, -1, 4], [0.3, 0.2, 1]])
POLYNOMIALS = rows(
    ("eager", "jit"), ("jnp.polyder(x[:, :2])", MATRIX), ("jnp.polyder(x, 2)", MATRIX), ("jnp.poly(x)", MATRIX), ("jnp.poly(x[0, :0])", MATRIX),
    ("jnp.polyint(x[0], 2, y)", MATRIX, np.float32([3, 4])), ("jnp.polyint(x[0], 2, k=2j)", MATRIX), ("jnp.polyint(x[0], 3, k=np.ones((1, 3)))", MATRIX),
    ("jnp.polyval(x, y)", T, UP), tol=(1e-4, 1e-4))
POLYNOMIALS += rows(("eager",), ("jnp.polydiv(x[:4], x[:1])", np.int32([3, 0, 2, -1])), ("jnp.roots(x)", np.float32([1, -3, 2, 0, 0])),
                    ("jnp.trim_zeros(x), jnp.trim_zeros(3)", np.float32([[0, 0, 0], [0, 1, 2]])), tol=(1e-5, 1e-5))
POLYNOMIALS += rows(("grad",), ("jnp.polyint(x[0], 2, x[1, :2])", MATRIX))
PLACES = rows(
    ("eager", "jit"), ("jnp.unravel_index(0, 6), jnp.unravel_index(x, (2, 3))", np.uint8([1, 2])), ("jnp.pad(1, 1), jnp.pad(2.5, 0)",),
    ("jnp.linalg.diagonal(x, offset=9), jnp.diagonal(x, -9), jnp.trace(x, 5)", T), ("jnp.nonzero(x, size=20, fill_value=(-0.5, 7))", X),
    ("jnp.var(x, dtype='complex64'), jnp.nanvar(x, dtype='complex64')", I))
PLACES += rows(("eager",), ("jnp.nonzero(x, fill_value=(-0.5, 1))", X))

ERRORS = [sample for error, *row in (
    ("ValueError", "jnp.digitize(x, x, method='nope')", UP), ("ValueError", "jnp.vecmat(x[0], x)", X), ("ValueError", "jnp.vecmat(x, x)", UP),
    ("ValueError", "jnp.matvec(x, x[:2, 0])", X), ("ValueError", "jnp.matvec(x, x)", UP), ("TypeError", "jnp.tensordot(x, x, ((0, 0), (0, 0)))", X),
    ("NotImplementedError", "jnp.quantile(x, 0.5, weights=x)", X), ("ValueError", "jnp.quantile(x, 0.5, weights=x[0], method='inverted_cdf')", X),
    ("TypeError", "jnp.histogram(x, [0, 1])", X), ("ValueError", "jnp.histogram(x, weights=x[0])", X), ("ValueError", "jnp.histogramdd(x, [2, 3])", X),
    ("ValueError", "jnp.histogramdd(x, weights=x)", X), ("ValueError", "jnp.histogram(x[:0])", X), ("ValueError", "jnp.histogram(x, 4, 5)", X),
    ("ValueError", "jnp.isposinf(x)", C), ("ValueError", "jnp.spacing(x)", C), ("ValueError", "jnp.i0(x)", C),
    ("ValueError", "jnp.hypot(x, x)", C), ("TypeError", "jnp.polyder(x)", 3), ("ValueError", "jnp.polyder(x)", MATRIX), ("ValueError", "jnp.poly(x)", MATRIX[:2]),
    ("ValueError", "jnp.std(x, ddof=3, correction=3)", X), ("ValueError", "jnp.nanvar(x, dtype='float32')", C), ("TypeError", "jnp.permute_dims(x, None)", X),
    ("TypeError", "jnp.vecdot(x, x, preferred_element_type='float16')", I), ("TypeError", "jnp.triu_indices(-1)"), ("ValueError", "jnp.linalg.multi_dot([])"),
    ("TypeError", "jnp.polymul([1, 2], x)", UP), ("TypeError", "jnp.trim_zeros([0, 1])"))
    for sample in rows(("eager", "jit"), row, error=error)]

SAMPLES = []
for _kind, _rows in (("order", ORDER), ("product", PRODUCTS), ("bin", BINS), ("edge", EDGES), ("pair", PAIRS), ("polynomial", POLYNOMIALS),
                     ("place", PLACES), ("error", ERRORS)):
    for _i, _sample in enumerate(_rows):
        SAMPLES.append(replace(_sample, name=f"{_kind} {_i}: {_sample.name}"))
