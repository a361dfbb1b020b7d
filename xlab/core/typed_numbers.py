"""Python numbers with the dtype that they have as arrays, for functions that ask their arguments for it."""

from __future__ import annotations

from typing import Any

from xlab.core.avals import ShapedArray, aval_of


class _Typed:
    __slots__ = ()

    @property
    def aval(self) -> ShapedArray:
        return aval_of(self)  # type: ignore[return-value]

    @property
    def dtype(self) -> Any:
        return self.aval.dtype


class TypedFloat(_Typed, float):
    """A `float` with `dtype` and `aval`; what is computed from it is a `float` again."""

    __slots__ = ()


class TypedComplex(_Typed, complex):
    """A `complex` with `dtype` and `aval`."""

    __slots__ = ()


# Not for `int`, which may be a size or an axis, and has to be nothing else.
_TYPED = {float: TypedFloat, complex: TypedComplex}


def typed_number(x: Any) -> Any:
    """The value itself; a Python number that is no integer with its dtype.

    Example:
        >>> x = typed_number(2.0)
        >>> x, x.dtype, typed_number("text")
        (2.0, dtype('float32'), 'text')
    """
    cls = _TYPED.get(type(x))
    return x if cls is None else cls(x)
