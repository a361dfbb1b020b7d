"""The core: abstract values, primitives, tracing, jaxprs.

Reading order: `avals.py` (types), `primitive.py` (what a program is made of), `trace.py` (what intercepts a
primitive), `jaxpr.py` (programs as data), `check.py` and `printing.py`, `source_info.py`, `effects.py`, `rules.py`,
`dtypes.py`, `extended_dtypes.py` (those that NumPy does not know), `array.py`, `shards.py` (one device's part of one), `key_array.py`. May import sharding, tree, backend and the ground floor. It promises that equal types are
identical objects and that no primitive is named here.

Sizes that a program leaves open: `dims.py` (expressions), `dim_values.py` (what they come to), `dim_bounds.py` (what is known of them), `dim_scope.py` (variables, constraints,
shapes from text), `dim_equations.py` (variables from shapes of arguments).

Types of the user's own: `hi_types.py` (what a type says), `hi_states.py` (values that change in place), `hi_tracers.py` (traced values).

Also: `locations.py` (the user's line that makes an equation, and those that led there), `mapped_avals.py` (types of examples and of batches), `alias.py` (functions under other names), `current_trace.py` (the current trace, and changing it), `donation.py` (donated arrays), `promotion.py` (the
promotion lattice), `pending.py` (values on their way), `refs.py` (mutable references), `sharding_rules.py` (how the results of a primitive are sharded), `tokens.py` (values without data), `tracebacks.py` (filtered
tracebacks), `typed_numbers.py` (Python numbers with dtypes), `typing.py` (types for annotations).

What users of `xlab.core` expect under that name is passed on from the files, when first used.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

_HOME = {
    name: module
    for module, names in {
        "avals": "AbstractToken AbstractValue ShapedArray aval_of",
        "check": "check_jaxpr",
        "current_trace": "eval_context",
        "dims": "is_constant_dim max_dim min_dim",
        "jaxpr": "Atom ClosedJaxpr DebugInfo Jaxpr JaxprEqn Literal ParamDict Value Var eval_jaxpr jaxpr_as_fun subjaxprs",
        "primitive": "Primitive",
        "trace": "Trace Tracer concrete_or_error ensure_compile_time_eval is_tracer",
    }.items()
    for name in names.split()
}
__all__ = sorted(_HOME)


_MOVED = {
    name: module
    for module, names in {  # to `extend.core`
        "avals": "valid_jaxtype",
        "current_trace": "concrete_or_error find_top_trace get_opaque_trace_state nonempty_axis_env_DO_NOT_USE unsafe_get_axis_names_DO_NOT_USE",
        "dtypes": "primal_dtype_to_tangent_dtype",
        "effects": "Effects no_effects",
        "jaxpr": "DropVar gensym jaxprs_in_params new_jaxpr_eqn",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> _Any:
    if name in _MOVED:
        import warnings

        warnings.warn(
            f"xlab.core.{name} is deprecated: it is xlab.extend.core.{name} now.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(_import_module(f"xlab.core.{_MOVED[name]}"), name)
    if name not in _HOME:
        raise AttributeError(f"module 'xlab.core' has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(f"xlab.core.{_HOME[name]}"), name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})
