"""The core of the runtime (primitives, jaxprs, traces), for extensions written outside of it.

`primitives` holds the runtime's own primitives by name.
"""

from xlab.compile.lowering import set_rewriter
from xlab.compile.queries import (
    FixedSharding,
    devices_needed,
    fixed_shardings,
    has_dynamic_shapes,
    has_primitive,
    literals,
    needs_devices_to_lower,
)
from xlab.core.avals import (
    AbstractToken,
    AbstractValue,
    ShapedArray,
    array_types,
    register_array_type,
    unregister_array_type,
    valid_jaxtype,
)
from xlab.core.check import check_jaxpr
from xlab.core.current_trace import (
    TraceTag,
    concrete_or_error,
    find_top_trace,
    get_opaque_trace_state,
    nonempty_axis_env_DO_NOT_USE,
    set_current_trace,
    take_current_trace,
    unsafe_get_axis_names_DO_NOT_USE,
)
from xlab.core.dtypes import primal_dtype_to_tangent_dtype
from xlab.core.effects import Effect, Effects, no_effects
from xlab.core.jaxpr import (
    ClosedJaxpr,
    DebugInfo,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    eval_jaxpr,
    gensym,
    jaxpr_as_fun,
    jaxprs_in_params,
    new_jaxpr_eqn,
    subjaxprs,
    subjaxprs_of_params,
)
from xlab.core.mapped_avals import mapped_aval, unmapped_aval
from xlab.core.primitive import Primitive
from xlab.core.trace import Trace, Tracer
from xlab.errors import InconclusiveDimensionOperation, JaxprTypeError
from xlab.extend.core import primitives as primitives
from xlab.interpreters.batching import unsafe_am_i_under_a_vmap_DO_NOT_USE
from xlab.interpreters.calls import AlignedParams, ParamUpdater, define_call
from xlab.interpreters.control_flow import (
    BranchFlow,
    CallFlow,
    LoopFlow,
    OpaqueFlow,
    control_flow_rules,
)
from xlab.interpreters.partial_eval import unsafe_am_i_under_a_jit_DO_NOT_USE
from xlab.lax.call import CallPrimitive, call_impl

Token = AbstractToken

__all__ = [
    "AbstractToken", "AbstractValue", "AlignedParams", "BranchFlow", "CallFlow", "CallPrimitive", "ClosedJaxpr",
    "DebugInfo", "DropVar", "Effect", "Effects", "FixedSharding", "InconclusiveDimensionOperation", "Jaxpr", "JaxprEqn",
    "JaxprTypeError", "Literal", "LoopFlow", "OpaqueFlow", "ParamUpdater", "Primitive", "ShapedArray", "Token", "Trace",
    "TraceTag", "Tracer", "Var", "array_types", "call_impl", "check_jaxpr", "concrete_or_error", "control_flow_rules",
    "define_call", "devices_needed", "eval_jaxpr", "find_top_trace", "fixed_shardings", "gensym", "get_opaque_trace_state",
    "has_dynamic_shapes", "has_primitive", "jaxpr_as_fun",
    "jaxprs_in_params", "literals", "mapped_aval", "needs_devices_to_lower", "new_jaxpr_eqn", "no_effects",
    "nonempty_axis_env_DO_NOT_USE",
    "primal_dtype_to_tangent_dtype", "set_current_trace", "set_rewriter", "subjaxprs", "subjaxprs_of_params",
    "take_current_trace",
    "unmapped_aval", "unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype",
    "register_array_type", "unregister_array_type",
]  # fmt: skip
