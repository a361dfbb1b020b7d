"""More samples of `numpy`: the everyday names that a transformer does not need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.numpy.samples import call
from tests.reference.data import BF16, EDGES, bools, complexes, floats, ints
from tests.reference.sample import VALUE, WHOLE, Sample

X, Y, V, W, I, P = floats(3, 4), floats(3, 4), floats(4), floats(5), ints(3, 4), floats(3, 4, low=0.3)
J, B, C, NAN = ints(3, 4, low=1), bools(3, 4), complexes(3, 4), np.float32([[1, np.nan, 3], [4, 5, np.nan]])
SORTED = np.float32([0.5, 1, 2, 3.5])


def do(text):
    """A function of `x, y, z` given as the text of its body."""
    code = compile(text, text, "eval")

    def fun(n, *args):
        return eval(code, {"np": np, "jnp": n.jnp, "jax": n.jax, "lax": n.lax, **dict(zip("xyz", args))})
    return fun


def together(name, texts, *args, transforms=("eager", "jit"), **options):
    """One sample of several expressions of the same arguments."""
    return Sample(name, do(f"({', '.join(texts)})"), list(args), transforms, **options)


def rows(transforms, *items, **options):
    """A sample per (text, arguments)."""
    return [Sample(text, do(text), list(args), transforms, **options) for text, *args in items]


ELEMENTWISE = [
    *(Sample(name, call(name), [X]) for name in ("cos", "tan", "sinh", "cosh", "arctan", "arcsinh", "exp2", "expm1", "cbrt", "fabs",
                                                 "deg2rad", "rad2deg", "positive", "sinc")),
    *(Sample(name, call(name), [floats(3, low=-0.9, high=0.9)]) for name in ("arcsin", "arccos", "arctanh", "log10")
      if name != "log10"),
    Sample("arccosh", call("arccosh"), [floats(3, low=1.5, high=3)]), Sample("log10", call("log10"), [P]),
    *(Sample(name, call(name), [X, Y]) for name in ("arctan2", "hypot", "logaddexp2", "fmax", "fmin", "copysign", "fmod",
                                                    "remainder", "heaviside")),
    *(Sample(f"{name}_int", call(name), [I, J], WHOLE) for name in (
        "gcd", "lcm", "fmod", "left_shift", "right_shift", "bitwise_or", "bitwise_xor", "divide", "float_power", "hypot",
        "logical_and", "logical_or", "logical_xor", "divmod", "maximum", "greater", "greater_equal", "less_equal", "not_equal")),
    *(Sample(f"{name}_edges", call(name), [EDGES], WHOLE) for name in (
        "signbit", "floor", "ceil", "trunc", "rint", "isposinf", "isneginf", "modf", "reciprocal", "logical_not", "frexp")),
    *(Sample(f"{name}_bool", call(name), [B], WHOLE) for name in ("abs", "floor", "square", "sin", "bitwise_not", "isnan", "signbit")),
    *(Sample(f"{name}_complex", call(name), [C], WHOLE) for name in (
        "abs", "real", "imag", "conj", "angle", "isnan", "isfinite", "square", "exp", "sign", "isreal", "iscomplex")),
    *(Sample(f"{name}_int_one", call(name), [I], WHOLE) for name in (
        "bitwise_count", "floor", "isinf", "isfinite", "real", "imag", "conj", "negative", "exp", "round", "bitwise_not", "cbrt")),
    *rows(WHOLE, ("jnp.nextafter(x, y)", X, Y), ("jnp.spacing(x)", X), ("jnp.ldexp(x, y)", X, I), ("jnp.round(x, 2)", X),
          ("jnp.round(x, 1)", floats(4, dtype=BF16)), ("jnp.nan_to_num(x, nan=7.0, posinf=1.0)", EDGES),
          ("jnp.less(x, y)", C, complexes(3, 4)), ("jnp.power(x, y)", J, np.abs(I)), ("jnp.power(x, 3)", I), ("x ** 2", B),
          ("jnp.power(x, y)", P, J), ("jnp.power(2, x)", np.abs(I)), ("jnp.power(x, 0)", X), ("jnp.power(x, 1)", X),
          ("jnp.clip(x, 0.5)", I), ("jnp.clip(x, max=1)", I), ("jnp.select([x > 1, x > 0], [x, 2 * x], 0.0)", X),
          ("jnp.select([x > 1, x > 0], [x, 2 * x])", I), ("jnp.piecewise(x, [x < 0, x > 1], [lambda v: -v, 7.0, 3.0])", X),
          ("jnp.array_equal(x, x)", X), ("jnp.array_equal(x, x, equal_nan=True)", NAN), ("jnp.array_equiv(x, x[:1])", X),
          ("jnp.allclose(x, x + 1e-7)", X), ("jnp.isclose(x, x, equal_nan=True)", NAN), ("jnp.i0(x)", X), ("jnp.angle(x)", X),
          ("jnp.where(x, x, 0)", I), ("jnp.choose(x, [x, x + 1, 2 * x, x], mode='clip')", I), ("jnp.divmod(x, y)", X, Y),
          ("jnp.floor_divide(x, y)", np.abs(I).astype(np.uint8), J.astype(np.uint8)), ("jnp.angle(x, deg=True)", C),
          ("jnp.add(x, np.float64(2))", I), ("jnp.add(x, np.arange(4))", X), ("x + True", I), ("jnp.multiply(x, x)", B),
          ("jnp.add(x, x)", B), ("jnp.logaddexp(x, y)", C, C)),
    *rows(VALUE, ("jnp.logaddexp(x, y)", np.float32([np.inf, -np.inf, 0, np.nan]), np.float32([np.inf, -np.inf, -np.inf, 1])),
          ("jnp.floor_divide(1, 0)",), ("jnp.mod(5, -3)",), ("jnp.power(2.0, 2)",), ("jnp.power(True, 2)",),
          ("jnp.reciprocal(2)",), ("jnp.where(True, 1, 2.0)",), ("jnp.clip(3, 1, 2)",), ("jnp.add(1, 2)",), ("jnp.add(1, 2.5)",),
          ("jnp.maximum(True, 2)",), ("jnp.exp(1)",), ("jnp.square(True)",), ("jnp.sqrt(2)",), ("jnp.sign(-2)",),
          ("jnp.round(2.5)",), ("jnp.floor(2.5)",), ("jnp.hypot(3, 4)",), ("jnp.logical_not(0)",)),
]

REDUCTIONS = [
    *rows(WHOLE, ("jnp.max(x, axis=0, initial=3 + 1j, where=x.imag == 0)", C), ("jnp.min(x, initial=0)", C), ("jnp.max(x, keepdims=True)", C)),
    *(Sample(name, call(name, axis=1), [NAN], WHOLE) for name in (
        "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanargmax", "nanargmin", "nanmedian", "nancumsum",
        "nancumprod")),
    *(Sample(f"{name}_all", call(name), [X], WHOLE) for name in ("argmax", "argmin", "ptp", "median", "any", "all", "cumsum",
                                                                "count_nonzero")),
    *(Sample(f"{name}_small", call(name), [ints(6).astype(np.int8)], WHOLE) for name in ("sum", "prod", "cumsum", "mean", "max",
                                                                                       "std")),
    *(Sample(f"{name}_complex", call(name, axis=0), [C], WHOLE) for name in ("sum", "mean", "var", "std", "max", "min", "prod")),
    *rows(WHOLE, ("jnp.max(x, axis=1, initial=0, where=x > 0, keepdims=True)", X), ("jnp.sum(x, initial=2, where=x > 0)", X),
          ("jnp.mean(x, where=x > 0)", X), ("jnp.var(x, where=x > 0, axis=1)", X), ("jnp.std(x, ddof=1, axis=0)", X),
          ("jnp.var(x, correction=1)", X), ("jnp.mean(x, dtype=jnp.int32)", I), ("jnp.sum(x, dtype=bool)", I),
          ("jnp.sum(x, promote_integers=False)", I.astype(np.int8)), ("jnp.argmax(x, axis=1, keepdims=True)", X),
          ("jnp.argmax(x, keepdims=True)", X), ("jnp.all(x, axis=(0, 1), keepdims=True)", B), ("jnp.any(x, where=x)", B),
          ("jnp.quantile(x, np.float32([0.1, 0.7]), axis=1)", X), ("jnp.percentile(x, 30)", X),
          ("jnp.quantile(x, 0.3, method='nearest', axis=0)", X), ("jnp.quantile(x, 0.3, method='lower', keepdims=True)", X),
          ("jnp.quantile(x, 0.3, method='higher')", X), ("jnp.quantile(x, 0.3, method='midpoint', axis=(0, 1))", X),
          ("jnp.nanquantile(x, 0.3, axis=1)", NAN), ("jnp.median(x)", NAN), ("jnp.median(x)", I),
          ("jnp.average(x, axis=0, returned=True)", X), ("jnp.average(x)", I), ("jnp.cumulative_sum(x, axis=1, include_initial=True)", X),
          ("jnp.cumulative_prod(x, axis=0)", X), ("jnp.diff(x)", X), ("jnp.diff(x, 2, axis=0)", X), ("jnp.diff(x, prepend=0)", I),
          ("jnp.diff(x)", B), ("jnp.ediff1d(x, to_end=1, to_begin=2)", I), ("jnp.gradient(x)", X),
          ("jnp.gradient(x, 2.0, axis=1)", X), ("jnp.gradient(x, jnp.arange(4.0) ** 2)", V), ("jnp.trapezoid(x)", X),
          ("jnp.trapezoid(x, y)", V, SORTED), ("jnp.trapezoid(x, dx=0.5, axis=0)", X), ("jnp.unwrap(x * 5)", X),
          ("jnp.interp(x, y, y * 2)", V, SORTED), ("jnp.interp(x, y, y, left=-1, right=9)", V, SORTED),
          ("jnp.interp(x, y, y, period=3.0)", V, SORTED), ("jnp.cov(x)", X), ("jnp.cov(x, rowvar=False, bias=True)", X),
          ("jnp.cov(x, y)", V, V[::-1]), ("jnp.cov(x, fweights=np.array([1, 2, 1, 3]))", X),
          ("jnp.cov(x, aweights=np.float32([1, 2, 1, 3]))", X), tol=(1e-4, 1e-5)),
    *rows(VALUE, ("jnp.corrcoef(x)", X), ("jnp.histogram(x, 4)", W), ("jnp.histogram(x, 4, density=True)", W),
          ("jnp.histogram(x, x)", SORTED), ("jnp.histogram(x, 3, (-1, 1), weights=x)", V), ("jnp.histogram2d(x, x + 1, 3)", V),
          ("jnp.histogramdd(x, 2)", X), ("jnp.histogram_bin_edges(x, 3)", V), tol=(1e-4, 1e-5)),
]

SHAPES = [
    *rows(("eager", "jit", "vmap", "grad"), ("jnp.ravel(x, 'F')", X), ("jnp.reshape(x, (2, 6), order='F')", X), ("jnp.resize(x, (5, 3))", X),
          ("jnp.rot90(x)", X), ("jnp.rot90(x, 2)", X), ("jnp.rot90(x, -1)", X), ("jnp.flipud(x)", X), ("jnp.fliplr(x)", X), ("jnp.flip(x)", X),
          ("jnp.roll(x, 2)", X), ("jnp.roll(x, (1, 2), (0, 1))", X), ("jnp.roll(x, -1, axis=0)", X), ("jnp.rollaxis(x, 1)", X),
          ("jnp.atleast_2d(x)", V), ("jnp.atleast_3d(x)", X), ("jnp.atleast_1d(x, 2.0)", X), ("jnp.dstack([x, x])", X),
          ("jnp.column_stack([x, x])", V), ("jnp.block([[x, x], [x, 2 * x]])", X), ("jnp.append(x, x)", X), ("jnp.append(x, x, 0)", X),
          ("jnp.unstack(x, axis=1)", X), ("jnp.array_split(x, 3, axis=1)", X), ("jnp.vsplit(x, 3)", X), ("jnp.hsplit(x, [1])", X),
          ("jnp.dsplit(x[None], 2)", X), ("jnp.delete(x, 1, axis=1)", X), ("jnp.delete(x, np.array([0, 2]))", X),
          ("jnp.insert(x, 1, 5.0, axis=1)", X), ("jnp.insert(x, np.array([1, 3]), np.float32([5, 6]))", V), ("jnp.insert(x, 1, x[0], axis=0)", X),
          ("jnp.pad(x, 1, mode='edge')", X), ("jnp.pad(x, 2, mode='reflect')", X), ("jnp.pad(x, (1, 3), mode='wrap')", X),
          ("jnp.pad(x, 2, mode='symmetric')", X), ("jnp.pad(x, ((1, 1), (0, 2)), constant_values=((1, 2), (3, 4)))", X),
          ("jnp.pad(x, 2, mode='linear_ramp', end_values=1.0)", X), ("jnp.pad(x, 1, mode='mean')", X),
          ("jnp.pad(x, 1, mode='maximum', stat_length=2)", V), ("jnp.pad(x, 2, mode='reflect', reflect_type='odd')", X),
          ("jnp.diagonal(x, 1)", X), ("jnp.diagonal(x, -1, 1, 2)", floats(2, 3, 3)), ("jnp.diag(x, 1)", X),
          ("jnp.diag(x, -1)", V), ("jnp.diagflat(x)", X), ("jnp.trace(x, 1)", X), ("jnp.tril(x, -1)", floats(2, 3, 3)),
          ("jnp.repeat(x, 2)", X), ("jnp.repeat(x, np.array([1, 0, 2]), axis=0)", X), ("jnp.tile(x, (2, 1, 3))", X), ("jnp.tile(x, 2)", X),
          ("jnp.squeeze(x[None], 0)", X), ("jnp.matrix_transpose(x)", X), ("jnp.moveaxis(x, (0, 1), (-1, 0))", floats(2, 3, 4)),
          ("jnp.broadcast_arrays(x, y)", X, V), ("jnp.vander(x)", V), ("jnp.meshgrid(x, y, indexing='ij', sparse=True)", V, W),
          ("jnp.fill_diagonal(x, 2.0, inplace=False)", X),
          ("jnp.apply_along_axis(jnp.cumsum, 1, x)", X), ("jnp.apply_over_axes(jnp.sum, x, (0,))", X), ("jnp.concat([x, x])", X),
          ("jnp.permute_dims(x, (1, 0))", X), ("jnp.concatenate([x, x], axis=None)", X), ("jnp.stack([x, y])", V, ints(4)),
          ("jnp.vectorize(lambda a, b: a @ b, signature='(n),(n)->()')(x, x[0])", X), ("jnp.vectorize(lambda a, b: a * b)(x, 2.0)", X)),
    *rows(WHOLE, ("jnp.repeat(x, y, axis=0, total_repeat_length=5)", X, np.int32([1, 3, 1])), ("jnp.roll(x, y, axis=0)", X, np.int32(2)),
          ("jnp.take(x, y)", X, np.int32([0, 11, 3])), ("jnp.packbits(x, axis=1)", B), ("jnp.unpackbits(x)", np.uint8([3, 200])),
          ("jnp.nonzero(x, size=5, fill_value=-1)", I), ("jnp.argwhere(x > 0, size=4)", X), ("jnp.flatnonzero(x, size=20, fill_value=7)", I),
          ("jnp.bincount(x, length=5)", np.int32([0, 3, 3, 1, 9])), ("jnp.unravel_index(x, (2, 3))", np.int32([1, 5, 7, -1])),
          ("jnp.digitize(x, y)", W, SORTED), ("jnp.digitize(x, y[::-1])", W, SORTED),
          ("jnp.searchsorted(y, x, side='right')", SORTED, SORTED), ("jnp.searchsorted(y, x)", EDGES, SORTED),
          ("jnp.argsort(x, axis=0)", X), ("jnp.argsort(x)", NAN), ("jnp.sort(x, descending=True)", X),
          ("jnp.argsort(x, descending=True)", np.int32([1, 2, 1, 2])), ("jnp.sort(x, axis=None)", NAN), ("jnp.lexsort((x, y))", I[0], I[1]),
          ("jnp.isin(x, y)", I, np.int32([1, 2])), ("jnp.isin(x, y, invert=True)", I, np.int32([1, 2])), ("jnp.put(x, np.array([0, 3]), 9.0, inplace=False)", X),
          ("jnp.ravel_multi_index((x, x), (3, 4), mode='wrap')", np.int32([1, 5])), ("jnp.place(x, x > 0, np.float32([7, 8]), inplace=False)", V)),
    # Under jit the reference refuses a known condition, which we read.
    *rows(("eager", "vmap", "grad"), ("jnp.compress(np.array([True, False, True]), x, axis=0)", X)),
    *rows(VALUE, ("jnp.unique(x, size=9, fill_value=-1)", I),
          ("jnp.unique(x, axis=0, size=3)", np.int32([[1, 2], [0, 1], [1, 2]])), ("jnp.unique(x, return_index=True, return_inverse=True, return_counts=True, size=4)", I[0]),
          ("jnp.digitize(x, y, right=True)", SORTED, SORTED), ("jnp.tril_indices(3)",), ("jnp.triu_indices(3, 1, 4)",), ("jnp.diag_indices(3)",), ("jnp.ix_(x, x)", np.int32([0, 1])),
          ("jnp.mgrid[0:2, 1:3:0.5]",), ("jnp.ogrid[0:2, 0:3]",), ("jnp.r_[1:3, 5]",), ("jnp.c_[x, x]", V)),
]

# The shape of the result is in the values: the reference and we give a value eagerly and the same error under `jit`.
CONCRETE = [("jnp.unique(x)", I), ("jnp.unique(x, True, True, True)", I), ("jnp.nonzero(x)", I), ("jnp.union1d(x, y)", I, J),
            ("jnp.setdiff1d(x, y)", I, J), ("jnp.intersect1d(x, y)", I, J), ("jnp.argwhere(x)", I), ("jnp.where(x > 0)", X),
            ("jnp.setxor1d(x, y)", I, J), ("jnp.mask_indices(3, jnp.triu)",), ("jnp.roots(x).shape", W)]
SIZED = [
    *rows(("eager",), *CONCRETE),
    *(replace(sample, name=f"{sample.name} traced") for sample in rows(("jit",), *CONCRETE, error="ConcretizationTypeError")),
]

# Python values, which `jit` would make arrays.
EAGER = rows(("eager",), ("jnp.empty_like(x).shape", X), ("jnp.result_type(jnp.int8, 2.0)",), ("jnp.iinfo(jnp.int8).max",), ("jnp.ndim(x)", X))

CREATION = rows(
    VALUE, ("jnp.arange(1, 2, 0.3)",), ("jnp.arange(5, 1)",), ("jnp.arange(3, dtype=float)",), ("jnp.linspace(0, 1, 5, dtype=int)",),
    ("jnp.linspace(0, 1, 5, retstep=True)",), ("jnp.linspace(x, x + 1, 3)", V), ("jnp.linspace(x, 2, 3, axis=1)", V), ("jnp.linspace(0, 1, 1)",),
    ("jnp.linspace(0, 1, 0)",), ("jnp.logspace(0, 2, 3)",), ("jnp.geomspace(1, 100, 3)",), ("jnp.geomspace(-1.0, -8.0, 4)",), ("jnp.eye(2, 3, -1)",),
    ("jnp.identity(2)",), ("jnp.tri(2, 3, 1)",), ("jnp.indices((2, 3))",), ("jnp.indices((2, 3), sparse=True)",), ("jnp.array(1, ndmin=2)",),
    ("jnp.array([x, 1.0, x])", np.float32(1)), ("jnp.array([[x, x], [x, x]])", V), ("jnp.array([jnp.asarray(1.5), 2])",), ("jnp.array(True)",),
    ("jnp.array(range(3))",), ("jnp.array([1.0], dtype=jnp.int32)",), ("jnp.full_like(x, 1.5)", I), ("jnp.full((2, 4), x)", V), ("jnp.zeros_like(2)",),
    ("jnp.ones_like(x, shape=(3,))", X), ("jnp.asarray(x, dtype=jnp.int32)", X), ("jnp.astype(x, bool)", X), ("jnp.astype(x, jnp.float16)", I),
    ("jnp.int32(1.7)",), ("jnp.bfloat16(2)",), ("jnp.complex64(1)",), ("jnp.float32([1, 2])",), ("jnp.bool_(2)",), ("jnp.fromfunction(lambda i, j: i + j, (2, 2))",),
    ("jnp.bartlett(5)",), ("jnp.hamming(5)",), ("jnp.kaiser(5, 2.0)",), ("jnp.copy(x)", X), ("jnp.array(x)", X),
    ("jnp.can_cast(int, float)",), ("jnp.isscalar(1.0)",),
    ("jnp.full((2,), x)", np.int32(3)), ("jnp.zeros((), bool)",), ("jnp.vander(x, 2, increasing=True)", ints(3)), ("jnp.hanning(4)",), ("jnp.blackman(4)",),
)

PRODUCTS = [
    *rows(("eager", "jit", "grad", "vmap"), ("jnp.kron(x, x)", X), ("jnp.vecdot(x, x)", X), ("jnp.matvec(x, x[0])", X), ("jnp.vecmat(x[:, 0], x)", X),
          ("jnp.cross(x, y)", floats(2, 3), floats(2, 3)), ("jnp.tensordot(x, x, axes=((0, 1), (0, 1)))", X), ("jnp.tensordot(x, y, 0)", X, V),
          ("jnp.dot(x, y)", floats(2, 3, 4), floats(5, 4, 2)), ("jnp.matmul(x, y)", floats(2, 4), floats(3, 4, 2)), ("jnp.matmul(x, y)", floats(2, 3, 4), floats(4)),
          ("jnp.matmul(x, y)", floats(5, 1, 2, 3), floats(4, 3, 2)), ("jnp.matmul(x, y)", floats(1, 2, 3), floats(5, 3, 2)), ("jnp.matmul(x, x)", floats(4)),
          ("jnp.einsum('ij,jk,kl->il', x, y, x)", X, floats(4, 3)), ("jnp.einsum('ij,kl->ik', x, x)", X), ("jnp.einsum('i,j->ji', x, x)", V),
          ("jnp.einsum('ii', x)", floats(3, 3)), ("jnp.einsum('iij->j', x)", floats(3, 3, 2)), ("jnp.einsum('...ij,...jk', x, y)", floats(2, 3, 4), floats(4, 2)),
          ("jnp.einsum(x, [0, 1], x, [0, 2], [1, 2])", X), ("jnp.einsum('ij,j', x, x[0])", X), ("jnp.einsum('ab,bc,cd,de,ef,fa->', x, x, x, x, x, x)", floats(3, 3)),
          ("jnp.einsum('ij,ij->ij', x, x[:1])", X), ("jnp.linalg.multi_dot([x, y, x])", X, floats(4, 3)), ("jnp.linalg.matrix_power(x, 3)", floats(3, 3)),
          ("jnp.convolve(x, y)", V, W), ("jnp.convolve(x, y, 'same')", V, W), ("jnp.convolve(x, y, 'valid')", W, V), ("jnp.correlate(x, y)", W, V),
          ("jnp.correlate(x, y, 'full')", V, W), ("jnp.correlate(x, y, 'same')", V, W), ("jnp.polyval(x, y)", V, X), ("jnp.polyadd(x, y)", V, W), ("jnp.polysub(x, y)", V, W),
          ("jnp.polymul(x, y)", V, W), ("jnp.polyder(x, 2)", W), ("jnp.polyint(x)", W), ("jnp.poly(x)", V), ("jnp.linalg.norm(x)", X), ("jnp.linalg.norm(x, ord=1, axis=1)", X),
          ("jnp.linalg.norm(x, ord=3, axis=0)", X), ("jnp.linalg.norm(x, axis=(0, 1), keepdims=True)", X), ("jnp.linalg.norm(x, 1)", X), ("jnp.linalg.norm(x, np.inf)", X),
          ("jnp.linalg.vector_norm(x, axis=0)", X), ("jnp.linalg.matrix_norm(x)", X), tol=(1e-4, 1e-5)),
    *rows(VALUE, ("jnp.einsum('ij,jk->ik', x, x.T)", I), ("jnp.einsum('ij,jk->ik', x, x.T)", B), ("jnp.matmul(x, x.T)", floats(3, 4, dtype=BF16)),
          ("jnp.matmul(x, x.T, preferred_element_type=jnp.float32)", floats(3, 4, dtype=BF16)), ("jnp.dot(x, x.T)", I), ("jnp.vecdot(x, x)", C), ("jnp.polydiv(x, x[:2])", W),
          ("jnp.dot(2, 3)",), ("jnp.linalg.norm(x, ord=0, axis=0)", I), ("jnp.inner(x, 2.0)", X), ("jnp.matmul(x, y)", B, X.T), tol=(1e-4, 1e-5)),
]

ERRORS = [
    Sample(f"{error}: {text}", do(text), list(args), error=error) for error, text, *args in [
        ("TypeError", "jnp.sin([1.0])"), ("ValueError", "jnp.max(jnp.zeros((0,)))"), ("NotImplementedError", "jnp.sum(x, out=x)", X),
        ("ValueError", "jnp.max(x, axis=(0, 0))", X), ("ValueError", "jnp.max(x, where=x > 0)", X), ("ValueError", "jnp.argmax(jnp.zeros((0,)))"),
        ("TypeError", "jnp.power(x, -1)", I), ("TypeError", "jnp.negative(x)", B), ("TypeError", "jnp.subtract(x, x)", B), ("NotImplementedError", "jnp.round(5, -1)"),
        ("ValueError", "jnp.concatenate([1, 2])"), ("TypeError", "jnp.concatenate([x, x[0]])", X), ("ValueError", "jnp.stack([])"), ("TypeError", "jnp.reshape(x, (-1, -1))", X),
        ("TypeError", "jnp.reshape(x, (5, -1))", X), ("ValueError", "jnp.split(x, [1, 9])", V), ("ValueError", "jnp.matmul(1, 2)"), ("TypeError", "jnp.matmul(x, x[0, :2])", X),
        ("ValueError", "jnp.array(None)"), ("OverflowError", "jnp.array(2 ** 40)"), ("OverflowError", "jnp.array([2 ** 40])"), ("ValueError", "jnp.array([[1, 2], [3]])"),
        ("TypeError", "jnp.zeros(-1)"), ("TypeError", "jnp.zeros(3.5)"), ("TypeError", "jnp.zeros_like([1, 2])"), ("TypeError", "jnp.full((2,), [1.0, 2.0])"), ("ValueError", "jnp.linspace(0, 1, -1)"),
        ("ValueError", "jnp.all(x, where=x)", X), ("ValueError", "jnp.sum(x, where=1)", X), ("ValueError", "jnp.max(x, initial=x[0])", X), ("TypeError", "jnp.from_dlpack(1.0)"),
        ("TypeError", "jnp.isclose(x, x, atol={})", X), ("ValueError", "jnp.stack(jnp.zeros((0, 2)))"),
        ("ZeroDivisionError", "jnp.arange(0, 3, 0)"), ("ValueError", "jnp.where(True)"), ("TypeError", "jnp.where(True, 1)"), ("ValueError", "jnp.tril(x)", V), ("ValueError", "jnp.diag(x[None])", X),
        ("AttributeError", "jnp.no_such_function"), ("ValueError", "jnp.searchsorted(x, 1.0, side='middle')", V), ("ValueError", "jnp.einsum('ij,jk->ii', x, x)", floats(3, 3)),
        ("TypeError", "jnp.tensordot(x, x, 5)", X), ("ValueError", "jnp.cross(x, x)", X), ("ValueError", "jnp.convolve(x, x)", X), ("ConcretizationTypeError", "jax.jit(jnp.nonzero)(x)", X),
        ("TypeError", "jnp.array('a')"), ("ValueError", "jnp.quantile(x, 0.5, method='other')", X), ("NotImplementedError", "jnp.pad(x, 1, mode='other')", X), ("NotImplementedError", "jnp.fill_diagonal(x, 1)", X), ("TypeError", "jnp.pad(x, {0: 1})", X)]
]

SAMPLES = []
for _kind, _rows in (("elementwise", ELEMENTWISE), ("reduction", REDUCTIONS), ("shape", SHAPES), ("creation", CREATION),
                     ("product", PRODUCTS), ("sized", SIZED), ("python", EAGER), ("error", ERRORS)):
    for _i, _sample in enumerate(_rows):
        SAMPLES.append(replace(_sample, name=f"{_kind} {_i}: {_sample.name}"))
