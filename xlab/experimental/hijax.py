"""Types of one's own in programs, and operations on them: `HiType`, `MutableHiType`, `HiPrimitive`, `VJPHiPrimitive`."""

from xlab.core.avals import AbstractValue, ShapedArray
from xlab.core.effects import control_flow_allowed_effects
from xlab.core.hi_states import (
    AvalMutableQDD,
    AvalQDD,
    MutableHiType,
    MutableQuasiDynamicData,
    cur_qdd,
)
from xlab.core.hi_tracers import aval_method, aval_property
from xlab.core.hi_types import HiPspec, HiType, MappingSpec, register_hitype
from xlab.core.refs import AbstractRef
from xlab.interpreters.ad import Zero, instantiate_zeros, is_undefined_primal
from xlab.interpreters.hi_primitives import HiPrimitive
from xlab.lax.ref_views import TransformedRef
from xlab.transforms.hi_primitive import AxisData, CotangentAccumulator, VJPHiPrimitive

__all__ = [
    "AbstractRef", "AbstractValue", "AvalMutableQDD", "AvalQDD", "AxisData", "CotangentAccumulator", "HiPrimitive", "HiPspec", "HiType",
    "MappingSpec", "MutableHiType", "MutableQuasiDynamicData", "ShapedArray", "TransformedRef", "VJPHiPrimitive", "Zero", "aval_method",
    "aval_property", "control_flow_allowed_effects", "cur_qdd",
    "instantiate_zeros", "is_undefined_primal", "register_hitype",
]  # fmt: skip
