"""Samples of `scipy.stats`: every function of every distribution, within and outside of its support."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats, ints
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
X, Q, K = np.float32([-1.3, 0.2, 0.7, 2.5]), np.float32([0.05, 0.3, 0.5, 0.95]), np.int32([-1, 0, 2, 7])
UNIT = np.float32([-0.5, 0.1, 0.6, 1.5])
# Name: values, shape parameters, whether there is a place and a width, functions.
CONTINUOUS = {
    "norm": (X, (), True, "logpdf pdf cdf logcdf sf logsf ppf isf"), "uniform": (UNIT, (), True, "logpdf pdf cdf ppf"),
    "expon": (X, (), True, "logpdf pdf cdf logcdf sf logsf ppf"), "laplace": (X, (), True, "logpdf pdf cdf"),
    "logistic": (X, (), True, "logpdf pdf cdf sf ppf isf"), "cauchy": (X, (), True, "logpdf pdf cdf logcdf sf logsf ppf isf"),
    "gumbel_r": (X, (), True, "logpdf pdf cdf logcdf sf logsf ppf"), "gumbel_l": (X, (), True, "logpdf pdf cdf logcdf sf logsf ppf"),
    "gamma": (X, (1.7,), True, "logpdf pdf cdf logcdf sf logsf"), "chi2": (X, (2.6,), True, "logpdf pdf cdf logcdf sf logsf"),
    "beta": (UNIT, (1.6, 2.3), True, "logpdf pdf cdf logcdf sf logsf"),
    "pareto": (np.float32([0.5, 1.2, 2.0, 5.0]), (2.5,), True, "logpdf pdf cdf logcdf sf logsf ppf"), "t": (X, (3.5,), True, "logpdf pdf"),
    "truncnorm": (X, (-1.0, 2.0), True, "logpdf pdf cdf logcdf sf logsf"), "gennorm": (X, (1.5,), False, "logpdf pdf cdf"),
    "vonmises": (X, (1.5,), False, "logpdf pdf"), "wrapcauchy": (X, (0.4,), False, "logpdf pdf"),
}
DISCRETE = {"bernoulli": ((0.3,), "logpmf pmf cdf ppf"), "poisson": ((2.5,), "logpmf pmf cdf"), "geom": ((0.3,), "logpmf pmf"),
            "binom": ((6, 0.3), "logpmf pmf"), "nbinom": ((4.0, 0.3), "logpmf pmf"), "betabinom": ((6, 1.5, 2.5), "logpmf pmf")}


def stats(n):
    return import_module(f"{n.name}.scipy.stats")


def of(distribution, name, **options):
    return lambda n, *xs: getattr(import_module(f"{n.name}.scipy.stats.{distribution}"), name)(*xs, **options)


def ranks(method):
    return lambda n, x: stats(n).rankdata(x, method)


def each(distribution, names, shapes=(), values=(), **options):
    """Every named function, of every argument and of every further value."""
    return lambda n, *xs: [getattr(getattr(stats(n), distribution), name)(x, *shapes, **options) for name in names for x in (*xs, *values)]


WITHOUT_SCALE = {"cauchy": "pdf", "expon": "logcdf logpdf pdf", "gumbel_l": "cdf logcdf logsf pdf sf", "gumbel_r": "cdf logcdf logpdf logsf pdf sf",
                 "laplace": "pdf", "logistic": "pdf", "beta": "logpdf pdf", "chi2": "logpdf pdf", "gamma": "logpdf pdf", "pareto": "logpdf pdf"}
TYPES = [
    *(Sample(f"types of {d}", each(d, [f for f in names.split() if (d, f) not in (("norm", "ppf"), ("norm", "isf"), ("gumbel_r", "logsf"))], shapes, (2, 0.5)),
             [np.int32([0, 1]), np.bool_([0, 1])], ("eval_shape",))
      for d, shapes, names in [*((d, x[1], x[3]) for d, x in CONTINUOUS.items()), *((d, *x) for d, x in DISCRETE.items())]),
    *(Sample(f"{d} without a scale", each(d, names.split(), CONTINUOUS[d][1], scale=np.float32([-1, 1, np.nan])), [np.float32(0.4), np.float32(2.3)], ("eager",), tol=1e-5)
      for d, names in WITHOUT_SCALE.items()),
    Sample("poisson without a place", each("poisson", ("pmf", "logpmf"), (2.5,), loc=np.float32([0, np.nan])), [np.float32(1), np.float32(-3)], ("eager",)),
]
SAMPLES = [
    *TYPES,
    *(Sample(f"{d}_{f}", of(d, f, **({"loc": 0.1, "scale": 1.3} if placed else {})), [Q if f in ("ppf", "isf") else x, *map(np.float32, shapes)],
             ("eager", "jvp") if f in ("logpdf", "cdf") and (d, f) != ("beta", "cdf") else ("eager",), tol=2e-4)
      for d, (x, shapes, placed, names) in CONTINUOUS.items() for f in names.split()),
    *(Sample(f"{d}_{f}", of(d, f), [Q if f == "ppf" else K, *shapes], ("eager",), tol=2e-4)
      for d, (shapes, names) in DISCRETE.items() for f in names.split()),
    Sample("norm_slopes", lambda n, x, m, s: stats(n).norm.logpdf(x, m, s), [X, np.float32(0.3), np.float32(1.2)], ("grad",)),
    Sample("norm_of_ints", of("norm", "cdf"), [K], ("eager",)),
    Sample("beta_slopes", lambda n, x, a, b: stats(n).beta.logpdf(x, a, b), [np.float32([0.2, 0.7]), np.float32(1.3), np.float32(2.0)],
           ("grad",), tol=1e-3),
    Sample("multivariate_normal", of("multivariate_normal", "logpdf"),
           [floats(5, 3), floats(3), np.float32(np.eye(3) * 2 + 0.3)], ("eager", "jit", "grad"), tol=1e-3),
    Sample("multivariate_normal_pdf", of("multivariate_normal", "pdf"), [floats(3), floats(3), np.float32(np.eye(3))], ("eager",)),
    Sample("multivariate_normal_of_one", of("multivariate_normal", "logpdf"), [floats(4), 0.5, 2.0], ("eager",)),
    Sample("dirichlet", of("dirichlet", "logpdf"), [np.float32([0.2, 0.3, 0.5]), np.float32([1.5, 2, 3])], ("eager", "jit")),
    Sample("dirichlet_short", of("dirichlet", "pdf"), [np.float32([[0.2, 0.9], [0.3, 0.4]]), np.float32([1.5, 2, 3])], ("eager",)),
    Sample("multinomial", of("multinomial", "logpmf"), [np.int32([1, 2, 3]), 6, np.float32([0.2, 0.3, 0.5])], ("eager", "jit")),
    Sample("multinomial_wrong_total", of("multinomial", "pmf"), [np.int32([1, 2, 3]), 7, np.float32([0.2, 0.3, 0.5])], ("eager",)),
    *(Sample(f"rankdata_{m}", ranks(m), [np.float32([3, 1, 2, 1, 3, 3])], ("eager",)) for m in (
        "average", "min", "max", "dense", "ordinal")),
    Sample("rankdata_axis", lambda n, x: stats(n).rankdata(x, axis=1), [ints(3, 4)], ("eager",)),
    Sample("sem", lambda n, x: stats(n).sem(x), [floats(4, 3)], ("eager", "grad")), Sample("sem_all", lambda n, x: stats(n).sem(x, None), [floats(4, 3)], ("eager",)),
    Sample("rankdata_unknown", ranks("middle"), [floats(3)], error="ValueError"),
    Sample("wrong_covariance", of("multivariate_normal", "logpdf"), [floats(3), floats(3), floats(3)], error="ValueError"),
    # NaN is no value outside of the support, and what is no parameter gives NaN
    *(Sample(f"{d}_{f}_of_nan", of(d, f), [np.float32([np.nan, 1, 2]), *map(np.float32, shapes)], ("eager",), tol=2e-4)
      for d, (shapes, names) in [*DISCRETE.items(), ("chi2", ((2.6,), "logpdf pdf"))] for f in names.split() if f != "ppf" and d != "binom" and (d, f) != ("poisson", "cdf")),
    *(Sample(f"{d}_{f}_undefined", of(d, f), [np.float32([0.5, 1.5]), *map(np.float32, shapes)], ("eager",))
      for d, shapes, names in [("betabinom", (4, -1, 1), "logpmf pmf"), ("truncnorm", (1, -1), "logpdf pdf cdf logcdf sf logsf"), ("wrapcauchy", (1.5,), "logpdf pdf"),
                               ("vonmises", (-1,), "logpdf pdf"), ("pareto", (-1,), "logpdf pdf")] for f in names.split()),
    *(Sample(f"logistic_{f}_far", of("logistic", f), [np.float32([-np.inf, np.inf, np.nan, -90, 0])], ("eager",)) for f in ("logpdf", "pdf")),
    Sample("bernoulli_ppf_of_halves", of("bernoulli", "ppf"), [np.float16([0.2, 0.8, 2]), np.float16(0.3)], ("eager",)),
    *(Sample(f"rankdata_{m}_of_nan", lambda n, x, m=m: stats(n).rankdata(x, m, axis=1), [np.float32([[3, np.nan, 1], [2, 2, 5]])], ("eager",)) for m in ("average", "ordinal")),
    *(Sample(f"{name}_wrong_axis", lambda n, x, name=name: getattr(stats(n), name)(x, axis=1), [np.float32([1, 2])], error="ValueError") for name in ("rankdata", "mode")),
    Sample("sem_of_all_kept", lambda n, x: stats(n).sem(x, None, keepdims=True), [floats(4, 3)], ("eager",)),
    Sample("mode_of_none_kept", lambda n, x: tuple(stats(n).mode(x, None, keepdims=True)), [np.zeros((2, 0), np.float32)], ("eager",)),
]
