"""Types of one's own for the tests, defined once for each side: the same lines for xlab and for the reference."""

from __future__ import annotations

import dataclasses
import functools
from importlib import import_module
from types import SimpleNamespace
from typing import Any


@functools.cache
def vectors(name: str) -> SimpleNamespace:
    """`Vec`, whose tangents are of its own type, with operations as `HiPrimitive`s."""
    jnp, hijax = import_module(f"{name}.numpy"), import_module(f"{name}.experimental.hijax")

    @dataclasses.dataclass(frozen=True)
    class Vec:
        arr: Any

    @dataclasses.dataclass(frozen=True)
    class VecType(hijax.HiType):
        shape: tuple

        def lo_ty(self):
            return [hijax.ShapedArray(self.shape, jnp.dtype("float32"))]

        def lower_val(self, v):
            return [v.arr]

        def raise_val(self, arr):
            return Vec(arr)

        def to_tangent_aval(self):
            return self

        def vspace_zero(self):
            return to(jnp.zeros(self.shape, "float32"))

        def vspace_add(self, x, y):
            return add(x, y)

    hijax.register_hitype(Vec, lambda v: VecType(v.arr.shape))

    class ToVec(hijax.HiPrimitive):
        def abstract_eval(self, x):
            return VecType(x.shape), set()

        def to_lojax(self, x):
            return Vec(x)

        def jvp(self, primals, tangents):
            return to(*primals), to(*tangents)

        def transpose(self, ct, x):
            return [of(ct)]

    class OfVec(hijax.HiPrimitive):
        def abstract_eval(self, v):
            return v.lo_ty()[0], set()

        def to_lojax(self, v):
            return v.arr

        def jvp(self, primals, tangents):
            return of(*primals), of(*tangents)

        def transpose(self, ct, v):
            return [to(ct)]

    class Mul(hijax.HiPrimitive):
        def abstract_eval(self, x, y):
            if x != y:
                raise TypeError(f"{x} times {y}")
            return x, set()

        def to_lojax(self, x, y):
            return Vec(x.arr * y.arr)

        def jvp(self, primals, tangents):
            (x, y), (x_dot, y_dot) = primals, map(hijax.instantiate_zeros, tangents)
            return mul(x, y), add(mul(x, y_dot), mul(x_dot, y))

        def transpose(self, ct, x, y):
            return (mul(ct, y), None) if hijax.is_undefined_primal(x) else (None, mul(x, ct))

    class Add(hijax.HiPrimitive):
        def abstract_eval(self, x, y):
            return x, set()

        def to_lojax(self, x, y):
            return Vec(x.arr + y.arr)

        def jvp(self, primals, tangents):
            return add(*primals), add(*map(hijax.instantiate_zeros, tangents))

        def transpose(self, ct, x, y):
            return [ct if hijax.is_undefined_primal(v) else None for v in (x, y)]

    class Split(hijax.HiPrimitive):
        """Several results."""

        multiple_results = True

        def abstract_eval(self, v, *, at):
            (n,) = v.shape
            return [VecType((at,)), VecType((n - at,))], set()

        def to_lojax(self, v, *, at):
            return Vec(v.arr[:at]), Vec(v.arr[at:])

        def jvp(self, primals, tangents, *, at):
            return self.bind(*primals, at=at), self.bind(*tangents, at=at)

        def transpose(self, cts, v, *, at):
            return [to(jnp.concatenate([of(hijax.instantiate_zeros(ct)) for ct in cts]))]

    to_p, of_p, mul_p, add_p, split_p = (
        ToVec("to_vec"),
        OfVec("of_vec"),
        Mul("mul_vec"),
        Add("add_vec"),
        Split("split_vec"),
    )
    to, of, mul, add = to_p.bind, of_p.bind, mul_p.bind, add_p.bind
    split = lambda v, at: split_p.bind(v, at=at)
    return SimpleNamespace(
        Vec=Vec, VecType=VecType, to=to, of=of, mul=mul, add=add, split=split, hijax=hijax
    )


@functools.cache
def quantized(name: str) -> SimpleNamespace:
    """Two arrays of different dtypes as one value, whose tangents are arrays, with operations as `VJPHiPrimitive`s."""
    jnp, hijax = import_module(f"{name}.numpy"), import_module(f"{name}.experimental.hijax")
    typeof = import_module(name).typeof

    @dataclasses.dataclass(frozen=True)
    class Quantized:
        values: Any
        scale: Any

    @dataclasses.dataclass(frozen=True)
    class QuantizedType(hijax.HiType):
        shape: tuple

        def lo_ty(self):
            return [
                hijax.ShapedArray(self.shape, jnp.dtype("int8")),
                hijax.ShapedArray((), jnp.dtype("float32")),
            ]

        def lower_val(self, q):
            return [q.values, q.scale]

        def raise_val(self, values, scale):
            return Quantized(values, scale)

        def to_tangent_aval(self):
            return hijax.ShapedArray(self.shape, jnp.dtype("float32"))

    hijax.register_hitype(Quantized, lambda q: QuantizedType(q.values.shape))

    class Quantize(hijax.VJPHiPrimitive):
        def __init__(self, x):
            self.in_avals, self.out_aval, self.params = (x,), QuantizedType(x.shape), {}
            super().__init__()

        def expand(self, x):
            scale = jnp.max(jnp.abs(x)) / 127
            return Quantized(jnp.round(x / scale).astype("int8"), scale)

        def vjp_fwd(self, nzs_in, x):
            return self(x), None

        def vjp_bwd_retval(self, res, g):
            return (g,)

        def batch_dim_rule(self, axis_data, dims):
            return 0

    class Dequantize(hijax.VJPHiPrimitive):
        def __init__(self, q):
            out = hijax.ShapedArray(q.shape, jnp.dtype("float32"))
            self.in_avals, self.out_aval, self.params = (q,), out, {}
            super().__init__()

        def expand(self, q):
            return q.values * q.scale

        def vjp_fwd(self, nzs_in, q):
            return self(q), None

        def vjp_bwd_retval(self, res, g):
            return (3 * g,)

        def batch_dim_rule(self, axis_data, dims):
            return 0

    return SimpleNamespace(
        Quantized=Quantized,
        QuantizedType=QuantizedType,
        quantize=lambda x: Quantize(typeof(x))(x),
        dequantize=lambda q: Dequantize(typeof(q))(q),
        hijax=hijax,
    )
