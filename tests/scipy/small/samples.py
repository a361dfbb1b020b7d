"""Samples of the small rooms of `scipy`: fft, integrate, ndimage, signal, sparse."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
X, V = floats(3, 5), floats(5)
A = floats(5, 5) + 4 * np.eye(5, dtype=np.float32)
S = A @ A.T + 3 * np.eye(5, dtype=np.float32)
IMAGE, KERNEL = floats(5, 6), floats(3, 2)


def of(room, name, **options):
    return lambda n, *xs: getattr(import_module(f"{n.name}.scipy.{room}"), name)(*xs, **options)


def solve(name, **options):
    """A solver of a matrix, of a function, and of a pytree."""
    def fun(n, a, b):
        solver = getattr(import_module(f"{n.name}.scipy.sparse.linalg"), name)
        return (solver(a, b, **options)[0], solver(lambda v: a @ v, b, x0=b, M=lambda v: v / 3, **options)[0],
                solver(lambda t: {"x": 2 * t["x"], "y": t["y"] * 3}, {"x": b, "y": b[:2]}, **options)[0])
    return fun


def solved(name):
    return lambda n, a, b: getattr(import_module(f"{n.name}.scipy.sparse.linalg"), name)(lambda v: a @ v, b)[0]


SAMPLES = [
    *(Sample(f"{name}_{norm}", of("fft", name, norm=norm), [X], ("eager",), tol=1e-4)
      for name in ("dct", "idct", "dctn", "idctn") for norm in (None, "ortho")),
    Sample("dct_cut", of("fft", "dct", n=2, axis=0), [X], ("eager", "grad"), tol=1e-4),
    Sample("idct_padded", of("fft", "idct", n=8), [X], ("eager",), tol=1e-4),
    Sample("dctn_sized", of("fft", "dctn", s=(2, 7)), [X], ("eager",), tol=1e-4),
    Sample("dct_of_type_1", of("fft", "dct", type=1), [X], error="NotImplementedError"),
    Sample("trapezoid", of("integrate", "trapezoid", dx=0.5), [X], ("eager",)),
    *(Sample(name, solve(name), [S, V], ("eager", "jit"), tol=1e-3) for name in ("cg", "bicgstab", "gmres")),
    Sample("gmres_restarted", solve("gmres", restart=3), [S, V], ("eager",), tol=1e-3),
    Sample("gmres_incremental", solve("gmres", solve_method="incremental"), [S, V], ("eager",), tol=1e-3),
    Sample("cg_slopes", solved("cg"), [S, V], ("grad", "vmap"), tol=1e-3),
    *(Sample(f"{name}_slopes", solved(name), [A, V], ("grad",), tol=1e-3) for name in ("bicgstab", "gmres")),
    Sample("cg_of_shapes", lambda n, a, b: import_module(f"{n.name}.scipy.sparse.linalg").cg(a, b, x0=b[:2]), [S, V], error="ValueError"),
    *(Sample(f"{name}_{mode}", of("signal", name, mode=mode), [V, V[:3]], ("eager",), tol=1e-4)
      for name in ("convolve", "correlate", "fftconvolve") for mode in ("full", "same", "valid")),
    *(Sample(f"{name}_{mode}", of("signal", name, mode=mode), [IMAGE, KERNEL], ("eager",), tol=1e-4)
      for name in ("convolve2d", "correlate2d") for mode in ("full", "same", "valid")),
    Sample("convolve_slopes", of("signal", "convolve"), [V, V[:3]], ("grad", "jit"), tol=1e-4),
    Sample("convolve_of_ranks", of("signal", "convolve"), [V, X], error="ValueError"),
    *(Sample(f"map_coordinates_{order}_{mode}", of("ndimage", "map_coordinates", order=order, mode=mode, cval=0.5),
             [IMAGE, [np.float32([-1.2, 0.3, 2.6, 7.0]), np.float32([0.5, -0.7, 4.4, 5.9])]], ("eager",), tol=1e-4)
      for order in (0, 1) for mode in ("constant", "nearest", "wrap", "mirror", "reflect")),
    Sample("map_coordinates_slopes", of("ndimage", "map_coordinates", order=1), [IMAGE, [np.float32([1.2, 2.6]), np.float32([0.4, 3.3])]],
           ("grad",), tol=1e-4),
    Sample("map_coordinates_of_order_2", of("ndimage", "map_coordinates", order=2), [IMAGE, [V, V]], error="NotImplementedError"),
]
