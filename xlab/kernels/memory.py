"""Memory spaces of kernels, and the types of what lives in them."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Sequence
from typing import Any

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, value_and_type
from xlab.core.refs import AbstractRef


class MemorySpace(enum.Enum):
    """Where a kernel's arrays live. Calling a space with a shape and a dtype gives the type of a reference in it.

    On a CPU all spaces are ordinary memory. What differs is who owns a buffer: the whole call (ANY, HOST, SHARED) or each core
    (DEFAULT, LOCAL).

    Example:
        >>> from xlab.kernels import MemorySpace
        >>> MemorySpace.LOCAL((8, 128), "float32")
        MemoryRef(float32[8,128], local)
    """

    ANY = "any"
    DEFAULT = "default"
    ERROR = "error"
    INDEX = "index"
    KEY = "key"
    HOST = "host"
    SHARED = "shared"
    LOCAL = "local"
    SEMAPHORE = "semaphore"

    def __str__(self):
        return self.value

    __repr__ = __str__

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        return MemoryRef(ShapedArray(tuple(shape), dtypes.canonicalize_dtype(dtype)), self)

    @property
    def per_core(self) -> bool:
        """Whether each core has its own copy."""
        return self in (MemorySpace.DEFAULT, MemorySpace.LOCAL)


@functools.total_ordering
class MemoryRef:
    """The type of a reference to make: scratch memory of a kernel, or an output in a space of its own.

    Args:
        inner_aval: the type of the array inside.
        memory_space: where it lives.

    Example:
        >>> from xlab.kernels import MemorySpace
        >>> ref = MemorySpace.SHARED((2, 3), "int32")
        >>> ref.shape, ref.dtype.name, ref.get_ref_aval()
        ((2, 3), 'int32', AbstractRef(int32[2,3]))
    """

    __slots__ = ("inner_aval", "memory_space")

    def __init__(self, inner_aval: ShapedArray, memory_space: Any):
        self.inner_aval, self.memory_space = inner_aval, memory_space

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)
    ndim = property(lambda self: self.inner_aval.ndim)
    size = property(lambda self: math.prod(self.shape))

    def get_array_aval(self) -> ShapedArray:
        """The type of the array inside."""
        return self.inner_aval

    def get_ref_aval(self) -> AbstractRef:
        """The type of the reference."""
        return AbstractRef(self.inner_aval, self.memory_space)

    def _key(self):
        return self.shape, dtypes.name(self.dtype), str(self.memory_space)

    def __eq__(self, other):
        if not isinstance(other, MemoryRef):
            return NotImplemented
        return (self.inner_aval, self.memory_space) == (other.inner_aval, other.memory_space)

    def __lt__(self, other):
        return self._key() < other._key() if isinstance(other, MemoryRef) else NotImplemented

    def __hash__(self):
        return hash((self.inner_aval, self.memory_space))

    def __repr__(self):
        return f"MemoryRef({self.inner_aval.str_short(short_dtypes=False)}, {self.memory_space})"


def as_ref_aval(x: Any, default: Any = None) -> AbstractRef:
    """The type of the reference that `x` asks for: anything with `get_ref_aval`, or with a shape and a dtype.

    Args:
        x: a `MemoryRef`, a `ShapeDtypeStruct`, an array, an `AbstractRef`.
        default: the memory space for what names none.

    Raises:
        ValueError: `x` describes no array.
    """
    if isinstance(x, AbstractRef):
        return x
    if hasattr(x, "get_ref_aval"):
        return x.get_ref_aval()
    if isinstance(x, ShapedArray):
        return AbstractRef(x, default if x.memory_space is None else None)
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is None or dtype is None:
        raise ValueError(
            f"expected the type of an array (xlab.ShapeDtypeStruct, a MemoryRef such as MemorySpace.LOCAL(shape, dtype), or "
            f"anything with a shape and a dtype), got {value_and_type(x)}"
        )
    return AbstractRef(ShapedArray(tuple(shape), dtypes.canonicalize_dtype(dtype)), default)


ANY, HOST = MemorySpace.ANY, MemorySpace.HOST
