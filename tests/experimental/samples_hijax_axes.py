"""`AxisData`: what a batching rule is told of the mapped axis, beside the reference."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.sample import Sample

LAWS = False  # what is compared is what rules were told
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def told(map_):
    """What the batching rule of a doubling was told, with the result of the mapped one."""

    def fun(n, x):
        seen = []

        class Double(import_module(f"{n.name}.experimental.hijax").VJPHiPrimitive):
            def __init__(self, aval):
                self.in_avals, self.out_aval, self.params = (aval,), aval, {}
                super().__init__()

            def expand(self, x):
                return 2 * x

            def batch(self, axis_data, args, dims):
                name = axis_data.name if isinstance(axis_data.name, str) else "none"
                seen.append((name, axis_data.size, axis_data.spmd_name, axis_data.explicit_mesh_axis, dims))
                return double(args[0]), dims[0]

        double = lambda x: Double(n.jax.typeof(x))(x)
        return map_(n, double)(x), seen

    return fun


SAMPLES = [
    Sample(name, told(map_), [X], ("eager",))
    for name, map_ in {
        "named": lambda n, f: n.jax.vmap(f, axis_name="rows"),
        "without_name": lambda n, f: n.jax.vmap(f),
        "of_a_later_dimension": lambda n, f: n.jax.vmap(f, in_axes=2, out_axes=1, axis_name="i"),
        "one_in_another": lambda n, f: n.jax.vmap(n.jax.vmap(f, axis_name="inner"), axis_name="outer"),
        "of_a_mesh": lambda n, f: n.jax.vmap(f, axis_name="i", spmd_axis_name="x"),
    }.items()
]
