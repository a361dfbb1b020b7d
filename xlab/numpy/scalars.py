"""Scalar types (`jnp.float32` and the like), constants, and questions about dtypes.

A scalar type stands for a dtype wherever one is expected, equals NumPy's type of the same name, and makes an array
when called.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.array import Array as ndarray
from xlab.core.avals import value_and_type
from xlab.core.dtypes import finfo, iinfo, promote_types, result_type
from xlab.core.typing import ArrayLike, DTypeLike

__all__ = ["bool_", "can_cast", "character", "complex64", "complex128", "dtype", "e", "euler_gamma", "finfo", "flexible",
           "float16", "float32", "float64", "bfloat16", "iinfo", "inexact", "inf", "int1", "int2", "int4", "int8", "int16", "int32",
           "int64", "integer", "isdtype", "issubdtype", "iscomplexobj", "isrealobj", "isscalar", "nan", "ndarray",
           "newaxis", "number", "pi", "promote_types", "result_type", "uint1", "uint2", "uint4", "uint8", "uint16", "uint32",
           "uint64"]  # fmt: skip


class _ScalarType(type):
    """A class per element type: calling it makes an array, comparing it compares dtypes."""

    dtype: np.dtype

    def __call__(cls, x):
        from xlab.numpy.creation import array

        return array(x, dtype=cls.dtype)

    def __eq__(cls, other):
        return (
            cls is other
            or cls.dtype.type is other
            or (not isinstance(other, type) and cls.dtype == other)
        )

    def __ne__(cls, other):
        return not cls == other

    def __hash__(cls):
        return hash(cls.dtype.type)

    def __instancecheck__(cls, x):
        return isinstance(x, cls.dtype.type)

    def __repr__(cls):
        return f"<class 'xlab.numpy.{cls.__name__}'>"


def _scalar_type(name: str) -> _ScalarType:
    dtype = dtypes.to_dtype(name)
    doc = (
        f"Elements of type {dtype.name}; calling it makes an array of that type.\n\n    Example:\n"
        f"        >>> import xlab.numpy as jnp\n        >>> jnp.{name} == jnp.dtype(jnp.{name})\n        True\n    "
    )
    return _ScalarType(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "xlab.numpy"})


bool_ = _scalar_type("bool")
int8, int16, int32, int64 = map(_scalar_type, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(_scalar_type, ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64, bfloat16 = map(
    _scalar_type, ("float16", "float32", "float64", "bfloat16")
)
complex64, complex128 = map(_scalar_type, ("complex64", "complex128"))
int1, int2, int4 = map(_scalar_type, ("int1", "int2", "int4"))
uint1, uint2, uint4 = map(_scalar_type, ("uint1", "uint2", "uint4"))
float4_e2m1fn, float6_e2m3fn, float6_e3m2fn = map(
    _scalar_type, ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
)
float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz = map(
    _scalar_type,
    ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
)
float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu = map(
    _scalar_type, ("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
)
single, double, csingle, cdouble = float32, float64, complex64, complex128
int_, uint, float_, complex_ = int64, uint64, float64, complex128

dtype = np.dtype
generic, number, inexact, floating = np.generic, np.number, np.inexact, np.floating
complexfloating, integer = np.complexfloating, np.integer
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
flexible, character, object_ = np.flexible, np.character, np.object_
ComplexWarning = np.exceptions.ComplexWarning

pi, e, euler_gamma, inf, nan, newaxis = np.pi, np.e, np.euler_gamma, np.inf, np.nan, None


def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Whether dtype or category `arg1` lies in dtype or category `arg2`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.issubdtype(jnp.bfloat16, jnp.floating)
        True
    """
    return dtypes.issubdtype(arg1, arg2)


def can_cast(from_: DTypeLike | ArrayLike, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether a cast keeps values, by NumPy's rules.

    Args:
        from_: a dtype or an array.
        to: a dtype.
        casting: 'no', 'equiv', 'safe', 'same_kind' or 'unsafe'.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.can_cast(jnp.int32, jnp.float64)
        True
    """
    if from_ is None or to is None:
        raise TypeError(f"can_cast did not understand one of the types: got {from_!r} and {to!r}")
    source = from_ if isinstance(from_, (bool, int, float, complex)) else dtypes.to_dtype(from_)
    return bool(np.can_cast(source, dtypes.to_dtype(to), casting=casting))


def isdtype(dtype: DTypeLike, kind: DTypeLike | str | tuple[DTypeLike | str, ...]) -> bool:
    """Whether a dtype is of a kind: a dtype, or one of NumPy's kind names, or a tuple of them.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.isdtype(jnp.bfloat16, "real floating")
        True
    """
    names = {
        "bool": np.bool_,
        "signed integer": np.signedinteger,
        "unsigned integer": np.unsignedinteger,
        "integral": np.integer,
        "real floating": np.floating,
        "complex floating": np.complexfloating,
        "numeric": np.number,
    }
    found = dtypes.to_dtype(dtype)
    for k in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(k, str) and k in names:
            if issubdtype(found, names[k]):
                return True
        elif isinstance(k, str):
            raise ValueError(f"unrecognized kind {k!r}: expected a dtype or one of {sorted(names)}")
        elif found == dtypes.to_dtype(k):
            return True
    return False


def isscalar(element: Any) -> bool:
    """Whether a value is a Python or NumPy number (or text), or an array of this package or of NumPy without dimensions.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.isscalar(1.0), jnp.isscalar([1.0])
        (True, False)
    """
    if isinstance(element, np.ndarray) or hasattr(element, "aval"):
        return (
            np.shape(element) == () if isinstance(element, np.ndarray) else element.aval.shape == ()
        )
    return np.isscalar(element)


def iscomplexobj(x: Any) -> bool:
    """Whether a value has a complex dtype.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.iscomplexobj(1j)
        True
    """
    if x is None:
        return False
    dtype = getattr(x, "dtype", None)
    dtype = np.asarray(x).dtype if dtype is None else dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        raise TypeError(
            f"a complex or real number or an array of them is needed, got {value_and_type(x)}"
        )
    return issubdtype(dtype, np.complexfloating)


def isrealobj(x: Any) -> bool:
    """Whether a value has a dtype that is not complex.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.isrealobj(1.0)
        True
    """
    return not iscomplexobj(x)
