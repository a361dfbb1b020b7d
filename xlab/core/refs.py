"""Mutable references: their type, and the cell that holds an array when nothing is traced.

A reference names a place that programs read and write. `AbstractRef` is its type, with the type of the array inside; `Ref` is
the concrete cell. The operations are primitives of `lax/refs.py`, which registers itself here; before a program is lowered
`interpreters/discharge.py` turns them into operations on values.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from xlab.core import avals as _avals
from xlab.core import source_info as _source_info
from xlab.core.avals import AbstractValue, ShapedArray
from xlab.core.locations import current_source_info
from xlab.core.trace import Tracer

_interned: weakref.WeakValueDictionary[tuple, AbstractRef] = weakref.WeakValueDictionary()
_lock = threading.Lock()


class AbstractRef(AbstractValue):
    """Type of a mutable reference: the type of the array inside, its memory space, and how derivatives treat it.

    References of kind 'no_grad_no_remat' take no part in differentiation: what is written to them counts as constant.
    Like `ShapedArray`, equal types are one object.

    Example:
        >>> import numpy as np
        >>> AbstractRef(ShapedArray((3,), np.float32))
        AbstractRef(float32[3])
    """

    __slots__ = ("__weakref__", "inner_aval", "kind", "memory_space")

    inner_aval: ShapedArray
    memory_space: Any
    kind: str | None

    def __new__(cls, inner_aval, memory_space=None, kind=None):
        if inner_aval.memory_space is not None:
            if memory_space is not None and memory_space != inner_aval.memory_space:
                raise ValueError(
                    f"a reference in memory space {memory_space} cannot hold {inner_aval}, which lives in "
                    f"{inner_aval.memory_space}: ask for that space, or move the array first"
                )
            memory_space, inner_aval = (
                memory_space or inner_aval.memory_space,
                inner_aval.update(memory_space=None),
            )
        key = (inner_aval, memory_space, kind)
        with _lock:
            self = _interned.get(key)
            if self is None:
                self = object.__new__(cls)
                self.inner_aval, self.memory_space, self.kind = key
                _interned[key] = self
        return self

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)
    ndim = property(lambda self: self.inner_aval.ndim)
    size = property(lambda self: self.inner_aval.size)
    weak_type = property(lambda self: self.inner_aval.weak_type)
    mat = property(lambda self: self.inner_aval.mat)
    vma = property(lambda self: self.inner_aval.vma)
    sharding = property(lambda self: self.inner_aval.sharding)
    explicit_sharding = property(lambda self: self.inner_aval.explicit_sharding)
    nbytes = property(lambda self: self.inner_aval.nbytes)

    def update(self, **changes: Any) -> AbstractRef:
        """This type with fields of the array inside replaced."""
        return AbstractRef(self.inner_aval.update(**changes), self.memory_space, self.kind)

    def with_dimension(self, d: int, size: int, *_: Any) -> AbstractRef:
        """The type with a new dimension in place `d`."""
        return self.update(shape=(*self.shape[:d], size, *self.shape[d:]))

    def without_dimension(self, d: int) -> AbstractRef:
        return self.update(shape=(*self.shape[:d], *self.shape[d + 1 :]))

    def strip_weak_type(self) -> AbstractRef:
        return self.update(weak_type=False) if self.weak_type else self

    def to_tangent_aval(self) -> AbstractRef:
        return AbstractRef(self.inner_aval.to_tangent_aval(), self.memory_space, self.kind)

    def str_short(self, short_dtypes: bool = False) -> str:
        space = f"<{self.memory_space}>" if self.memory_space is not None else ""
        return f"Ref{space}{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __str__(self):
        return self.str_short(short_dtypes=False)

    def __repr__(self):
        return f"AbstractRef({self.inner_aval.str_short(short_dtypes=False)})"

    def __reduce__(self):
        return AbstractRef, (self.inner_aval, self.memory_space, self.kind)


def is_ref(x: Any) -> bool:
    """Whether a value is a reference, concrete or traced."""
    return type(x) is Ref or (isinstance(x, Tracer) and type(x.aval) is AbstractRef)


class _RefMeta(type):
    def __instancecheck__(cls, x):
        return is_ref(x)


# `lax/ref_functions.py`: (ref, index) -> value; (ref, index, value) -> None, old value, None; ref -> what makes views.
operations: dict[str, Any] = {}


def set_operations(**given):
    operations.update(given)


def in_brackets(index):
    """An index as it stands in brackets, where None asks for a new dimension; for functions it means everything."""
    return (None,) if index is None else index


class Accessible:
    """What references and views of them have in common: how they are read and written."""

    __slots__ = ()
    __array_ufunc__ = None

    aval: AbstractRef

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    def __getitem__(self, index):
        return operations["get"](self, in_brackets(index))

    def __setitem__(self, index, value):
        operations["set"](self, in_brackets(index), value)

    def get(self, idx=None):
        """The value at an index, or the whole."""
        return operations["get"](self, idx)

    def set(self, value: Any, idx: Any = None) -> None:
        """Stores a value at an index, or in place of the whole."""
        operations["set"](self, idx, value)

    def swap(self, value, idx=None):
        """Stores a value at an index and returns what was there."""
        return operations["swap"](self, idx, value)

    def addupdate(self, x: Any, idx: Any = None) -> None:
        """Adds to the value at an index."""
        operations["addupdate"](self, idx, x)

    def __len__(self):
        if not self.shape:
            raise TypeError(
                "len() of unsized object: the reference holds an array without dimensions"
            )
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))


class Ref(Accessible, metaclass=_RefMeta):
    """A mutable reference to an array: `ref[...]` reads, `ref[index] = value` writes. Make one with `xlab.new_ref`.

    The array inside is replaced by every write. Its buffer is used again for the new one as long as nobody else has it:
    reading the whole array hands the buffer out, and the next write then makes another.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> ref = xlab.new_ref(jnp.zeros(3))
        >>> ref[1] = 5.0
        >>> ref[2] += 1.0
        >>> ref
        Ref([0., 5., 1.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_gone", "_shared", "_value", "aval", "raw_source_info")

    aval: AbstractRef
    raw_source_info: tuple
    _gone: str | None

    def __init__(self, aval: AbstractRef, value: Any):
        self.aval = aval
        self.raw_source_info = current_source_info()
        self._value, self._shared, self._gone = value, True, None

    # -- the cell ------------------------------------------------------------------------------------------

    def peek(self):
        """The array inside, to be read at once and not kept."""
        if self._gone is not None:
            raise ValueError(
                f"the reference of type {self.aval} made at {self.origin()} was given up by {self._gone}: it has no "
                f"value any more. Make a new one with xlab.new_ref."
            )
        return self._value

    def share(self):
        """The array inside, to be kept: the next write does not touch its buffer."""
        value = self.peek()
        self._shared = True
        return value

    def origin(self) -> str:
        """Where it was made."""
        return str(_source_info.SourceInfo(*self.raw_source_info))

    @property
    def owned(self) -> bool:
        """Whether this reference is the only owner of the buffer, so that a write may reuse it."""
        return not self._shared

    def store(self, value: Any, *, shared: bool = False) -> None:
        """Replaces the array inside."""
        self._value, self._shared = value, shared

    def end(self, how: str) -> Any:
        """Gives the reference up; returns its last value."""
        value = self.peek()
        self._value, self._gone = None, how
        return value

    # -- what users call -----------------------------------------------------------------------------------

    at = property(
        lambda self: operations["at"](self), doc="Views: `ref.at[index]` is a reference to a part."
    )

    def reshape(self, *shape: Any) -> Any:
        """A view of all elements in another shape; one size may be -1."""
        return operations["view"](self).reshape(*shape)

    def transpose(self, *permutation: Any) -> Any:
        """A view with the dimensions in another order; reversed if none is given."""
        return operations["view"](self).transpose(*permutation)

    T = property(lambda self: self.transpose(), doc="A view with the dimensions reversed.")

    def bitcast(self, dtype: Any) -> Any:
        """A view of the same bits as another dtype."""
        return operations["view"](self).bitcast(dtype)

    sharding = property(lambda self: self.peek().sharding)
    committed = property(lambda self: self.peek().committed)

    def unsafe_buffer_pointer(self) -> int:
        """Address of the buffer, good until the next write."""
        return self.peek().unsafe_buffer_pointer()

    def __bool__(self):
        raise TypeError(
            f"the truth of a reference of type {self.aval} is not defined: read it first, as ref[...]"
        )

    def __array__(self, *args, **kwargs):
        raise TypeError(
            f"NumPy was given a reference of type {self.aval}: read it first, as ref[...]"
        )

    def __repr__(self):
        return (
            f"Ref({self.aval}, given up by {self._gone})"
            if self._gone
            else f"Ref{repr(self._value).removeprefix('Array')}"
        )

    def __reduce__(self):
        return operations["new"], (self.share(),)


def _no_operator(symbol):
    def refuse(self, other=None):
        raise TypeError(
            f"unsupported operand type(s) for {symbol}: a reference of type {self.aval} is a place, not a value. "
            f"Read it with [...] first."
        )

    return refuse


_BINARY = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@", "and": "&",
           "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}  # fmt: skip
_UNARY = {"neg": "-", "pos": "+", "abs": "abs()", "invert": "~"}


def operator_symbols() -> list[tuple[str, str]]:
    """Every arithmetic operator: the name of its method without underscores, and how it is written."""
    both = [*_BINARY.items(), *_UNARY.items()]
    return [*both, *((f"r{name}", symbol) for name, symbol in list(_BINARY.items())[:-4])]


def no_operators(cls: type) -> None:
    """Makes every arithmetic operator of a class of references an error that says how to read them."""
    for name, symbol in operator_symbols():
        setattr(cls, f"__{name}__", _no_operator(symbol))


no_operators(Ref)

_avals.aval_makers[Ref] = lambda x: x.aval
_avals.aval_makers[AbstractRef] = lambda x: x
