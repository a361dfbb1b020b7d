"""Gives arrays, concrete, traced and of keys, their operators and methods.

`install(module)` is called once, by `xlab.numpy` with itself. A method is the function of the same name; an
operator checks the other operand's class and goes to the compiled program of its function, or, while something is
traced, to the function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from xlab.backend.arrays import ArrayImpl
from xlab.core import dtypes
from xlab.core.array import KeyArray, install_members
from xlab.core.avals import HOST_VALUES
from xlab.core.refs import AbstractRef, Ref, in_brackets
from xlab.core.trace import EVAL, Tracer, state
from xlab.lax.complexes import complex as complex_
from xlab.lax.convert import bitcast_convert_type, convert_element_type
from xlab.lax.creation import copy
from xlab.lax.ref_functions import ref_get, ref_set
from xlab.lax.ref_views import RefIndexer
from xlab.lax.shape import concatenate, rev
from xlab.numpy import indexing as _indexing
from xlab.numpy.array_api import check_version
from xlab.numpy.operands import numbers
from xlab.numpy.ufuncs import equal
from xlab.numpy.updates import At

# operator: (function, whether it has a reflected form)
BINARY = {"add": ("add", True), "sub": ("subtract", True), "mul": ("multiply", True), "truediv": ("divide", True),
          "floordiv": ("floor_divide", True), "mod": ("remainder", True), "divmod": ("divmod", True),
          "pow": ("power", True), "matmul": ("matmul", True), "and": ("bitwise_and", True), "or": ("bitwise_or", True),
          "xor": ("bitwise_xor", True), "lshift": ("left_shift", True), "rshift": ("right_shift", True),
          "eq": ("equal", False), "ne": ("not_equal", False), "lt": ("less", False), "le": ("less_equal", False),
          "gt": ("greater", False), "ge": ("greater_equal", False)}  # fmt: skip

UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_not"}

# Methods that are the function of the same name with the array as first argument.
METHODS = ("all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "conj",
           "conjugate", "cumprod", "cumsum", "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ptp", "ravel", "repeat",
           "round", "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var")  # fmt: skip


def install(module: ModuleType) -> None:
    """Installs operators and methods made of the functions of `module` (`xlab.numpy`)."""
    namespace = vars(module)
    members: dict[str, Any] = {}
    for op, (name, reflected) in BINARY.items():
        fun = namespace[name]
        members[f"__{op}__"] = binary_operator(fun)
        if reflected:
            members[f"__r{op}__"] = reflected_operator(fun)
    for op, name in UNARY.items():
        members[f"__{op}__"] = unary_operator(namespace[name])
    members.update({name: namespace[name] for name in METHODS})
    members.update(_shaped(namespace))
    members.update(
        {
            "T": property(namespace["transpose"], doc="The array with its dimensions reversed."),
            "mT": property(
                namespace["matrix_transpose"],
                doc="The array with its last two dimensions exchanged.",
            ),
            "real": property(namespace["real"], doc="The real parts."),
            "imag": property(namespace["imag"], doc="The imaginary parts."),
            "to_device": _to_device(namespace["asarray"]),
            "__getitem__": _indexing.array_getitem,
            "__iter__": _indexing.iterate,
            "__array_namespace__": functools.partialmethod(_array_namespace, module),
        }
    )
    members.update(_MEMBERS)
    install_members(members)
    _install_on_keys(members)


# -- operators ----------------------------------------------------------------------------------------------

# Whether operators take a class of operands; filled in as classes are met.
_accepts: dict[type, bool] = {}


def _accepted(cls: type) -> bool:
    found = _accepts[cls] = issubclass(cls, (ArrayImpl, Tracer, KeyArray, *HOST_VALUES)) or hasattr(
        cls, "__jax_array__"
    )
    return found


def _compiled(fun: Callable) -> Callable:
    """What runs a function on concrete values, without a look at what is traced where it can be had."""
    compiled = getattr(fun, "compiled", fun)
    return compiled.made() if hasattr(compiled, "made") else compiled


def binary_operator(fun: Callable) -> Callable:
    """The method of an operator: NotImplemented for operands that are no arrays, so that Python asks their class."""
    compiled = _compiled(fun)
    accepts = _accepts

    def operator(self, other):
        cls = other.__class__
        if not (accepts[cls] if cls in accepts else _accepted(cls)):
            return NotImplemented
        if state.trace is EVAL:
            return compiled(self, other)
        return fun(self, other)

    operator.__name__ = fun.__name__
    return operator


def reflected_operator(fun: Callable) -> Callable:
    """The method of an operator whose array stands on the right."""
    compiled = _compiled(fun)
    accepts = _accepts

    def operator(self, other):
        cls = other.__class__
        if not (accepts[cls] if cls in accepts else _accepted(cls)):
            return NotImplemented
        if state.trace is EVAL:
            return compiled(other, self)
        return fun(other, self)

    operator.__name__ = fun.__name__
    return operator


def unary_operator(fun: Callable) -> Callable:
    compiled = _compiled(fun)

    def operator(self):
        if state.trace is EVAL:
            return compiled(self)
        return fun(self)

    operator.__name__ = fun.__name__
    return operator


# -- methods with signatures of their own -------------------------------------------------------------------


def _shaped(namespace) -> dict[str, Any]:
    reshape_, ravel, transpose_, round_, compress_ = (
        namespace[n] for n in ("reshape", "ravel", "transpose", "round", "compress")
    )
    any_, astype = namespace["any"], namespace["astype"]

    def reshape(self, *shape, order: str = "C", copy=None, out_sharding=None):
        """The elements in another shape, given as one tuple or as several numbers."""
        return reshape_(
            self, shape[0] if len(shape) == 1 else shape, order=order, out_sharding=out_sharding
        )

    def compress(
        self, condition, axis: int | None = None, *, out=None, size: int | None = None, fill_value=0
    ):
        """The slices along an axis at which a vector of conditions holds; see `xlab.numpy.compress`."""
        return compress_(condition, self, axis, size=size, fill_value=fill_value, out=out)

    def flatten(self, order: str = "C", *, out_sharding=None):
        """The elements in one dimension."""
        return ravel(self, order=order, out_sharding=out_sharding)

    def transpose(self, *axes):
        """The array with its dimensions in another order, given as one tuple or as several numbers; reversed by default."""
        if len(axes) == 1:
            return transpose_(self, None if axes[0] is None else numbers(axes[0]))
        return transpose_(self, axes or None)

    def __round__(self, ndigits=None):
        out = round_(self, ndigits or 0)
        return astype(out, int) if ndigits is None else out

    def __contains__(self, item):
        return bool(any_(self == item))

    return {f.__name__: f for f in (reshape, compress, flatten, transpose, __round__, __contains__)}


def _setitem(self, index, value):
    """Always an error: arrays do not change."""
    raise TypeError(
        "arrays are immutable and do not support item assignment. Instead of x[index] = y, write "
        "x = x.at[index].set(y) (or .add, .multiply, ...: see x.at)"
    )


def _delitem(self, index):
    """Always an error: arrays do not change."""
    raise TypeError(
        "arrays are immutable: elements cannot be deleted. Build the array you want with xlab.numpy.delete(x, index) "
        "or by indexing"
    )


def _copy(self):
    """The values in a buffer of their own."""
    return copy(self)


def _view(self, dtype=None, type=None):
    """The same bits as another dtype; the last dimension grows or shrinks where sizes differ."""
    if type is not None:
        raise NotImplementedError(
            "the 'type' argument of view is not supported: arrays have one class"
        )
    if dtype is None:
        return self
    dtype = dtypes.canonicalize_dtype(dtype)
    mine, other = dtypes.itemsize(self.dtype), dtypes.itemsize(dtype)
    if self.dtype == np.bool_ and dtype != np.bool_:
        self = self.astype(np.uint8)
    if dtype == np.bool_:
        return bitcast_convert_type(self, np.uint8) != 0 if self.dtype != np.bool_ else self
    # The compiler reads no bits of complex numbers.
    by_parts = self.dtype != dtype and "c" in (
        self.dtype.kind,
        dtype.kind,
    )
    if mine == other and not by_parts:
        return bitcast_convert_type(self, dtype)
    if not self.ndim:
        raise ValueError(
            "view cannot change the item size of an array without dimensions: reshape it to (1,) first"
        )
    if by_parts and self.dtype.kind == "c":
        pairs = concatenate(
            [part.reshape(*self.shape, 1) for part in (self.real, self.imag)], self.ndim
        )
        return pairs.reshape(*self.shape[:-1], 2 * self.shape[-1]).view(dtype)
    if other < mine:
        out = bitcast_convert_type(self, dtype)
        return out.reshape(*self.shape[:-1], self.shape[-1] * (mine // other))
    if self.shape[-1] * mine % other:
        raise ValueError(
            f"view from {self.dtype} to {dtype} needs a last dimension that is a multiple of {other // mine}, got "
            f"shape {self.shape}"
        )
    if by_parts:
        parts = self.view(f"float{dtype.itemsize * 4}")
        parts = parts.reshape(*self.shape[:-1], parts.shape[-1] // 2, 2)
        return complex_(parts[..., 0], parts[..., 1])
    return bitcast_convert_type(self.reshape(*self.shape[:-1], -1, other // mine), dtype)


def _byteswap(self):
    """The elements with their bytes in the opposite order."""
    if dtypes.itemsize(self.dtype) == 1:
        return copy(self)
    if dtypes.issubdtype(self.dtype, np.complexfloating):
        return complex_(_byteswap(self.real), _byteswap(self.imag))
    return bitcast_convert_type(rev(bitcast_convert_type(self, np.uint8), (self.ndim,)), self.dtype)


def _to_device(asarray):
    def to_device(self, device, *, stream=None):
        """The array on a device, or laid out by a sharding."""
        if stream is not None:
            raise NotImplementedError(
                "to_device takes no stream: transfers are ordered by what uses them"
            )
        return asarray(self, device=device)

    return to_device


def _flat(self):
    """Always an error: there is no iterator that writes."""
    raise NotImplementedError("arrays have no flat iterator: use x.ravel() or x.flatten()")


def _array_namespace(self, namespace, *, api_version=None):
    check_version(api_version)
    return namespace


def _item(self, *args):
    """The one element as a Python number, where the transformation knows it."""
    value = self.concrete()
    if value is None:
        return self._number(lambda v: v, "item()")
    return np.asarray(value).item(*args)


_MEMBERS = {
    "__setitem__": _setitem,
    "__delitem__": _delitem,
    "at": property(
        At, doc="Updates without assignment: `x.at[index].set(values)`, `.add`, `.get` and so on."
    ),
    "byteswap": _byteswap,
    "copy": _copy,
    "flat": property(_flat),
    "view": _view,
}


# -- traced references ---------------------------------------------------------------------------------------


def _traced_getitem(self, index):
    return (
        ref_get(self, in_brackets(index))
        if type(self.aval) is AbstractRef
        else _indexing.array_getitem(self, index)
    )


def _traced_setitem(self, index, value):
    if type(self.aval) is not AbstractRef:
        _setitem(self, index, value)
    ref_set(self, in_brackets(index), value)


def _traced_iter(self):
    if type(self.aval) is not AbstractRef:
        return _indexing.iterate(self)
    return (ref_get(self, i) for i in range(len(self)))


class _OnRefs:
    """A method that traced references have, in place of the array's method of the same name if there is one."""

    def __init__(self, name, fun, array_member):
        self.name, self.fun, self.array_member = name, fun, array_member

    def __get__(self, x, cls):
        if x is None:
            return self
        if type(x.aval) is AbstractRef:
            return self.fun.__get__(x, cls)
        if self.array_member is None:
            raise AttributeError(f"{cls.__name__!r} object has no attribute {self.name!r}")
        return self.array_member.__get__(x, cls)


_REF_METHODS = ("reshape", "transpose", "T", "bitcast", "get", "set", "swap", "addupdate")

_TRACED_REFS = {
    "__getitem__": _traced_getitem,
    "__setitem__": _traced_setitem,
    "__iter__": _traced_iter,
    "at": property(
        lambda self: (RefIndexer if type(self.aval) is AbstractRef else At)(self), doc=At.__doc__
    ),
}


# -- keys ---------------------------------------------------------------------------------------------------


def _key_equal(self, other):
    if not isinstance(other, (KeyArray, Tracer)) or other.dtype != self.dtype:
        return NotImplemented
    return equal(self, other)


def _key_not_equal(self, other):
    same = _key_equal(self, other)
    return same if same is NotImplemented else ~same


_KEY_MEMBERS = {
    "__getitem__": _indexing.key_getitem,
    "__iter__": _indexing.iterate_keys,
    "__setitem__": _setitem,
    "copy": lambda self: self,
    "astype": lambda self, dtype: convert_element_type(self, dtype),
    "__eq__": _key_equal,
    "__ne__": _key_not_equal,
    "at": property(At),
}

# Members of all arrays that only move elements: keys have them as well.
_OF_ANYTHING = (
    "T",
    "compress",
    "diagonal",
    "flatten",
    "mT",
    "ravel",
    "repeat",
    "reshape",
    "squeeze",
    "swapaxes",
    "take",
    "transpose",
)


def _install_on_keys(members: dict[str, Any]) -> None:
    for name, member in {**{name: members[name] for name in _OF_ANYTHING}, **_KEY_MEMBERS}.items():
        setattr(KeyArray, name, member)
    for name, member in _TRACED_REFS.items():
        setattr(Tracer, name, member)
    for name in _REF_METHODS:
        setattr(
            Tracer, name, _OnRefs(name, inspect.getattr_static(Ref, name), vars(Tracer).get(name))
        )
    Tracer.item = _item
    Tracer.block_until_ready = lambda self: self
