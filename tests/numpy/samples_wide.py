"""Samples with 64-bit types on: positions and counts are integers of 64 bits, and draws depend on the types of their parameters alone."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.numpy.samples_more import together
from tests.random.samples import SEED
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
X, I, C = np.array([3.0, 0, 1, 3]), np.array([3, 0, 1, 3]), np.array([1 + 4j, 0.5, 2 - 5j])

HOST = ("jnp.nonzero(x)", "jnp.argwhere(x)", "jnp.unique(x, True, True, True)", "jnp.bincount(y)", "jnp.intersect1d(x, y, return_indices=True)",
        "jnp.unique(jnp.zeros(0), True, True, True)", "jnp.unique_counts(y)", "jnp.where(x)")
SIZED = ("jnp.nonzero(x, size=3)", "jnp.flatnonzero(x, size=2)", "jnp.where(x > 1, size=2)", "jnp.unique(x, True, True, True, size=3)",
         "jnp.unique(y, return_counts=True, size=5, fill_value=0)", "jnp.bincount(y, length=3)",
         "jnp.intersect1d(x, y, return_indices=True, size=2)", "jnp.nonzero(x, size=0)")
ORDER = ("jnp.lexsort((x, y))", "jnp.lexsort((1, 2))", "jnp.argpartition(x, 2)", "jnp.argsort(x)", "jnp.sort_complex(y)", "jnp.searchsorted(x, y)",
         "jnp.sort_complex(y.astype('int32'))", "jnp.linalg.matrix_rank(jnp.eye(2))", "jnp.linalg.matrix_rank(x)")
MOVED = ("jnp.roll(x, jnp.array([1, 2]))", "jnp.roll(x, [1, 1])", "jnp.roll(x, jnp.array([1, 2]), 0)", "jnp.roll(x, np.array([3, 2]), (0,))",
         "lax.select_n(y, x, x + 1, x + 2, x + 3)", "lax.select_n(y.astype('uint8'), x, x + 1, x + 2, x + 3)")
LOGS = ("jnp.logaddexp(x, x[::-1])", "jnp.logaddexp(x, x[0])", "jnp.logaddexp2(x, x[::-1])", "lax.cumlogsumexp(x)[1:]",
        "lax.cumlogsumexp(x, reverse=True)[:-1]")

# Of the widest floats only integers of 64 bits are; narrower ones and booleans become float32.
FLOATS = ("jnp.sin(x)", "jnp.mean(x)", "jnp.var(x)", "jnp.median(x)", "x / x", "jnp.arctan2(x, x)", "jnp.hypot(x, x)", "jnp.logaddexp(x, x)",
          "jnp.linalg.norm(x)", "jnp.fft.fft(x)", "jnp.fft.rfft(x)", "jnp.quantile(x, 0.5)", "jnp.interp(x, x, x)", "jnp.cov(x)", "jnp.average(x)",
          "jnp.exp2(x)", "jnp.sinc(x)", "jnp.float_power(x, x)", "jnp.angle(x)", "jnp.linspace(x[0], x[2], 3)", "jnp.nanmean(x)", "jax.nn.gelu(x)", "x + 0.5", "jnp.sqrt(3)")
WHOLE_NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


group = partial(together, x64=True)


def draws(name, *params, **options):
    """Draws of one distribution with parameters of each floating type."""
    def run(n, seed):
        key = n.random.key(seed)
        return [getattr(n.random, name)(key, *(np.asarray(p, t) for p in params), (4,), **options) for t in (np.float64, np.float32)]
    return Sample(f"{name} {params} {options}", run, [SEED], ("eager", "jit"), x64=True, tol=(1e-6, 1e-6))


SAMPLES = [
    group("positions on the host", HOST, X, I, transforms=("eager",)), group("positions", SIZED, X, I), group("order", ORDER, X, I),
    group("moved", MOVED, X, I), group("logarithms of complex sums", LOGS, C, tol=(1e-12, 1e-12)),
    group("logarithms of complex sums, short", LOGS, C.astype(np.complex64), tol=(1e-4, 1e-4)),
    group("counts in boxes", ("jnp.histogram2d(y, y, 3)", "jnp.histogram2d(x, x, 3)", "jnp.histogramdd(np.ones((3, 2)), 3)[0]"), X, I,
          transforms=("eager",)),
    *(group(f"floats of {dtype}", FLOATS, np.array([1, 3, 2]).astype(dtype), transforms=("eager",), tol=(1e-5, 1e-5)) for dtype in WHOLE_NUMBERS),
    draws("poisson", 3.0), draws("poisson", 40.0), draws("poisson", 3.0, dtype=np.int32), draws("binomial", 9.0, 0.3),
    draws("binomial", 9.0, 0.3, dtype=np.float32), draws("binomial", 90.0, 0.6, dtype=np.float16),
    draws("gamma", 2.0), draws("beta", 2.0, 3.0), draws("geometric", 0.3), draws("t", 3.0),
    Sample("multivariate_normal", lambda n, s: [n.random.multivariate_normal(n.random.key(s), np.zeros(2, t), np.eye(2, dtype=t))
                                                for t in (np.float64, np.float32)], [SEED], ("eager", "jit"), x64=True, tol=(1e-5, 1e-6)),
    Sample("derivative of complex cumlogsumexp", lambda n, x, t: n.jax.jvp(n.lax.cumlogsumexp, (x,), (t,))[1], [C, C[::-1].copy()],
           ("eager", "jit"), x64=True, tol=(1e-6, 1e-6)),
    *(Sample(f"bad {name}", lambda n, name=name: getattr(n.random, name)(n.random.key(0), 0.5, dtype=np.float32), [], error="ValueError")
      for name in ("poisson", "geometric")),
]
