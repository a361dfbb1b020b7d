"""Samples of `lax.fft` and `numpy.fft`."""

from __future__ import annotations

import numpy as np

from tests.reference.data import BF16, bools, complexes, floats, ints
from tests.reference.sample import ALL, VALUE, WHOLE, Sample

ORDERS = ("grad.grad", "jvp.grad", "grad.jvp", "vmap.grad", "jit.grad", "linearize")
C, R = complexes(3, 4, 5), floats(3, 4, 5)


def lax_fft(kind, *lengths):
    return lambda n, x: n.lax.fft(x, kind, lengths)


def call(name, **kwargs):
    return lambda n, x: getattr(n.jnp.fft, name)(x, **kwargs)


LAX = [
    *(Sample(f"lax_{kind}_{len(lengths)}d", lax_fft(kind, *lengths), [x], tol=1e-4)
      for kind, x, shapes in (("fft", C, ((5,), (4, 5), (3, 4, 5))), ("IFFT", C, ((5,), (4, 5), (3, 4, 5))),
                              ("rfft", R, ((5,), (4, 5), (3, 4, 5))),
                              ("irfft", C, ((8,), (9,), (4, 8), (4, 9), (3, 4, 8))[::2])) for lengths in shapes),
    Sample("lax_irfft_odd", lax_fft("irfft", 9), [C], tol=1e-4),
    Sample("lax_irfft_odd_2d", lax_fft("irfft", 4, 9), [C], tol=1e-4),
    Sample("lax_rfft_even", lax_fft("rfft", 4), [floats(2, 4)]),
    Sample("lax_rfft_one", lax_fft("rfft", 1), [floats(2, 1)]),
    Sample("lax_irfft_one", lax_fft("irfft", 1), [complexes(2, 1)]),
    Sample("lax_fft_real_input", lax_fft("fft", 5), [R], tol=1e-4),
    Sample("lax_fft_int", lax_fft("fft", 5), [ints(5)], WHOLE),
    Sample("lax_rfft_bool", lax_fft("rfft", 5), [bools(5)], WHOLE),
    Sample("lax_irfft_real", lax_fft("irfft", 8), [R], tol=1e-4),
    Sample("lax_fft_bfloat16", lax_fft("fft", 5), [R.astype(BF16)], tol=2e-2),
    Sample("lax_fft_no_lengths", lax_fft("fft"), [R], VALUE),
    Sample("lax_fft_empty", lax_fft("fft", 5), [C[:0]]),
    Sample("lax_fft_length_zero", lax_fft("fft", 0), [C[..., :0]], WHOLE),
    Sample("lax_fft_kind", lambda n, x: n.lax.fft(x, n.lax.FftType.FFT, (5,)), [C], VALUE),
    Sample("lax_fft_x64", lax_fft("fft", 5), [C.astype(np.complex128)], x64=True),
    Sample("lax_rfft_x64", lax_fft("rfft", 5), [R.astype(np.float64)], x64=True),
    Sample("lax_second_order", lambda n, x: n.lax.real(n.lax.exp(n.lax.fft(n.lax.mul(x, x), "rfft", (6,)))),
           [floats(6, low=-0.5, high=0.5)], ORDERS, tol=1e-3),
    Sample("lax_round_trip", lambda n, x: n.lax.fft(n.lax.sin(n.lax.fft(x, "rfft", (6,))), "irfft", (6,)),
           [floats(6, low=-0.3, high=0.3)], (*ALL, *ORDERS), tol=1e-3),
    *(Sample(f"lax_bad_{name}", lambda n, x, args=args: n.lax.fft(x, *args), [x], error=error)
      for name, x, args, error in (
          ("length", C, ("fft", (4,)), "ValueError"), ("complex", C, ("rfft", (5,)), "ValueError"),
          ("half", R.astype(np.float16), ("rfft", (5,)), "ValueError"), ("name", C, ("dct", (5,)), "ValueError"),
          ("number", C, (0, (5,)), "TypeError"), ("rank", C[0, 0], ("fft", (5, 5)), "ValueError"),
          ("int_lengths", C, ("fft", 5), "TypeError"), ("no_elements", R[..., :0], ("rfft", (0,)), "ValueError"))),
    *(Sample(f"type_{name}", lambda n, name=name: int(n.lax.FftType[name]), [], ("eager",))
      for name in ("FFT", "IFFT", "RFFT", "IRFFT")),
]

ONE = {"fft": C, "ifft": C, "rfft": R, "irfft": C, "hfft": C, "ihfft": R}
MANY = {"fftn": C, "ifftn": C, "rfftn": R, "irfftn": C}
TWO = {"fft2": C, "ifft2": C, "rfft2": R, "irfft2": C}
NUMPY = [
    *(Sample(f"{name}_{tag}", call(name, **kwargs), [x], ALL if tag == "plain" else ("eager", "jit", "grad"), tol=1e-4)
      for name, x in ONE.items() for tag, kwargs in {
          "plain": {}, "shorter": {"n": 3}, "longer": {"n": 8}, "one": {"n": 1}, "axis": {"axis": 0}, "ortho": {"norm": "ortho"},
          "forward": {"norm": "forward"}, "backward": {"norm": "backward"},
          "all": {"n": 6, "axis": -2, "norm": "forward"}}.items()),
    *(Sample(f"{name}_{np.dtype(dtype).name}", call(name), [ints(3, 5, low=0, high=2).astype(dtype)], VALUE, tol=2e-2)
      for name in ONE for dtype in (np.int32, np.bool_)),
    *(Sample(f"{name}_{np.dtype(dtype).name}", call(name), [floats(3, 5).astype(dtype)], VALUE, tol=2e-2)
      for name in ("fft", "irfft") for dtype in (np.float16, BF16)),
    *(Sample(f"{name}_empty", call(name), [x[:0]], VALUE) for name, x in ONE.items()),
    *(Sample(f"{name}_one_element", call(name), [x[..., :1]], VALUE) for name, x in ONE.items()),
    *(Sample(f"{name}_{tag}", call(name, **kwargs), [x], ALL if tag == "plain" else ("eager", "jit", "grad"), tol=2e-4)
      for name, x in MANY.items() for tag, kwargs in {
          "plain": {}, "s": {"s": (3, 6)}, "axes": {"axes": (2, 0)}, "one": {"axes": (1,)}, "ortho": {"norm": "ortho"},
          "forward": {"norm": "forward"}, "all": {"s": (2, 6), "axes": (0, -1), "norm": "ortho"}, "none": {"axes": ()}}.items()
      if tag != "none" or name in ("fftn", "ifftn")),
    *(Sample(f"{name}_{tag}", call(name, **kwargs), [x], ("eager", "jit", "vmap", "grad"), tol=2e-4)
      for name, x in TWO.items() for tag, kwargs in {"plain": {}, "s": {"s": (3, 6)}, "axes": {"axes": (2, 0)}}.items()
      ),
    *(Sample(f"{name}_five", call(name), [x], ("eager", "jit", "grad"), tol=2e-4)
      for name, x in (("fftn", complexes(2, 3, 2, 3, 2)), ("ifftn", complexes(2, 3, 2, 3, 2)),
                      ("rfftn", floats(2, 3, 2, 3, 4)), ("irfftn", complexes(2, 3, 2, 3, 3)))),
    Sample("fft_x64", call("fft", norm="ortho"), [C.astype(np.complex128)], x64=True),
    Sample("irfft_second_order", lambda n, x: n.jnp.sin(n.jnp.fft.irfft(n.jnp.fft.rfft(x) ** 2)), [floats(6)], ORDERS, tol=1e-3),
]

FREQUENCIES = [
    *(Sample(f"{name}_{i}", lambda n, name=name, args=args: getattr(n.jnp.fft, name)(*args), [], ("eager",))
      for name in ("fftfreq", "rfftfreq") for i, args in enumerate(((5,), (6,), (5, 2.0), (6, 1), (1,), (0,), (5, 0.0)))
      if (name, args) != ("rfftfreq", (0,))),
    *(Sample(f"{name}_dtype", lambda n, name=name: getattr(n.jnp.fft, name)(5, dtype=np.float16), [], ("eager",))
      for name in ("fftfreq", "rfftfreq")),
    *(Sample(f"{name}_traced", lambda n, d, name=name: getattr(n.jnp.fft, name)(5, d), [np.float32(0.3)])
      for name in ("fftfreq", "rfftfreq")),
    *(Sample(f"{name}_{i}", lambda n, x, name=name, axes=axes: getattr(n.jnp.fft, name)(x, axes), [R], ("eager", "jit", "grad"))
      for name in ("fftshift", "ifftshift") for i, axes in enumerate((None, 0, (0, 2), [1], ()))),
    *(Sample(f"{name}_int", call(name), [ints(5)], WHOLE) for name in ("fftshift", "ifftshift")),
]

ERRORS = [
    *(Sample(f"{name}_bad_{tag}", call(name, **kwargs), [R], error=error)
      for name in ONE for tag, kwargs, error in (
          ("zero", {"n": 0}, "ValueError"), ("negative", {"n": -1}, "ValueError"), ("float", {"n": 2.5}, "TypeError"),
          ("axes", {"axis": (0,)}, "ValueError"), ("norm", {"norm": "ORTHO"}, "ValueError"))),
    *(Sample(f"{name}_bad_axis", call(name, axis=7), [R], error="ValueError") for name in ("fft", "ifft", "rfft", "irfft")),
    *(Sample(f"{name}_bad_list", lambda n, name=name: getattr(n.jnp.fft, name)([1.0, 2.0]), [], error="TypeError")
      for name in ("fft", "ifft", "rfft", "irfft", "hfft", "fftshift", "ifftshift", "fftn", "fft2")),
    *(Sample(f"{name}_bad_complex", call(name), [C], error="ValueError") for name in ("rfft", "rfftn", "rfft2")),
    *(Sample(f"{name}_bad_{tag}", call(name, **kwargs), [R], error=error)
      for name in MANY for tag, kwargs, error in (
          ("zero", {"s": (0, 2)}, "ValueError"), ("repeated", {"axes": (0, 0)}, "ValueError"),
          ("axis", {"axes": (2, 5)}, "ValueError"), ("lengths", {"s": (2, 2), "axes": (0,)}, "ValueError"),
          ("norm", {"norm": "foo"}, "ValueError"), ("int_axes", {"axes": 1}, "TypeError"), ("int_s", {"s": 2}, "TypeError"),
          ("none_s", {"s": (2, None)}, "TypeError"))),
    *(Sample(f"{name}_bad_{tag}", call(name, **kwargs), [R], error=error)
      for name in TWO for tag, kwargs, error in (
          ("one", {"axes": (0,)}, "ValueError"), ("three", {"axes": (0, 1, 2)}, "ValueError"),
          ("int", {"axes": 1}, "TypeError"), ("none", {"axes": None}, "TypeError"), ("s", {"s": (2,)}, "ValueError"))),
    *(Sample(f"{name}_bad_rank", call(name), [R[0, 0]], error="ValueError") for name in TWO),
    *(Sample(f"{name}_bad_n", lambda n, name=name: getattr(n.jnp.fft, name)((5,)), [], error="ValueError")
      for name in ("fftfreq", "rfftfreq")),
    *(Sample(f"{name}_bad_d", lambda n, name=name: getattr(n.jnp.fft, name)(5, [1.0]), [], error="ValueError")
      for name in ("fftfreq", "rfftfreq")),
    *(Sample(f"{name}_bad_axis", call(name, axes=5), [R], error="IndexError") for name in ("fftshift", "ifftshift")),
]

SAMPLES = [*LAX, *NUMPY, *FREQUENCIES, *ERRORS]
