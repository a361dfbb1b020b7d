"""Samples of `image`: every method, larger and smaller, moved."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
IMAGE = floats(5, 6, 2)


def of(name, *more, **options):
    return lambda n, *xs: getattr(import_module(f"{n.name}.image"), name)(*xs, *more, **options)


def by_method(n, x):
    image = import_module(f"{n.name}.image")
    return image.resize(x, (7, 6, 2), image.ResizeMethod.CUBIC), image.ResizeMethod.from_string("bilinear").name


SAMPLES = [
    *(Sample(f"{method}_{'x'.join(map(str, shape))}", of("resize", shape, method), [IMAGE], ("eager",), tol=1e-4)
      for method in ("nearest", "linear", "cubic", "lanczos3", "lanczos5") for shape in ((8, 11, 2), (3, 4, 2))),
    Sample("plain", of("resize", (3, 4, 2), "bilinear", antialias=False), [IMAGE], ("eager", "grad", "jit", "vmap"), tol=1e-4),
    Sample("by_method", by_method, [IMAGE], ("eager",), tol=1e-4),
    Sample("ints", of("resize", (4,), "linear"), [np.int32([1, 5])], ("eager",)),
    *(Sample(f"moved_{method}", lambda n, x, s, t, method=method: import_module(f"{n.name}.image").scale_and_translate(
        x, (6, 6, 2), (0, 1), s, t, method), [IMAGE, np.float32([1.5, 0.7]), np.float32([0.3, -1.0])], ("eager",), tol=1e-4)
      for method in ("linear", "cubic")),
    Sample("rank", of("resize", (3, 4), "linear"), [IMAGE], error="ValueError"),
    Sample("unknown", of("resize", (3, 4, 2), "magic"), [IMAGE], error="ValueError"),
]
