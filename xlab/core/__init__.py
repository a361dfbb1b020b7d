"""The core: abstract values, primitives, tracing, jaxprs.

Reading order: `avals.py` (types), `primitive.py` (what a program is made of), `trace.py` (what intercepts a
primitive), `jaxpr.py` (programs as data), `check.py` and `printing.py`, `source_info.py`, `effects.py`, `rules.py`,
`dtypes.py`, `array.py`. May import sharding, tree, backend and the ground floor. It promises that equal types are
identical objects and that no primitive is named here.

Also: `donation.py` (donated arrays), `extension.py` (names for those who write transformations and analyses
of their own), `promotion.py` (the promotion lattice), `refs.py` (mutable references),
`sharding_rules.py` (how the results of a primitive are sharded), `tokens.py` (values without data), `tracebacks.py` (filtered
tracebacks), `typing.py` (types for annotations).

What users of `xlab.core` expect under that name is passed on from the files, when first used.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

_HOME = {name: module for module, names in {
    "avals": "AbstractToken AbstractValue ShapedArray aval_of",
    "check": "check_jaxpr",
    "extension": "ParamDict Value eval_context max_dim min_dim",
    "jaxpr": "Atom ClosedJaxpr DebugInfo Jaxpr JaxprEqn Literal Var eval_jaxpr jaxpr_as_fun subjaxprs",
    "primitive": "Primitive",
    "trace": "Trace Tracer concrete_or_error ensure_compile_time_eval is_tracer",
}.items() for name in names.split()}
__all__ = sorted(_HOME)


_MOVED = ("DropVar", "Effects", "concrete_or_error", "find_top_trace", "gensym", "get_opaque_trace_state", "jaxprs_in_params",
          "new_jaxpr_eqn", "no_effects", "nonempty_axis_env_DO_NOT_USE", "primal_dtype_to_tangent_dtype",
          "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype")       # to `extend.core`


def __getattr__(name: str) -> _Any:
    if name in _MOVED:
        import warnings
        warnings.warn(f"xlab.core.{name} is deprecated: it is xlab.extend.core.{name} now.", DeprecationWarning, stacklevel=2)
        return getattr(_import_module("xlab.core.extension"), name)
    if name not in _HOME:
        raise AttributeError(f"module 'xlab.core' has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(f"xlab.core.{_HOME[name]}"), name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})
