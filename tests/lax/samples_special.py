"""Samples of `lax`'s special functions: moderate arguments, wide ranges, the ends of their domains."""

from __future__ import annotations

import numpy as np

from tests.reference.data import BF16, EDGES, floats
from tests.reference.sample import WHOLE, Sample

ENDS = np.float32([-np.inf, -2.5, -1, 0, 1e-30, 0.5, 1, 3, 50, np.inf, np.nan])
PAIRS = [v.ravel().copy() for v in np.meshgrid(ENDS[:-2], ENDS, indexing="ij")]
_P, _Q, _X = np.meshgrid(np.float32([-1, 0, 0.5, 3, 200, np.inf, np.nan]), np.float32([-1, 0, 0.5, 3, 200, np.inf]),
                         np.float32([-1, 0, 1e-20, 0.3, 1, 1.5, np.inf, np.nan]), indexing="ij")
TRIPLES = [v.ravel().copy() for v in (_P, _Q, _X)]


def wide(*shape, spread=4.0):
    """Positive numbers over several orders of magnitude."""
    return np.exp(floats(*shape, low=-spread, high=spread)).astype(np.float32)


def of(name):
    return lambda n, *xs: getattr(n.lax, name)(*xs)


def slope_of(name, i=1):
    """The function of its argument number `i` alone."""
    return lambda n, x: getattr(n.lax, name)(*(n.jnp.full_like(x, 1.5) for _ in range(i)), x)


FORWARD = ("eager", "jit", "vmap", "text")
SAMPLES = [
    *(Sample(name, of(name), [floats(2, 3, low=0.3, high=5), floats(2, 3, low=0.3, high=5)],
             ("eager", "jit", "grad", "jvp", "vmap", "text"), tol=1e-4, smooth=False) for name in ("igamma", "igammac")),
    *(Sample(f"{name}_wide", of(name), [wide(400), wide(400, spread=5.0)], ("eager",), tol=(2e-5, 1e-30))
      for name in ("igamma", "igammac")),
    *(Sample(f"{name}_ends", of(name), PAIRS, ("eager", "jit"), tol=(2e-5, 0.0)) for name in ("igamma", "igammac", "zeta")),
    *(Sample(f"{name}_bfloat16", of(name), [floats(5, dtype=BF16, low=0.3, high=4), floats(5, dtype=BF16, low=0.3, high=4)],
             WHOLE) for name in ("igamma", "igammac", "igamma_grad_a")),
    *(Sample(f"{name}_x64", of(name), [floats(30, low=0.1, high=40, dtype=np.float64),
                                       floats(30, low=0.1, high=40, dtype=np.float64)], ("eager",), x64=True, tol=1e-10)
      for name in ("igamma", "igammac", "igamma_grad_a", "zeta")),
    Sample("igamma_grad_a", of("igamma_grad_a"), [floats(2, 3, low=0.3, high=5), floats(2, 3, low=0.3, high=5)], FORWARD),
    Sample("igamma_grad_a_ends", of("igamma_grad_a"), PAIRS, ("eager", "jit"), tol=(2e-5, 0.0)),
    Sample("igamma_grad_a_wide", of("igamma_grad_a"), [wide(400), wide(400)], ("eager",), tol=(1e-3, 1e-7)),
    Sample("igamma_scalars", lambda n, x: n.lax.igamma(1.5, x), [floats(4, low=0.3, high=5)], FORWARD),
    Sample("random_gamma_grad", of("random_gamma_grad"), [floats(2, 3, low=0.3, high=5), floats(2, 3, low=0.3, high=5)],
           WHOLE),
    Sample("random_gamma_grad_ends", of("random_gamma_grad"), [v[PAIRS[0] < 50] for v in PAIRS], ("eager", "jit"),
           tol=(1e-4, 0.0)),
    Sample("betainc", of("betainc"), [floats(2, 3, low=0.3, high=5), floats(2, 3, low=0.3, high=5),
                                      floats(2, 3, low=0.05, high=0.95)], FORWARD),
    Sample("betainc_slope", slope_of("betainc", 2), [floats(5, low=0.05, high=0.95)],
           ("grad", "jvp", "jit.grad", "vmap.grad")),
    Sample("betainc_wide", of("betainc"), [wide(300, spread=3.0), wide(300, spread=3.0), floats(300, low=0, high=1)],
           ("eager",), tol=(2e-4, 1e-30)),
    Sample("betainc_ends", of("betainc"), TRIPLES, ("eager", "jit"), tol=(2e-4, 0.0)),
    Sample("betainc_x64", of("betainc"), [floats(30, low=0.1, high=20, dtype=np.float64),
                                          floats(30, low=0.1, high=20, dtype=np.float64),
                                          floats(30, low=0.01, high=0.99, dtype=np.float64)], ("eager",), x64=True, tol=1e-10),
    Sample("zeta", of("zeta"), [floats(2, 3, low=1.1, high=9), floats(2, 3, low=0.2, high=9)], FORWARD),
    Sample("polygamma", of("polygamma"), [np.float32([0, 1, 2, 3]), floats(4, low=0.3, high=5)], FORWARD),
    Sample("polygamma_slope", slope_of("polygamma"), [floats(4, low=0.3, high=5)], ("grad", "jvp")),
    *(Sample(name, of(name), [floats(2, 3, low=0.2, high=12)], ("eager", "jit", "grad", "jvp", "vmap", "text"))
      for name in ("bessel_i0e", "bessel_i1e")),
    *(Sample(f"{name}_wide", of(name), [np.concatenate([floats(400, low=-60, high=60), EDGES])], ("eager",), tol=(1e-6, 0.0))
      for name in ("bessel_i0e", "bessel_i1e")),
    *(Sample(f"{name}_x64", of(name), [floats(300, low=-60, high=60, dtype=np.float64)], ("eager",), x64=True, tol=1e-14)
      for name in ("bessel_i0e", "bessel_i1e")),
    *(Sample(f"{name}_bfloat16", of(name), [floats(5, dtype=BF16, low=-9, high=9)], WHOLE)
      for name in ("bessel_i0e", "bessel_i1e")),
    Sample("bessel_slope_near_zero", of("bessel_i1e"), [np.float32([0.0, 1e-10, -1e-10, 1e-3])], ("jvp", "grad"),
           smooth=False),
    *(Sample(f"{name}_slope_of_order", lambda n, x, name=name, k=k: n.jax.jvp(
        lambda a: getattr(n.lax, name)(*(a for _ in range(k))), (x,), (x,)), [floats(3, low=0.3, high=0.7)], error=error)
      for name, k, error in (("polygamma", 2, "ValueError"), ("betainc", 3, "ValueError"), ("zeta", 2, "NotImplementedError"),
                             ("igamma_grad_a", 2, "NotImplementedError"))),
    *(Sample(f"{name}_of_integers", of(name), [np.int32([1, 2]), np.int32([2, 3])], error="TypeError")
      for name in ("igamma", "zeta", "polygamma")),
    *(Sample(f"{name}_of_shapes", of(name), [floats(2), floats(3)], error="TypeError") for name in ("igamma", "igammac")),
    Sample("igamma_of_two_dtypes", of("igamma"), [floats(2), floats(2, dtype=np.float16)], error="TypeError"),
]
