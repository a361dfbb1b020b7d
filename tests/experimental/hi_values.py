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


@functools.cache
def boxes(name: str) -> SimpleNamespace:
    """`Box`, which holds a pytree of arrays that can be replaced by any other."""
    jax, hijax = import_module(name), import_module(f"{name}.experimental.hijax")
    cur_qdd, tree = import_module(f"{name}.experimental").cur_qdd, jax.tree

    @dataclasses.dataclass(frozen=True)
    class State:
        avals: tuple
        tree: Any

        def to_tangent_qdd(self):
            return State(tuple(a.to_tangent_aval() for a in self.avals), self.tree)

        def normalize(self):
            return State(tuple(a.strip_weak_type() for a in self.avals), self.tree)

    def state_of(value):
        leaves, structure = tree.flatten(value)
        return State(tuple(map(jax.typeof, leaves)), structure)

    class Box:
        def __init__(self, value):
            self.value = value

        def cur_qdd(self):
            return state_of(self.value)

        type_state = cur_qdd

        def get(self):
            return get(self)

        def set(self, value):
            set_(self, value)

    class BoxType(hijax.MutableHiType):
        has_qdd = True
        get = hijax.aval_method(lambda box: get(box))
        set = hijax.aval_method(lambda box, value: set_(box, value))

        def __eq__(self, other):
            return isinstance(other, BoxType)

        def __hash__(self):
            return hash(BoxType)

        def str_short(self, short_dtypes=False, **_):
            return "Box"

        def lo_ty_qdd(self, state):
            return list(state.avals)

        def new_from_loval(self, state, *arrays):
            return Box(tree.unflatten(state.tree, arrays))

        def read_loval(self, state, box):
            return tree.leaves(box.value)

        def update_from_loval(self, state, box, *arrays):
            box.value = tree.unflatten(state.tree, arrays)

        def to_tangent_aval(self):
            return BoxType()

    hijax.register_hitype(Box, lambda box: BoxType())

    class New(hijax.HiPrimitive):
        def is_effectful(self, params):
            return True

        def abstract_eval(self, *avals, structure):
            return hijax.AvalQDD(BoxType(), State(avals, structure)), set()

        def to_lojax(self, *leaves, structure):
            return Box(tree.unflatten(structure, leaves))

        def jvp(self, primals, tangents, *, structure):
            dots = map(hijax.instantiate_zeros, tangents)
            return self.bind(*primals, structure=structure), self.bind(*dots, structure=structure)

    class Set(hijax.HiPrimitive):
        multiple_results = True

        def is_effectful(self, params):
            return True

        def abstract_eval(self, box, *avals, structure):
            box.mutable_qdd.update(State(avals, structure))
            return [], set()

        def to_lojax(self, box, *leaves, structure):
            box.value = tree.unflatten(structure, leaves)
            return []

        def jvp(self, primals, tangents, *, structure):
            self.bind(*primals, structure=structure)
            if type(tangents[0]) is not hijax.Zero:
                dots = map(hijax.instantiate_zeros, tangents[1:])
                self.bind(tangents[0], *dots, structure=structure)
            elif any(type(t) is not hijax.Zero for t in tangents[1:]):
                raise ValueError("a constant box got a value with a tangent")
            return [], []

    class Get(hijax.HiPrimitive):
        multiple_results = True

        def is_effectful(self, params):
            return True

        def abstract_eval(self, box, *, avals):
            return list(avals), set()

        def to_lojax(self, box, *, avals):
            return tree.leaves(box.value)

        def jvp(self, primals, tangents, *, avals):
            dots = tuple(a.to_tangent_aval() for a in avals)
            return self.bind(*primals, avals=avals), self.bind(*tangents, avals=dots)

    new_p, set_p, get_p = New("new_box_"), Set("set_box_"), Get("get_box_")

    def new(value):
        leaves, structure = tree.flatten(value)
        return new_p.bind(*leaves, structure=structure)

    def set_(box, value):
        leaves, structure = tree.flatten(value)
        set_p.bind(box, *leaves, structure=structure)

    def get(box):
        state = cur_qdd(box)
        return tree.unflatten(state.tree, get_p.bind(box, avals=state.avals))

    return SimpleNamespace(Box=Box, BoxType=BoxType, new=new, get=get, set=set_, cur_qdd=cur_qdd)
