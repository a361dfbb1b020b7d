"""Samples of `numpy`: functions made into ufuncs, fitted polynomials, small dtypes."""

from __future__ import annotations

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import ALL, Sample

LAWS = False        # compared with the reference alone
A = np.float32([[1, 3, 2], [5, 4, 0]])
V = np.float32([1, 3, 2, 5, 4])
X = np.arange(1, 6, dtype=np.float32)


def make(n, identity=None):
    return n.jnp.frompyfunc(lambda a, b: a * b + a, 2, 1, identity=identity)


def on(method, *args, identity=None, **kwargs):
    return lambda n, *xs: getattr(make(n, identity), method)(*xs, *args, **kwargs)


def unary(method, *args, **kwargs):
    return lambda n, x: getattr(n.jnp.frompyfunc(lambda a: a * 2, 1, 1), method)(x, *args, **kwargs)


def fit(deg=2, **kwargs):
    return lambda n, x, y: n.jnp.polyfit(x, y, deg, **kwargs)


SAMPLES = [
    Sample("ufunc", on("__call__"), [A, V[:3]], ALL),
    Sample("ufunc_mixed", on("__call__"), [np.arange(3), 1.5], ("eager", "jit")),
    Sample("ufunc_unary", unary("__call__"), [A], ALL),
    Sample("ufunc_repr", lambda n: [repr(make(n)).split(" ")[0], make(n).nin, make(n).nout, make(n).nargs, make(n, 0).identity], [], ("eager",)),
    Sample("ufunc_two", lambda n, x: n.jnp.frompyfunc(lambda a, b: (a + b, a - b), 2, 2)(x, x), [V], ALL),
    Sample("ufunc_outer", on("outer"), [A, V], ALL),
    *(Sample(f"ufunc_reduce_{i}", on("reduce", **kw), [A], ALL) for i, kw in enumerate((
        {}, {"axis": 1}, {"axis": -1, "keepdims": True}, {"axis": None}, {"axis": None, "keepdims": True}, {"initial": 2.0},
        {"identity": 1.0}, {"where": A > 1, "identity": 1, "axis": 1}, {"where": A > 1, "initial": 3}))),
    Sample("ufunc_reduce_int", on("reduce", initial=1), [np.arange(4)], ("eager", "jit")),
    Sample("ufunc_reduce_dtype", on("reduce", dtype=np.int32), [V], ("eager", "jit")),
    Sample("ufunc_reduce_empty", on("reduce", identity=7.0), [V[:0]], ("eager", "jit")),
    *(Sample(f"ufunc_accumulate_{axis}", on("accumulate", axis=axis), [A], ALL) for axis in (0, 1, -1)),
    Sample("ufunc_at", lambda n, x: make(n).at(x, np.array([0, 0, 2, -1]), 2.0, inplace=False), [V], ALL),
    Sample("ufunc_at_many", lambda n, x: make(n).at(x, (np.array([0, 1, 0]), np.array([0, 0, 0])), np.float32([2, 3, 4]), inplace=False), [A], ALL),
    Sample("ufunc_at_unary", unary("at", np.array([1, 1, 2]), inplace=False), [V], ALL),
    Sample("ufunc_reduceat", on("reduceat", np.array([0, 2, 4])), [V], ALL),
    Sample("ufunc_reduceat_back", on("reduceat", np.array([3, 1, 1, 4])), [V], ALL),
    Sample("ufunc_reduceat_axis", on("reduceat", np.array([0, 2]), axis=1), [A], ALL),
    *(Sample(f"ufunc_wrong_{i}", f, [V], error=error) for i, (f, error) in enumerate((
        (on("reduce", axis=3), "ValueError"), (on("reduce", where=V > 2), "ValueError"), (on("at", 0, 1.0), "NotImplementedError"),
        (on("accumulate", axis=None), "ValueError"), (unary("reduce"), "ValueError"), (unary("outer", 1.0), "ValueError"),
        (unary("accumulate"), "ValueError"), (unary("reduceat", np.array([0])), "ValueError"), (on("__call__"), "TypeError"),
        (on("__call__", 1.0, out=V), "NotImplementedError"), (on("reduceat", np.array([0.0])), "ValueError"), (on("reduceat", 0), "ValueError"),
        (lambda n, x: make(n).reduce(x[:0]), "ValueError"), (lambda n, x: n.jnp.frompyfunc(abs, "1", 1), "TypeError")))),
    *(Sample(f"polyfit_{i}", fit(**kw), [X, V], ("eager", "jit", "jvp"), tol=2e-4) for i, kw in enumerate((
        {}, {"deg": 0}, {"full": True, "deg": 1}, {"cov": True}, {"cov": "unscaled"}, {"rcond": 1e-3}, {"w": np.float32([1, 2, 3, 4, 5])}))),
    Sample("polyfit_columns", fit(1), [X, floats(5, 3)], ("eager", "jit"), tol=2e-4),
    Sample("polyfit_columns_cov", fit(1, cov=True), [X, floats(5, 3)], ("eager", "jit"), tol=2e-4),
    *(Sample(f"polyfit_wrong_{i}", fit(**kw), [x, y], error=error) for i, (x, y, kw, error) in enumerate((
        (X, V, {"deg": -1}, "ValueError"), (X[:0], V[:0], {}, "TypeError"), (X[None], V, {}, "TypeError"), (X, V[:3], {}, "TypeError"),
        (X, np.ones((5, 1, 1)), {}, "TypeError"), (X, V, {"w": np.ones((5, 1))}, "TypeError"), (X, V, {"w": np.ones(3)}, "TypeError"),
        (X, V, {"deg": 7, "cov": True}, "ValueError")))),
    *(Sample(f"dtype_{d}", lambda n, d=d: [str(n.jnp.dtype(getattr(n.jnp, d))), getattr(n.jnp, d) == n.jnp.dtype(d)], [], ("eager",))
      for d in ("int1", "uint1", "float6_e2m3fn", "float6_e3m2fn")),
    Sample("dtype_promotion", lambda n: n.jnp.promote_types("int1", "int8"), [], error="TypePromotionError"),
]

SAMPLES += [
    Sample(f"refused_{i}", f, [V], error=error) for i, (f, error) in enumerate((
        (lambda n, x: n.jnp.asarray(x).astype(n.jnp.asarray(x)), "ValueError"), (lambda n, x: n.jnp.zeros(3, np.ones(3)), "TypeError"),
        (lambda n, x: n.lax.iota(n.jnp.asarray(x), 3), "ValueError"), (lambda n, x: n.lax.iota(None, 3), "ValueError"),
        (lambda n, x: n.jnp.hamming(-1), "TypeError"), (lambda n, x: n.jnp.kaiser(-1, 2.0), "TypeError"),
        (lambda n, x: n.jnp.delete(x, 1.0), "ValueError"), (lambda n, x: n.jnp.cumprod(1, axis=10**12), "ValueError"),
        (lambda n, x: n.jnp.cumsum(1, axis=1), "ValueError"), (lambda n, x: n.jnp.roll(x, "text"), "TypeError"),
        (lambda n, x: n.jnp.quantile(x, np.full((2, 2), 0.5)), "ValueError"), (lambda n, x: n.lax.sort(x, num_keys=2), "ValueError"),
        (lambda n, x: n.lax.reduce_prod(x, (-1,)), "ValueError"), (lambda n, x: n.lax.reduce_max(x, (-1,)), "ValueError"),
        (lambda n, x: n.lax.mul(x, 10**12), "OverflowError"), (lambda n, x: n.lax.polygamma(10**12, x), "OverflowError"),
        (lambda n, x: n.lax.integer_pow(np.arange(3), -1), "TypeError"), (lambda n, x: n.lax.reciprocal(np.arange(3)), "TypeError"),
        (lambda n, x: n.lax.round(x, 3), "ValueError"), (lambda n, x: n.jnp.fabs(1j), "TypeError")))
]

I8 = np.int8([[1, 2, 3], [4, 5, 6]])
NAMED = ("add", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor",
         "logaddexp", "logaddexp2", "subtract")


def named(ufunc, method, *args, **kwargs):
    return lambda n, x: getattr(getattr(n.jnp, ufunc), method)(x, *args, **kwargs)


SAMPLES += [
    *(Sample(f"{ufunc}_{method}_{i}", named(ufunc, method, *args, **kwargs), [x], ("eager", "jit") if i == 2 and ufunc in ("add", "maximum") else ("eager",))
      for ufunc in NAMED for i, x in enumerate((I8, I8 > 2, *((A,) if "bitwise" not in ufunc else ())))
      for method, args, kwargs in (("reduce", (), {"axis": 1}), ("accumulate", (), {}), ("outer", (np.int8([1, 2]),), {}),
                                   ("at", ((0, np.array([1, 1])), np.int8(3)), {"inplace": False}))
      if not (ufunc == "subtract" and x.dtype == bool)),
    *(Sample(f"{ufunc}_reduce_all_{i}", named(ufunc, "reduce", **kwargs), [A], ("eager", "grad"))
      for ufunc in ("add", "multiply", "maximum", "logaddexp")
      for i, kwargs in enumerate(({"axis": None}, {"axis": (0, 1), "keepdims": True}, {"where": A > 1, "initial": 1.0}))
      if not (ufunc == "logaddexp" and "initial" in kwargs)),
    *(Sample(f"{ufunc}_is", lambda n, f=ufunc: [isinstance(getattr(n.jnp, f), n.jnp.ufunc), getattr(n.jnp, f).nin, getattr(n.jnp, f).nout,
                                                getattr(n.jnp, f).nargs, str(getattr(n.jnp, f).identity)], [], ("eager",)) for ufunc in NAMED),
    Sample("sin_is_none", lambda n: isinstance(n.jnp.sin, n.jnp.ufunc), [], ("eager",)),
    Sample("negative_at", lambda n, x: n.jnp.negative.at(x, np.array([0, 1]), inplace=False), [V], ("eager", "jit")),
    Sample("add_reduceat", lambda n, x: n.jnp.add.reduceat(x, np.array([0, 2, 1])), [V], ("eager", "jit")),
    *(Sample(f"dtype_of_{method}_{name}_{x.dtype}", lambda n, x, f=f, m=method: getattr(n.jnp.frompyfunc(f, 2, 1), m)(x), [x], ("eager",))
      for name, f in (("quotient", lambda a, b: a / b), ("comparison", lambda a, b: a > b)) for method in ("reduce", "accumulate")
      for x in (I8, A)),
    Sample("dtype_that_cannot_hold", lambda n, x: n.jnp.frompyfunc(lambda a, b: a / b, 2, 1).reduce(x, dtype="int32"), [I8], error="TypeError"),
    *(Sample(f"logaddexp2_complex_{i}", lambda n, x, y: n.jnp.logaddexp2(x, y), [np.complex64(x), np.complex64(y)], ("eager",))
      for i, (x, y) in enumerate(((1 + 2j, 3), ([1j, 2], [0.5, 1j])))),
]
