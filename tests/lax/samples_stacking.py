"""Samples of `lax`: stacking, broadcasts by another array, dtypes of values."""

from __future__ import annotations

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import ALL, Sample

LAWS = False        # compared with the reference alone
TEXT = (*ALL, "text")
WORDS = np.array([1, 2, 3, 4], np.uint32)


def bits(**options):
    return lambda n, key: n.lax.rng_bit_generator(key, (3, 2), **options)


SAMPLES = [
    *(Sample(f"rng_bit_generator_{dtype.__name__}", bits(dtype=dtype), [WORDS], ("eager", "jit", "text"))
      for dtype in (np.uint8, np.uint16, np.uint32)),
    *(Sample(f"rng_bit_generator_{name}", lambda n, key, name=name: n.lax.rng_bit_generator(
        key, (5,), algorithm=n.lax.RandomAlgorithm[name]), [WORDS], ("eager", "jit", "text"))
      for name in ("RNG_DEFAULT", "RNG_PHILOX")),
    Sample("rng_bit_generator_batch", lambda n, keys: n.jax.vmap(lambda k: n.lax.rng_bit_generator(k, (3,)))(keys),
           [np.stack([WORDS, WORDS + 1])], ("eager",)),
    *(Sample(f"stack_{axis}", lambda n, x, y, axis=axis: n.lax.stack([x, y], axis), [floats(2, 3), floats(2, 3)], TEXT)
      for axis in (0, 1, -1)),
    *(Sample(f"unstack_{axis}", lambda n, x, axis=axis: n.lax.unstack(x, axis), [floats(2, 3)], TEXT) for axis in (0, 1, -1)),
    Sample("broadcast_like", lambda n, x, y: n.lax.broadcast_like(x, y), [floats(3), floats(2, 3)], ALL),
    Sample("broadcast_to_rank", lambda n, x: n.lax.broadcast_to_rank(x, 3), [floats(2, 3)], TEXT),
    Sample("shape_as_value", lambda n: n.lax.shape_as_value((2, 3)), [], ("eager",)),
    Sample("dtype", lambda n: [str(n.lax.dtype(v)) == d for v, d in ((2.0, "float32"), (np.int8(1), "int8"))], [], ("eager",)),
    Sample("stack_shapes", lambda n, x, y: n.lax.stack([x, y]), [floats(2), floats(3)], error="ValueError"),
    Sample("unstack_scalar", lambda n, x: n.lax.unstack(x), [np.float32(1)], error="ValueError"),
]
