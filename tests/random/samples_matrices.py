"""Samples of the draws that need linear algebra."""

from __future__ import annotations

import numpy as np

from tests.random.samples import SEED, draw
from tests.reference.data import floats
from tests.reference.sample import Sample

WAYS = ("eager", "jit", "vmap")
TOL = (2e-4, 2e-5)
MEAN, ROOT = floats(3), floats(3, 3)
COV = ROOT @ ROOT.T + np.eye(3, dtype=np.float32)


def normal(**options):
    return lambda n, seed, mean, cov: n.random.multivariate_normal(n.random.key(seed), mean, cov, **options)


def weights(name, shape, *args, **options):
    return lambda n, seed: getattr(n.jax.nn.initializers, name)(*args, **options)(n.random.key(seed), shape)


SAMPLES = [
    *(Sample(f"orthogonal {args} {options}", draw("orthogonal", *args, **options), [SEED], WAYS, tol=TOL)
      for args, options in [((3,), {}), ((3, (2,)), {}), ((2,), {"m": 4}), ((4,), {"m": 2}), ((0,), {}), ((3,), {"dtype": np.complex64})]),
    *(Sample(f"multivariate_normal {options}", normal(**options), [SEED, MEAN, COV], WAYS, tol=TOL)
      for options in ({}, {"shape": (4,)}, {"method": "svd"}, {"method": "eigh", "shape": (2, 1)})),
    Sample("multivariate_normal batches", normal(), [SEED, floats(2, 1, 3), np.stack([COV, 2 * COV])], WAYS, tol=TOL),
    Sample("multivariate_normal derivatives", lambda n, mean, cov: n.random.multivariate_normal(n.random.key(3), mean, cov, (2,)),
           [MEAN, COV], ("grad", "jvp"), tol=TOL),
    *(Sample(f"{name} {shape} {args}", weights(name, shape, *args), [SEED], WAYS, tol=TOL)
      for name, shape, args in [("orthogonal", (2, 3, 4), (2.0,)), ("orthogonal", (3, 2, 4), (1.0, 1)), ("orthogonal", (5, 2), (1.0, 0)),
                                ("delta_orthogonal", (3, 2, 4), ()), ("delta_orthogonal", (4, 2, 2, 3), (3.0,)),
                                ("delta_orthogonal", (2, 3, 3, 2, 2), ())]),
    *(Sample(f"variance_scaling complex {kind}", weights("variance_scaling", (3, 4), 2.0, "fan_in", kind, dtype=np.complex64), [SEED],
             ("eager",), tol=TOL) for kind in ("truncated_normal", "normal", "uniform")),
    *(Sample(f"bad {name} {n}", fun, [SEED, *args], error="ValueError") for n, (name, fun, args) in enumerate([
        ("mean", normal(), (MEAN[0], COV)), ("cov", normal(), (MEAN, MEAN)), ("sizes", normal(), (MEAN, COV[:2, :2])),
        ("method", normal(method="x"), (MEAN, COV)), ("shape", normal(shape=()), (np.stack([MEAN, MEAN]), COV)),
        ("dtype", normal(dtype=np.int32), (MEAN, COV)), ("rank", weights("orthogonal", (3,)), ()),
        ("delta", weights("delta_orthogonal", (3, 3)), ()), ("fans", weights("delta_orthogonal", (3, 4, 2)), ()),
        ("negative", draw("orthogonal", -1), ()), ("integers", draw("orthogonal", 2, dtype=np.int32), ())])),
]
