"""Primitives as classes: `VJPHiPrimitive`, an implementation with rules of its own for derivatives and `vmap`."""

from xlab.core.avals import AbstractValue, ShapedArray
from xlab.interpreters.ad import Zero, instantiate_zeros, is_undefined_primal
from xlab.transforms.hi_primitive import AxisData, CotangentAccumulator, VJPHiPrimitive

__all__ = ["AbstractValue", "AxisData", "CotangentAccumulator", "ShapedArray", "VJPHiPrimitive", "Zero", "instantiate_zeros", "is_undefined_primal"]  # fmt: skip
