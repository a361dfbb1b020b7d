"""References to values of hi types: what `new_ref` makes of one. They are values of a mutable hi type themselves, and are read and written as a whole."""

from __future__ import annotations

from typing import Any

from xlab.core.avals import AbstractValue, aval_of
from xlab.core.hi_states import AvalQDD, MutableHiType
from xlab.core.hi_tracers import aval_method
from xlab.core.hi_types import NO_DERIVATIVE, HiType, in_use, register_hitype
from xlab.core.refs import AbstractRef, operations
from xlab.interpreters import ad
from xlab.interpreters.hi_primitives import HiPrimitive


def _whole(idx: Any, ty: Any) -> None:
    if idx is not None and idx is not Ellipsis and idx != ():
        raise TypeError(
            f"a reference of type {ty} is read and written as a whole, ref[...]: got the index {idx!r}, and only the type of the value knows its parts"
        )


def get(ref: Any, idx: Any = None) -> Any:
    """The value."""
    _whole(idx, aval_of(ref))
    return get_hi_ref_p.bind(ref)


def swap(ref: Any, value: Any, idx: Any = None) -> Any:
    """Stores a value and returns what was there."""
    _whole(idx, aval_of(ref))
    return swap_hi_ref_p.bind(ref, value)


def store(ref: Any, value: Any, idx: Any = None) -> None:
    """Stores a value."""
    swap(ref, value, idx)


class HiRef:
    """The reference itself."""

    __slots__ = ("type", "value")

    def __init__(self, type: HiRefType, value: Any):
        self.type, self.value = type, value

    def cur_qdd(self) -> tuple:
        """Nothing but its type says what it consists of."""
        return ()

    get, set, swap = get, store, swap

    def __getitem__(self, idx):
        return get(self, idx)

    def __setitem__(self, idx, value):
        store(self, value, idx)

    def __repr__(self):
        return f"HiRef({self.value!r})"


class HiRefType(MutableHiType):
    """The type of a reference to a value of a hi type."""

    get, set, swap = aval_method(get), aval_method(store), aval_method(swap)

    def __init__(self, inner: HiType):
        self.inner = inner
        in_use.types = in_use.mutable = True

    def lo_ty_qdd(self, state, /):
        return self.inner.lo_ty()

    def new_from_loval(self, state, /, *vals):
        return HiRef(self, self.inner.raise_val(*vals))

    def read_loval(self, state, val, /):
        return list(self.inner.lower_val(val.value))

    def update_from_loval(self, state, val, /, *lo_vals):
        val.value = self.inner.raise_val(*lo_vals)

    def to_tangent_aval(self) -> AbstractValue:
        tangent: Any = self.inner.to_tangent_aval()
        if tangent == NO_DERIVATIVE:
            return tangent
        return HiRefType(tangent) if isinstance(tangent, HiType) else AbstractRef(tangent)

    def _getitem(self, tracer, idx):
        return get(tracer, idx)

    def _setitem(self, tracer, idx, value):
        store(tracer, value, idx)

    def __eq__(self, other):
        return type(other) is HiRefType and self.inner == other.inner

    def __hash__(self):
        return hash((HiRefType, self.inner))

    def __repr__(self):
        return f"Ref{{{self.inner}}}"


register_hitype(HiRef, lambda ref: ref.type)


class _NewHiRef(HiPrimitive):
    def abstract_eval(self, value):
        return AvalQDD(HiRefType(value), ()), set()

    def to_lojax(self, value):
        return HiRef(HiRefType(aval_of(value)), value)

    def jvp(self, primals, tangents):
        return self.bind(*primals), operations["new"](ad.instantiate_zeros(*tangents))


class _Access(HiPrimitive):
    def is_effectful(self, params):
        return True


class _GetHiRef(_Access):
    def abstract_eval(self, ref):
        return ref.inner, set()

    def to_lojax(self, ref):
        return ref.value

    def jvp(self, primals, tangents):
        return self.bind(*primals), operations["get"](*tangents, None)


class _SwapHiRef(_Access):
    def abstract_eval(self, ref, value):
        if value != ref.inner:
            raise TypeError(
                f"a reference of type {ref.aval} holds a value of type {ref.inner}, and was given one of type {value}"
            )
        return value, set()

    def to_lojax(self, ref, value):
        old, ref.value = ref.value, value
        return old

    def jvp(self, primals, tangents):
        ref_dot, dot = tangents
        old = self.bind(*primals)
        if type(ref_dot) is ad.Zero:
            raise ValueError(
                f"a value with a derivative was stored in a reference of type {aval_of(primals[0])}, which is a constant here: make the reference "
                f"inside of the function, or store stop_gradient of the value"
            )
        return old, operations["swap"](ref_dot, None, ad.instantiate_zeros(dot))


new_hi_ref_p, get_hi_ref_p = _NewHiRef("new_hi_ref"), _GetHiRef("get_hi_ref")
swap_hi_ref_p = _SwapHiRef("swap_hi_ref")
