"""The type promotion lattice: the common dtype of two operands.

Each dtype is a node, as are Python's int, float and complex (the weak types). An edge leads to a type that values may be
converted to implicitly; operands are promoted to their least upper bound. Types without one raise.
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from xlab.errors import XlabError


class TypePromotionError(XlabError, ValueError):
    """Operands of these dtypes have no implicit promotion.

    Fix: cast one of them with `x.astype(...)`.
    """


def _dt(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


_B = np.dtype(bool)
_SMALL_FLOATS = tuple(
    _dt(n)
    for n in ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
              "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
)  # fmt: skip
_SMALL_INTS = tuple(_dt(n) for n in ("int1", "int2", "int4", "uint1", "uint2", "uint4"))
_I = {bits: np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)}
_U = {bits: np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)}
_F = {bits: np.dtype(f"float{bits}") for bits in (16, 32, 64)}
_BF16 = _dt("bfloat16")
_C64, _C128 = np.dtype("complex64"), np.dtype("complex128")

# `int`, `float` and `complex` themselves stand for the weak types.
STANDARD: dict[Any, tuple[Any, ...]] = {
    _B: (int,),
    int: (*_SMALL_INTS, _U[8], _I[8]),
    **dict.fromkeys(_SMALL_INTS, ()),
    _U[8]: (_I[16], _U[16]),
    _U[16]: (_I[32], _U[32]),
    _U[32]: (_I[64], _U[64]),
    _U[64]: (float,),
    _I[8]: (_I[16],),
    _I[16]: (_I[32],),
    _I[32]: (_I[64],),
    _I[64]: (float,),
    float: (complex, _BF16, _F[16], *_SMALL_FLOATS),
    **dict.fromkeys(_SMALL_FLOATS, ()),
    _BF16: (_F[32],),
    _F[16]: (_F[32],),
    _F[32]: (_F[64], _C64),
    _F[64]: (_C128,),
    complex: (_C64,),
    _C64: (_C128,),
    _C128: (),
}

STRICT: dict[Any, tuple[Any, ...]] = dict.fromkeys(STANDARD, ()) | {
    int: (float, *_SMALL_INTS, *_U.values(), *_I.values()),
    float: (complex, _BF16, *_F.values(), *_SMALL_FLOATS),
    complex: (_C64, _C128),
}


def _upper_bounds(edges: dict[Any, tuple[Any, ...]]) -> dict[Any, frozenset]:
    @functools.cache
    def above(node):
        return frozenset((node,)).union(*(above(parent) for parent in edges[node]))

    return {node: above(node) for node in edges}


_BOUNDS = {False: _upper_bounds(STANDARD), True: _upper_bounds(STRICT)}
_WEAK_AS = {int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(np.complex128)}


def _node(dtype: Any, weak: bool) -> Any:
    if not weak or dtype == _B:
        return dtype
    if dtype.kind == "c":
        return complex
    if dtype in _SMALL_INTS or dtype.kind in "iu":
        return int
    return float


def join(kinds: tuple[tuple[Any, bool], ...], strict: bool = False) -> tuple[Any, bool]:
    """The least upper bound of (dtype, weak) pairs; weak when no strong type took part in it."""
    distinct = set(kinds)
    if len(kinds) == 1 or (len(distinct) == 1 and not (strict and kinds[0][1])):
        return kinds[0]
    if not strict and all(weak for _, weak in distinct):
        # Bound of the strong counterparts, so that a weak type of unusual width keeps it.
        return _bound({dtype for dtype, _ in distinct}, strict), True
    bound = _bound({_node(dtype, weak) for dtype, weak in distinct}, strict)
    if isinstance(bound, type):
        return _WEAK_AS[bound], True
    return bound, False


def _bound(nodes: set, strict: bool) -> Any:
    bounds = _BOUNDS[strict]
    unknown = [node for node in nodes if node not in bounds]
    if unknown:
        if len(nodes) == 1:
            return unknown[0]
        raise TypePromotionError(
            f"Operands of types {_names(nodes)} have no common type: {_names(unknown)} does not promote. "
            "Convert the operands to one type first."
        )
    common = frozenset.intersection(*(bounds[node] for node in nodes))
    least = [node for node in common if common == bounds[node]]
    if len(least) == 1:
        return least[0]
    if len(least) > 1:
        raise AssertionError(f"promotion lattice is ambiguous at {nodes}")
    raise TypePromotionError(_message(nodes, strict))


def _names(nodes: Any) -> str:
    named = sorted(
        f"Python {n.__name__}" if isinstance(n, type) else str(getattr(n, "name", n)) for n in nodes
    )
    return ", ".join(named)


def _message(nodes: set, strict: bool) -> str:
    start = f"Operands of types {_names(nodes)} have no available implicit dtype promotion path"
    if strict:
        return (
            f"{start} when numpy_dtype_promotion='strict'. Cast the operands to the type you want, or set "
            "xlab.config.update('numpy_dtype_promotion', 'standard')."
        )
    kinds = []
    if nodes & set(_SMALL_FLOATS):
        kinds.append("4- and 8-bit floats")
    if nodes & set(_SMALL_INTS):
        kinds.append("2- and 4-bit integers")
    why = f", since {' and '.join(kinds)} never promote implicitly" if kinds else ""
    return f"{start}{why}. Cast explicitly, for example x.astype('float32')."
