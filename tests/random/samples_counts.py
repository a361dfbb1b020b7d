"""Samples of binomial and multinomial numbers: small and large means, ends of the parameters, shapes, bad input."""

from __future__ import annotations

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
BOTH = ("eager", "jit")
SAMPLES = [
    *(Sample(f"binomial_{n}_{p}", lambda s, n=n, p=p: s.random.binomial(s.random.key(7), n, p, (200,)), [], BOTH, tol=1e-6)
      for n, p in ((10.0, 0.3), (10.0, 0.9), (100.0, 0.2), (1000.0, 0.7), (1e5, 0.5), (0.0, 0.5), (7.0, 0.0), (7.0, 1.0))),
    Sample("binomial_arrays", lambda s, n, p: s.random.binomial(s.random.key(1), n, p), [floats(50, low=0, high=200), floats(50, low=0, high=1)],
           BOTH, tol=1e-6),
    Sample("binomial_ends", lambda s, n, p: s.random.binomial(s.random.key(1), n, p),
           [np.float32([np.nan, -1, 5, 5, 5.5]), np.float32([0.5, 0.5, np.nan, 1.5, 0.4])], BOTH),
    Sample("binomial_shapes", lambda s, n, p: s.random.binomial(s.random.key(1), n, p, (4, 2, 3)),
           [floats(3, low=1, high=50), floats(2, 1, low=0, high=1)], BOTH, tol=1e-6),
    Sample("binomial_x64", lambda s: s.random.binomial(s.random.key(1), 50.0, 0.3, (9,), dtype=np.float64), [], BOTH, x64=True),
    Sample("multinomial", lambda s, p: s.random.multinomial(s.random.key(3), 100.0, p), [np.float32([0.2, 0.3, 0.5])],
           BOTH, tol=1e-6),
    Sample("multinomial_zeros", lambda s, p: s.random.multinomial(s.random.key(3), 20.0, p), [np.float32([0, 0.5, 0, 0.5, 0])],
           BOTH, tol=1e-6),
    Sample("multinomial_batch", lambda s, n, p: s.random.multinomial(s.random.key(3), n, p),
           [np.float32([10, 100]), np.float32([[0.2, 0.8, 0], [0.1, 0.2, 0.7]])], BOTH, tol=1e-6),
    Sample("multinomial_shape", lambda s, n, p: s.random.multinomial(s.random.key(3), n, p, shape=(4, 2, 3)),
           [np.float32([10, 100]), np.float32([0.2, 0.1, 0.7])], BOTH, tol=1e-6),
    Sample("binomial_int_dtype", lambda s: s.random.binomial(s.random.key(1), 5.0, 0.3, dtype=np.int32), [], error="ValueError"),
    Sample("binomial_bad_shape", lambda s: s.random.binomial(s.random.key(1), np.ones(3, np.float32), 0.3, (2,)), [],
           error="ValueError"),
]
