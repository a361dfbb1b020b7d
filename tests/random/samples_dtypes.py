"""Samples of draws in every dtype that a draw takes: the same keys give the same numbers.

Every run takes a draw of each family; XLAB_EVERY_DRAW=1 takes all of them.
"""

from __future__ import annotations

import os

import numpy as np

from tests.reference.sample import Sample

EVERY = bool(os.environ.get("XLAB_EVERY_DRAW"))
SEED = np.int32(7)
FLOATS = ("bfloat16", "float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
TOLERANCE = {"bfloat16": 0.02, "float16": 4e-3, "float32": 1e-5, "float64": 1e-11}
SHAPED = {
    "beta": (1.5, 2.5), "cauchy": (), "chisquare": (3.0,), "double_sided_maxwell": (0.5, 2.0), "exponential": (), "f": (3.0, 5.0),
    "gamma": (1.7,), "generalized_normal": (1.5,), "gumbel": (), "laplace": (), "loggamma": (0.6,), "logistic": (), "lognormal": (0.8,),
    "maxwell": (), "normal": (), "pareto": (2.5,), "rademacher": (), "rayleigh": (1.5,), "t": (4.0,), "triangular": (-1.0, 0.5, 2.0),
    "truncated_normal": (-1.0, 2.0), "uniform": (), "wald": (1.2,), "weibull_min": (1.5, 2.0), "binomial": (9.0, 0.3),
}  # fmt: skip
# These take their shape elsewhere: no scalars, or a shape that follows from the arguments.
OTHERS = {
    "ball": lambda r, key, dtype: r.ball(key, 3, shape=(4,), dtype=dtype),
    "dirichlet": lambda r, key, dtype: r.dirichlet(key, np.ones(3, np.float32), (3,), dtype),
}
WHOLE = {
    "bits": lambda r, key, dtype: r.bits(key, (8,), dtype),
    "geometric": lambda r, key, dtype: r.geometric(key, 0.3, (8,), dtype),
    "poisson": lambda r, key, dtype: r.poisson(key, 3.5, (8,), dtype),
    "rademacher_whole": lambda r, key, dtype: r.rademacher(key, (8,), dtype),
    "randint": lambda r, key, dtype: r.randint(key, (8,), 0, 100, dtype),
}
QUICK = ("normal", "exponential", "multivariate_normal", "randint", "bits")


def shaped(name):
    return lambda r, key, dtype: getattr(r, name)(key, *SHAPED[name], shape=(8,), dtype=dtype)


def normal_vectors(r, key, dtype):
    return r.multivariate_normal(key, np.zeros(2, np.float32), np.eye(2, dtype=np.float32), (3,), dtype)


def row(name, draw, dtype):
    def fun(n, seed):
        return draw(n.random, n.random.key(seed), n.jnp.dtype(dtype))

    tolerance = TOLERANCE.get(dtype)
    return Sample(f"{name}_{dtype}", fun, [SEED], ("eager",), tol=tolerance, x64=True)


DRAWS = [
    *((name, shaped(name), FLOATS) for name in SHAPED),
    *((name, draw, FLOATS) for name, draw in OTHERS.items()),
    # Of halves the reference makes float32, and it has no QR decomposition.
    ("multivariate_normal", normal_vectors, FLOATS[2:]),
    ("orthogonal", lambda r, key, dtype: r.orthogonal(key, 3, dtype=dtype), FLOATS[2:]),
    *(
        (name, draw, INTEGERS[name == "bits" :: 1 + (name == "bits")])
        for name, draw in WHOLE.items()
    ),
]
SAMPLES = [
    row(name, draw, dtype)
    for name, draw, types in DRAWS
    if EVERY or name in QUICK
    for dtype in types
]
