"""The language of the runtime, for primitives, transformations and analyses written outside of it."""

from xlab.core.avals import AbstractToken, AbstractValue, ShapedArray
from xlab.core.check import check_jaxpr
from xlab.core.effects import Effect
from xlab.core.jaxpr import (
                             ClosedJaxpr,
                             DebugInfo,
                             Jaxpr,
                             JaxprEqn,
                             Literal,
                             Var,
                             eval_jaxpr,
                             jaxpr_as_fun,
                             subjaxprs,
                             subjaxprs_of_params,
)
from xlab.core.primitive import Primitive
from xlab.core.trace import Trace, Tracer, concrete_or_error
from xlab.errors import InconclusiveDimensionOperation, JaxprTypeError

Token = AbstractToken

__all__ = ["AbstractToken", "AbstractValue", "ClosedJaxpr", "DebugInfo", "Effect", "InconclusiveDimensionOperation",
           "Jaxpr", "JaxprEqn", "JaxprTypeError", "Literal", "Primitive", "ShapedArray", "Token", "Trace", "Tracer", "Var",
           "check_jaxpr", "concrete_or_error", "eval_jaxpr", "jaxpr_as_fun", "subjaxprs", "subjaxprs_of_params"]
