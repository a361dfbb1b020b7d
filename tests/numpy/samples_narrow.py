"""Samples of numbers of 4 and 8 bits: types without infinities, and integers whose limits NumPy does not know."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.numpy.samples_more import rows, together
from tests.reference.data import BF16, floats
from tests.reference.sample import WHOLE

LAWS = False        # compared with the reference alone
FLOATS = [np.array([[1, -3, 2], [0.5, -0.25, 4]]).astype(getattr(ml_dtypes, name)) for name in (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e3m4", "float8_e4m3")]
SMALL = [np.array([[1, 3, 2], [4, 5, 7]]).astype(getattr(ml_dtypes, name)) for name in ("int4", "uint4")]
UNSIGNED = SMALL[1]
COMPLEX = np.complex64([[1 + 2j, 3 - 4j]])
FLAT = floats(2, 4)
SYSTEM = (floats(3, 3) + 4 * np.eye(3, dtype=np.float32)).astype(BF16)


def named(dtype, texts, *args, **options):
    return together(f"{dtype} {texts[0]}", texts, *args, **options)


EXTREMES = ("jnp.max(x)", "jnp.min(x, 1)", "jnp.argmax(x)", "jnp.argmin(x, 0)", "jnp.nanmin(x)", "jnp.nanmax(x, 0)", "jnp.nanargmax(x)",
            "jnp.nanargmin(x, 1)", "lax.cummax(x)", "lax.cummin(x, 1)", "lax.top_k(x, 2)", "jnp.ptp(x, axis=0)")
DIVISIONS = ("x // y", "x % y", "jnp.divmod(x, y)", "jnp.lcm(x, y)", "lax.div(x, y)", "lax.rem(x, y)", "jnp.max(x)", "jnp.argmin(x)")

SAMPLES = [
    *(named(x.dtype, EXTREMES, x) for x in FLOATS),
    *(named(x.dtype, ("lax.bessel_i0e(x)", "jnp.i0(x)"), abs(x), tol=(0.13, 0.05)) for x in (FLOATS[0], FLOATS[3])),
    named(UNSIGNED.dtype, DIVISIONS, UNSIGNED, UNSIGNED[::-1]),
    *(named(x.dtype, ("jnp.trapezoid(x)", "jnp.sort_complex(x)", "jnp.trapezoid(x, axis=0)"), x) for x in SMALL),
    *rows(WHOLE, ("jnp.take(x, y)", floats(4), np.array([True, False])), ("jax.scipy.linalg.solve_triangular(x, x[0], lower=True)", SYSTEM),
          *((f"jnp.asarray(x).view('{t}')", c) for t, c in (("float32", COMPLEX), ("uint8", COMPLEX), ("uint32", COMPLEX[:0]))),
          ("jnp.asarray(x).view('complex64')", FLAT), ("lax.linalg.triangular_solve(x, x, left_side=True, transpose_a=True)", SYSTEM), tol=(2e-2, 1e-2)),
]
