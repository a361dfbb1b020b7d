"""Element types: names, categories, promotion, weak types, and their spelling in programs.

A dtype is a `numpy.dtype` (also for the small floats and integers of `ml_dtypes`) or an `ExtendedDType`, such as the
type of random keys. Everything here is remembered by dtype: these functions run on every traced operation.

Example:
    >>> result_type(np.int32, 1.5)
    dtype('float32')
    >>> short_name(np.dtype("float32")), mlir_type(np.dtype("uint8"))
    ('f32', 'ui8')
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from xlab.backend import neighbors
from xlab.config import config
from xlab.core import promotion
from xlab.core.dims import SymbolicDim
from xlab.core.extended_dtypes import ExtendedDType, KeyDType, NotOfNumPyError, extended, prng_key
from xlab.core.promotion import TypePromotionError
from xlab.core.source_info import warn

__all__ = [
    "ExtendedDType", "KeyDType", "NotOfNumPyError", "TypePromotionError", "bfloat16", "canonicalize_dtype", "check_user_dtype",
    "extended", "finfo", "float0", "iinfo", "inexact_dtype", "is_dtype", "is_extended", "issubdtype", "itemsize", "itemsize_bits",
    "lattice_result_type", "mlir_type", "name", "prng_key", "promote_types", "python_scalar_dtype", "result_type",
    "scalar_type_of", "short_name", "to_dtype",
]  # fmt: skip

bfloat16 = ml_dtypes.bfloat16
float4_e2m1fn = ml_dtypes.float4_e2m1fn
float6_e2m3fn = ml_dtypes.float6_e2m3fn
float6_e3m2fn = ml_dtypes.float6_e3m2fn
float8_e3m4 = ml_dtypes.float8_e3m4
float8_e4m3 = ml_dtypes.float8_e4m3
float8_e4m3b11fnuz = ml_dtypes.float8_e4m3b11fnuz
float8_e4m3fn = ml_dtypes.float8_e4m3fn
float8_e4m3fnuz = ml_dtypes.float8_e4m3fnuz
float8_e5m2 = ml_dtypes.float8_e5m2
float8_e5m2fnuz = ml_dtypes.float8_e5m2fnuz
float8_e8m0fnu = ml_dtypes.float8_e8m0fnu
int1 = ml_dtypes.int1
int2 = ml_dtypes.int2
int4 = ml_dtypes.int4
uint1 = ml_dtypes.uint1
uint2 = ml_dtypes.uint2
uint4 = ml_dtypes.uint4
float0 = np.dtype([("float0", np.void, 0)])
"""Type of the derivative of an integer: it holds nothing."""

bool_ = np.dtype(bool)


class primal_tangent_dtype_scalar(extended):
    """Category of the types of `primal_tangent_dtype`."""


class PrimalTangentDType(ExtendedDType):
    """Type of arrays that are computed with in one dtype and differentiated in another. See `primal_tangent_dtype`."""

    type = primal_tangent_dtype_scalar
    base_shape = ()

    def __init__(self, primal_dtype: np.dtype, tangent_dtype: np.dtype, name: str):
        self.primal_dtype, self.tangent_dtype, self.name = primal_dtype, tangent_dtype, name
        self.base_dtype, self.itemsize = primal_dtype, primal_dtype.itemsize

    def is_made_of(self, other: Any) -> bool:
        return other == self.primal_dtype

    opens_as = is_made_of

    def _what(self) -> tuple:
        return PrimalTangentDType, self.primal_dtype, self.tangent_dtype, self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is PrimalTangentDType and self._what() == other._what()

    def __hash__(self) -> int:
        return hash(self._what())


def primal_tangent_dtype(
    primal_dtype: Any, tangent_dtype: Any, name: str | None = None
) -> PrimalTangentDType:
    """A dtype whose values are those of one dtype, and whose tangents and cotangents have another.

    Arrays of it are made with `x.astype(dtype)` from those of `primal_dtype`, and opened in the same way; a `custom_vjp` function computes with them,
    and its backward rule is given and gives arrays of `tangent_dtype`.

    Args:
        primal_dtype: of the values.
        tangent_dtype: of the derivatives, a float or complex one.
        name: what it is called in programs.

    Raises:
        TypeError: one of them is extended itself, or tangents would not be real or complex numbers.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> dtype = primal_tangent_dtype(jnp.int8, jnp.bfloat16)
        >>> x = jnp.array([1, 2], jnp.int8).astype(dtype)
        >>> x.dtype, str(xlab.typeof(x).to_tangent_aval())
        (PrimalTangentDType{i8/bf16}, 'bfloat16[2]')
    """
    primal, tangent = to_dtype(primal_dtype), to_dtype(tangent_dtype)
    if is_extended(primal) or is_extended(tangent):
        raise TypeError(
            f"primal_tangent_dtype takes two dtypes that arrays can have on a device, such as int8 and bfloat16, got {primal} and {tangent}"
        )
    if not issubdtype(tangent, np.inexact):
        raise TypeError(
            f"primal_tangent_dtype: tangents are real or complex numbers, so that tangent_dtype is one such as bfloat16, got {tangent}"
        )
    return PrimalTangentDType(
        primal,
        tangent,
        name or f"PrimalTangentDType{{{short_name(primal)}/{short_name(tangent)}}}",
    )


_FLOATS = (
    "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "bfloat16",
)  # fmt: skip
_EXTRA_FLOATS = frozenset(getattr(ml_dtypes, n) for n in _FLOATS)
_EXTRA_SIGNED = frozenset((int1, int2, int4))
_EXTRA_UNSIGNED = frozenset((uint1, uint2, uint4))
_PYTHON = {
    bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(np.complex128),
}  # fmt: skip
_NARROW = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}
_DEFAULT_WIDTH = {
    "b": np.dtype(bool), "i": np.dtype(np.int64), "u": np.dtype(np.uint64), "f": np.dtype(np.float64),
    "c": np.dtype(np.complex128),
}  # fmt: skip
_dtypes: dict[Any, Any] = {}
_WIDE: dict[Any, Any] = {}
_CANONICAL: dict[Any, Any] = {}


def to_dtype(x: Any) -> Any:
    """The dtype a name, scalar type or dtype stands for, at full width."""
    try:
        return _dtypes[x]
    except (KeyError, TypeError):
        pass
    if isinstance(x, (np.dtype, ExtendedDType)):
        found = x
    elif isinstance(x, type) and x in _PYTHON:
        found = _PYTHON[x]
    elif isinstance(x, str) and hasattr(ml_dtypes, x):
        found = np.dtype(getattr(ml_dtypes, x))
    else:
        inner = getattr(x, "dtype", None)
        if isinstance(inner, (np.dtype, ExtendedDType)):
            found = inner
        elif words := neighbors.refusal(inner) or neighbors.refusal(x):
            raise TypeError(words)
        else:
            found = np.dtype(x)
    if isinstance(x, (str, type, np.dtype, ExtendedDType)):
        _dtypes[x] = found
    return found


def is_dtype(x: Any) -> bool:
    """Whether `x` is a dtype object."""
    return isinstance(x, (np.dtype, ExtendedDType))


def is_extended(dtype: Any) -> bool:
    """Whether a dtype is one NumPy does not know."""
    return isinstance(dtype, ExtendedDType)


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """The dtype arrays really get: 64-bit types become 32-bit ones unless `enable_x64` is on.

    Example:
        >>> canonicalize_dtype(float)
        dtype('float32')
    """
    try:
        return (_WIDE if config.enable_x64 else _CANONICAL)[dtype]
    except (KeyError, TypeError):
        pass
    if hasattr(dtype, "aval") or isinstance(dtype, np.ndarray):
        raise (TypeError if isinstance(dtype, np.ndarray) else ValueError)(
            f"an array of type {getattr(dtype, 'aval', dtype.dtype)} was given as a dtype; pass its dtype, as x.dtype"
        )
    found = to_dtype(dtype)
    narrow = _NARROW.get(found, found)
    if isinstance(dtype, (str, type, np.dtype, ExtendedDType)):
        _WIDE[dtype], _CANONICAL[dtype] = found, narrow
    return found if config.enable_x64 else narrow


def inexact_dtype(dtype: Any) -> Any:
    """The floating point or complex dtype that stands for a dtype: integers of 64 bits take float64, narrower ones and booleans float32.

    Example:
        >>> inexact_dtype(np.dtype("int8")), inexact_dtype(np.dtype("float16"))
        (dtype('float32'), dtype('float16'))
    """
    if issubdtype(dtype, np.inexact):
        return dtype
    if is_extended(dtype):
        raise TypeError(f"a floating point or complex dtype is needed, got {dtype}")
    return canonicalize_dtype(np.float64 if dtype.itemsize == 8 else np.float32)


def check_user_dtype(dtype: Any, function: str = "dtype") -> Any:
    """As `canonicalize_dtype`, for a dtype the user wrote: warns when it is narrowed, refuses what no array has."""
    if hasattr(dtype, "aval") or isinstance(dtype, np.ndarray):
        canonicalize_dtype(dtype)
    wanted = to_dtype(dtype)
    got = canonicalize_dtype(wanted)
    if (
        isinstance(wanted, np.dtype)
        and wanted != float0
        and short_name(wanted) == wanted.name
        and wanted != bool_
    ):
        raise TypeError(
            f"{function} was given dtype {wanted}, which no array can have. Arrays hold booleans, integers, "
            "floating point and complex numbers, or random keys."
        )
    if got != wanted and not (isinstance(dtype, type) and dtype in _PYTHON):
        warn(
            f"Explicitly requested dtype {wanted} in {function} is not available, and will be truncated to dtype "
            f"{got}. To have 64-bit types, call xlab.config.update('enable_x64', True) or set XLAB_ENABLE_X64=1.",
            UserWarning,
        )
    return got


def python_scalar_dtype(scalar_type: type) -> np.dtype:
    """The full-width dtype of Python's bool, int, float or complex."""
    return _PYTHON[scalar_type]


def scalar_type_of(x: Any) -> type:
    """Which of Python's bool, int, float and complex a value or dtype is like."""
    kind = type(x)
    if kind in _PYTHON:
        return kind
    dtype = to_dtype(x)
    for category, scalar in (
        (np.bool_, bool),
        (np.integer, int),
        (np.floating, float),
        (np.complexfloating, complex),
    ):
        if issubdtype(dtype, category):
            return scalar
    raise TypeError(
        f"{x!r} is not like a Python number; expected a boolean, integer, float or complex value."
    )


_subdtype: dict[tuple[Any, Any], bool] = {}


def issubdtype(a: Any, b: Any) -> bool:
    """Whether dtype or category `a` lies in dtype or category `b`; knows bfloat16 and the other small types.

    Example:
        >>> issubdtype(bfloat16, np.floating), issubdtype(int4, np.signedinteger)
        (True, True)
    """
    try:
        return _subdtype[a, b]
    except KeyError:
        result = _subdtype[a, b] = _issubdtype(a, b)
        return result


def _issubdtype(a: Any, b: Any) -> bool:
    a, b = _scalar_class(a), _scalar_class(b)
    if isinstance(a, ExtendedDType):
        if isinstance(b, ExtendedDType):
            return a == b
        a = a.type
    if isinstance(b, ExtendedDType):
        return False
    for members, parent in ((_EXTRA_FLOATS, np.floating), (_EXTRA_SIGNED, np.signedinteger),
                            (_EXTRA_UNSIGNED, np.unsignedinteger)):  # fmt: skip
        if a in members:
            return a is b or issubclass(parent, b)
    return issubclass(a, b)


def _scalar_class(x: Any) -> Any:
    if isinstance(x, ExtendedDType):
        return x
    if isinstance(x, type) and issubclass(x, np.generic):
        return x
    return (
        to_dtype(x).type
        if not isinstance(x, type) or x in _PYTHON or hasattr(x, "dtype")
        else np.dtype(x).type
    )


def finfo(dtype: Any) -> Any:
    """Limits of a floating point type, as `numpy.finfo`."""
    return ml_dtypes.finfo(to_dtype(dtype))


def iinfo(int_type: Any) -> Any:
    """Limits of an integer type, as `numpy.iinfo`."""
    return ml_dtypes.iinfo(to_dtype(int_type))


_BITS = {
    np.dtype(t): b
    for t, b in (
        (int1, 1),
        (uint1, 1),
        (int2, 2),
        (uint2, 2),
        (int4, 4),
        (uint4, 4),
        (float4_e2m1fn, 4),
        (float6_e2m3fn, 6),
        (float6_e3m2fn, 6),
    )
}


def itemsize(dtype: Any) -> int:
    """Bytes one element takes in host memory."""
    return dtype.itemsize if is_dtype(dtype) else to_dtype(dtype).itemsize


_DLPACK = frozenset([
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128"])  # fmt: skip


def is_dlpack_dtype(dtype: Any) -> bool:
    """Whether arrays of this type can be exchanged through DLPack.

    Example:
        >>> from xlab import dlpack
        >>> dlpack.is_supported_dtype("float32"), dlpack.is_supported_dtype("int4")
        (True, False)
    """
    dtype = to_dtype(dtype)
    return not is_extended(dtype) and dtype.name in _DLPACK


def itemsize_bits(dtype: Any) -> int:
    """Bits one element carries."""
    found = to_dtype(dtype)
    return _BITS.get(found) or 8 * found.itemsize


def name(dtype: Any) -> str:
    """The dtype's full name, such as `float32`."""
    return "float0" if dtype == float0 else dtype.name


_SHORT: dict[Any, str] = {float0: "float0", bool_: "bool"}
_MLIR: dict[Any, str] = {float0: "i1", bool_: "i1"}
for _bits in (1, 2, 4, 8, 16, 32, 64):
    for _prefix, _letter, _mlir in (("int", "i", "i"), ("uint", "u", "ui")):
        _dtype = to_dtype(f"{_prefix}{_bits}")
        _SHORT[_dtype], _MLIR[_dtype] = (
            f"{_letter}{_bits}",
            f"{_mlir}{_bits}" if _bits > 1 else "i1",
        )
for _bits in (16, 32, 64):
    _SHORT[np.dtype(f"float{_bits}")] = _MLIR[np.dtype(f"float{_bits}")] = f"f{_bits}"
for _bits in (64, 128):
    _SHORT[np.dtype(f"complex{_bits}")] = f"c{_bits}"
    _MLIR[np.dtype(f"complex{_bits}")] = f"complex<f{_bits // 2}>"
for _name in _FLOATS:
    _SHORT[np.dtype(getattr(ml_dtypes, _name))] = _name.replace("float", "f")
    _head, _, _tail = _name.partition("_")
    _MLIR[np.dtype(getattr(ml_dtypes, _name))] = f"{_head.replace('float', 'f')}{_tail.upper()}"
del _bits, _prefix, _letter, _mlir, _dtype, _name, _head, _tail


def short_name(dtype: Any) -> str:
    """The name used in printed types: `f32`, `bf16`, `i32`, `bool`, `c64`, `key<fry>`."""
    try:
        return _SHORT[dtype]
    except KeyError:
        return dtype.name if is_dtype(dtype) else short_name(to_dtype(dtype))


def mlir_type(dtype: Any) -> str:
    """The name used in StableHLO: `f32`, `i32`, `ui8`, `i1`, `complex<f32>`, `bf16`."""
    try:
        return _MLIR[dtype]
    except KeyError:
        if isinstance(dtype, (str, type)):
            return mlir_type(to_dtype(dtype))
        raise TypeError(f"Arrays of dtype {dtype} have no form in StableHLO programs.") from None


def dtype_and_weak(x: Any) -> tuple[Any, bool]:
    """The canonical dtype of a value, scalar type, name or dtype, and whether it is weak."""
    scalar = _PYTHON_KINDS.get(type(x))
    if scalar is not None:
        return canonicalize_dtype(scalar[0]), scalar[1]
    if isinstance(x, type) and x in _PYTHON_KINDS:
        return canonicalize_dtype(_PYTHON_KINDS[x][0]), _PYTHON_KINDS[x][1]
    if isinstance(x, np.dtype):
        return canonicalize_dtype(x), False
    dtype = getattr(x, "dtype", None)
    if dtype is None or isinstance(x, type):
        for number in (int, float, complex):  # a member of an enumeration, another class of numbers
            if isinstance(x, number):
                return dtype_and_weak(number)
        if isinstance(x, SymbolicDim):
            return dtype_and_weak(int)
        return canonicalize_dtype(x), False
    return canonicalize_dtype(dtype), getattr(x, "weak_type", False) is True


_PYTHON_KINDS = {scalar: (dtype, scalar is not bool) for scalar, dtype in _PYTHON.items()}


def lattice_result_type(*args: Any) -> tuple[Any, bool]:
    """The dtype operands are brought to, and whether the result is weak."""
    if not args:
        raise ValueError("At least one operand is needed to find a result type.")
    return result_of(tuple([dtype_and_weak(x) for x in args]))


_results: dict[tuple, tuple[Any, bool]] = {}


def result_of(kinds: tuple[tuple[Any, bool], ...]) -> tuple[Any, bool]:
    """As `lattice_result_type`, for (dtype, weak) pairs."""
    key = (config.enable_x64, config.numpy_dtype_promotion, kinds)
    found = _results.get(key)
    if found is None:
        dtype, weak = promotion.join(kinds, config.numpy_dtype_promotion == "strict")
        found = _results[key] = (canonicalize_dtype(dtype), weak)
    return found


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype of an operation on the given arrays, numbers and dtypes; weak results have the default width.

    Example:
        >>> result_type(bfloat16, 2.0, np.int8)
        dtype(bfloat16)
    """
    dtype, weak = lattice_result_type(*args)
    if weak:
        dtype = canonicalize_dtype(_DEFAULT_WIDTH["f" if dtype.kind == "V" else dtype.kind])
    return (dtype, weak) if return_weak_type_flag else dtype


def promote_types(a: Any, b: Any) -> Any:
    """The smallest dtype of the lattice both dtypes can be brought to.

    Example:
        >>> promote_types("uint8", "int8")
        dtype('int16')
    """
    kinds = []
    for x in (a, b):
        weak = isinstance(x, type) and x in (int, float, complex)
        kinds.append((to_dtype(x), weak))
    return canonicalize_dtype(
        promotion.join(tuple(kinds), config.numpy_dtype_promotion == "strict")[0]
    )


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The element type of derivatives: the same for numbers that can be differentiated, `float0` for the others."""
    return primal_dtype if issubdtype(primal_dtype, np.inexact) else float0
