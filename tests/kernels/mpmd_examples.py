"""Meshes and kernels that several tests of `mpmd_map` use."""

from __future__ import annotations

import numpy as np

import xlab
from xlab.kernels import CoreMesh, MemorySpace, mpmd_map

LOCAL, SHARED = MemorySpace.LOCAL, MemorySpace.SHARED
S = xlab.ShapeDtypeStruct
F8 = S((8,), "float32")
TWO = CoreMesh("c", 2)
X = np.arange(8, dtype=np.float32)


def on_two(kernel, out=F8, **options):
    return mpmd_map([(TWO, kernel)], out, interpret=True, **options)


def add_one(x, o):
    o[...] = x[...] + 1


def equations(f, *args):
    return xlab.make_jaxpr(f)(*args).eqns


def positional_scratch(x, o, s, t):
    s[...] = x[...] * 3
    t[0] = s[2]
    o[...] = s[...] + t[0]


def writes_its_input(x, o):
    x[...] = x[...] * 2
    o[...] = x[...]


def first_is_seven(x, o):
    o[0] = 7.0
