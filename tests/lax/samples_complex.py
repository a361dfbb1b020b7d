"""Samples of `lax`: largest and smallest of complex numbers, ordered by real part, then by imaginary part."""

from __future__ import annotations

import numpy as np

from tests.reference.sample import ALL, Sample

LAWS = False        # compared with the reference alone
Z = np.array([[1 + 2j, 3 - 1j, 3 + 4j, -1j], [1 - 2j, 3 - 1j, -2 + 4j, 1j]], np.complex64)

SAMPLES = [
    *(Sample(f"{name}_{'_'.join(map(str, axes))}", lambda n, x, name=name, axes=axes: getattr(n.lax, name)(x, axes), [Z],
             ("eager", "jit", "jvp", "vmap", "text")) for name in ("reduce_max", "reduce_min") for axes in ((0,), (1,), (0, 1), ())),
    *(Sample(f"{name}_{axis}_{reverse}", lambda n, x, name=name, axis=axis, reverse=reverse: getattr(n.lax, name)(x, axis, reverse), [Z],
             ("eager", "jit", "vmap", "text")) for name in ("cummax", "cummin") for axis in (0, 1) for reverse in (False, True)),
    *(Sample(f"jnp_{name}", lambda n, x, name=name: getattr(n.jnp, name)(x, axis=1, where=x.imag > 0, initial=1 + 0j), [Z], ALL)
      for name in ("max", "min")),
    Sample("cummin_bool", lambda n, x: n.lax.cummin(x.real > 0), [Z], error="TypeError"),
]
