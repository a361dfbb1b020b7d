"""Samples of `numpy`: `x.at[index]` with values of every kind in arrays of every dtype."""

from __future__ import annotations

import numpy as np

from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
INDEX = (0, np.array([1, 1]))
VALUES = {"int": 2, "float": 2.5, "bool": True, "complex": 1 + 2j, "int32": np.int32(3), "float32": np.float32(1.5), "int8": np.int8([100, 100]),
          "uint8": np.uint8(200), "float16": np.float16(0.5), "list": [1, 2], "floats": [1.5, 2.5], "bools": np.array([True, False])}


def update(op, dtype, value):
    return lambda n, x: getattr(n.jnp.asarray(x).astype(dtype).at[INDEX], op)(value)


SAMPLES = [
    # Every dtype with every operation and with every kind of value, not all three with each other.
    *(Sample(f"{op}_{dtype}_{kind}", update(op, dtype, value), [np.array([[1, 2, 3], [4, 5, 0]])], ("eager",),
             error="TypeError" if dtype == "bool" and kind in ("bool", "bools") and op not in ("set", "min", "max") else None)
      for d, dtype in enumerate(("bool", "int8", "uint8", "int32", "float16", "bfloat16", "float32", "complex64"))
      for o, op in enumerate(("set", "add", "subtract", "multiply", "divide", "power", "min", "max")) for k, (kind, value) in enumerate(VALUES.items())
      if (d + o + k) % 4 == 0 and not (op in ("min", "max") and "complex" in (dtype, kind, dtype[:7]))),
    *(Sample(f"{op}_weak_{i}", lambda n, op=op, x=x, v=v: getattr(n.jnp.asarray(x).at[...], op)(v), [], ("eager", "jit"))
      for op in ("set", "add", "multiply", "min") for i, (x, v) in enumerate(((2.5, 2), (2.5, np.float16(2)), (3, 2.5), (3, 2)))),
    Sample("tuple", lambda n, x: n.jnp.asarray(x).at[0].set((1, 2, 3)), [np.ones((2, 3), np.float32)], ("eager", "jit")),
    Sample("list_of_values", lambda n, x: n.jnp.asarray(x).at[0].set([x[1, 1], 2, x[0, 1] * 2]), [np.ones((2, 3), np.float32)],
           ("eager", "jit", "grad")),
]
