"""Precision of products: the coarse `Precision`, and algorithms in detail."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab.config import config
from xlab.core import dtypes

__all__ = [
    "DotAlgorithm",
    "DotAlgorithmPreset",
    "DotDimensionNumbers",
    "Precision",
    "PrecisionLike",
]


class Precision(enum.Enum):
    """How exactly a product is computed where the hardware offers a choice."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __str__(self):
        return self.name

    def __repr__(self):
        return f"Precision.{self.name}"


class DotAlgorithm(NamedTuple):
    """An algorithm for products, by its parts; which ones exist depends on the platform.

    Attributes:
        lhs_precision_type, rhs_precision_type: dtypes the operands are rounded to.
        accumulation_type: dtype of the sums.
        lhs_component_count, rhs_component_count: in how many parts an operand is taken apart.
        num_primitive_operations: how many products of parts are computed.
        allow_imprecise_accumulation: whether some sums may be less exact.

    Example:
        >>> import numpy as np
        >>> DotAlgorithm(np.float16, np.float16, np.float32).num_primitive_operations
        1
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Algorithms for products by name: types of left operand, right operand and sums, then how many products."""

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    def __str__(self):
        return self.name

    def __repr__(self):
        return f"DotAlgorithmPreset.{self.name}"

    def _parts(self) -> tuple[str, str, int]:
        kind, _, total, *products = (
            self.name.replace("ANY_", "").replace("_FAST_ACCUM", "").split("_")
        )
        return kind, total, int(products[0][1:]) if products else 1

    @property
    def accumulation_type(self):
        """The scalar type of the sums; None where the operands decide."""
        if (
            self is DotAlgorithmPreset.DEFAULT
            or "F8_ANY" in self.name.removesuffix("_FAST_ACCUM")[-6:]
        ):
            return None
        return _SCALARS[self._parts()[1]]

    @property
    def supported_lhs_types(self):
        """The scalar types the left operand may have; None for any."""
        if self is DotAlgorithmPreset.DEFAULT or "F8" in self.name:
            return None
        kind, _, products = self._parts()
        if kind == "BF16" and products == 1:
            return (np.dtype(dtypes.bfloat16).type, np.float32)
        return (np.float32,) if kind in ("BF16", "TF32") else (_SCALARS[kind],)

    @property
    def supported_rhs_types(self):
        """The scalar types the right operand may have; None for any."""
        return self.supported_lhs_types


_SCALARS = {
    "F16": np.float16,
    "BF16": np.dtype(dtypes.bfloat16).type,
    "F32": np.float32,
    "F64": np.float64,
}
_ON_CPU = {
    DotAlgorithmPreset[name]
    for name in (
        "DEFAULT",
        "F16_F16_F16",
        "BF16_BF16_F32",
        "BF16_BF16_F32_X3",
        "BF16_BF16_F32_X6",
        "F32_F32_F32",
        "F64_F64_F64",
    )
}

PrecisionLike = (
    None
    | str
    | Precision
    | tuple[str, str]
    | tuple[Precision, Precision]
    | DotAlgorithm
    | DotAlgorithmPreset
)
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]

_SPELLINGS = {
    "default": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
}


def canonical_precision(precision):
    """A pair of `Precision` (one per operand), an algorithm, or None for the default."""
    if precision is None:
        precision = config.default_matmul_precision
        if precision is None:
            return None
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        return DotAlgorithmPreset[precision]
    pair = tuple(precision) if isinstance(precision, (tuple, list)) else (precision, precision)
    pair = tuple(_SPELLINGS.get(p.lower()) if isinstance(p, str) else p for p in pair)
    if len(pair) != 2 or any(not isinstance(p, Precision) for p in pair):
        raise ValueError(
            f"Precision argument must be one of: None, a string in {list(_SPELLINGS)}, a lax.Precision value, a tuple of two "
            f"of these, a lax.DotAlgorithm, or a lax.DotAlgorithmPreset value or its name, one of "
            f"{list(DotAlgorithmPreset.__members__)}; but got {precision!r}."
        )
    return pair


def flipped(precision):
    """The precision of a product with its operands swapped."""
    return precision[::-1] if type(precision) is tuple else precision


def precision_text(precision, platform: str, operands, out) -> str:
    """What `stablehlo.dot_general` says about precision."""
    if precision is None or precision is DotAlgorithmPreset.DEFAULT:
        return ""
    if type(precision) is tuple:
        return f", precision = [{precision[0]}, {precision[1]}]"
    if platform == "cpu" and precision not in _ON_CPU:
        raise ValueError(
            f"The precision '{precision}' is not supported by dot_general on CPU; these are: "
            f"{', '.join(sorted(map(str, _ON_CPU)))}"
        )
    algorithm = (
        _algorithm(precision, operands, out)
        if isinstance(precision, DotAlgorithmPreset)
        else precision
    )
    left, right, total = (
        t if t == "tf32" else dtypes.mlir_type(np.dtype(t)) for t in algorithm[:3]
    )
    return (
        f", precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = {left}, rhs_precision_type = {right}, "
        f"accumulation_type = {total}, lhs_component_count = {algorithm.lhs_component_count}, "
        f"rhs_component_count = {algorithm.rhs_component_count}, "
        f"num_primitive_operations = {algorithm.num_primitive_operations}, "
        f"allow_imprecise_accumulation = {str(algorithm.allow_imprecise_accumulation).lower()}>"
    )


def _algorithm(preset: DotAlgorithmPreset, operands, out) -> DotAlgorithm:
    kind, _, products = preset._parts()
    total = preset.accumulation_type
    if kind == "F8":
        left, right = operands
        return DotAlgorithm(
            left,
            right,
            out if total is None else total,
            allow_imprecise_accumulation=preset.name.endswith("FAST_ACCUM"),
        )
    one = "tf32" if kind == "TF32" else _SCALARS[kind]
    return DotAlgorithm(one, one, total, num_primitive_operations=products)


def check_preferred(dtype, preferred):
    """The dtype of a convolution's result, after checking that its operands' can be accumulated in it."""
    if preferred is None or preferred == dtype or dtype == np.bool_:
        return dtype if preferred is None else preferred
    integral, floats, complexes = (
        [dtypes.issubdtype(d, kind) for d in (dtype, preferred)]
        for kind in (np.integer, np.floating, np.complexfloating)
    )
    if not (all(integral) or all(floats) or all(complexes) or (integral[0] and floats[1])):
        raise TypeError(
            f"operands of {dtypes.name(dtype)} cannot be accumulated in preferred_element_type="
            f"{dtypes.name(preferred)}: integers go with integers and floats, floats with floats, complex numbers "
            f"with complex numbers"
        )
    if dtypes.issubdtype(dtype, np.signedinteger) != dtypes.issubdtype(
        preferred, np.signedinteger
    ) and all(integral):
        raise TypeError(
            f"`preferred_element_type` must have the same signedness as the original type: got "
            f"{dtypes.name(preferred)} for {dtypes.name(dtype)}"
        )
    if not (integral[0] and floats[1]) and dtypes.itemsize(preferred) < dtypes.itemsize(dtype):
        raise TypeError(
            f"`preferred_element_type` must not be narrower than the original type: got {dtypes.name(preferred)} "
            f"for {dtypes.name(dtype)}"
        )
    return preferred
