"""Differentiation: `jvp.py` (forward), `linearize.py` (the linear part as a jaxpr), `transpose.py` (backward).

Reading order as listed. `primitive_jvps` and `primitive_transposes` are the tables; rules stand beside the
primitives in `lax`.
"""

from xlab.interpreters.ad.jvp import (
    JVPTrace,
    JVPTracer,
    SymbolicZero,
    Zero,
    add_jaxvals,
    add_jaxvals_primitive,
    add_tangents,
    defjvp,
    defjvp2,
    defzero,
    drop_zeros,
    instantiate_zeros,
    jvp,
    jvp_jaxpr,
    nonzero_mask,
    not_differentiable,
    primitive_jvps,
    set_arithmetic,
    zeros_like_aval,
)
from xlab.interpreters.ad.linearize import linearize
from xlab.interpreters.ad.transpose import (
    RefCotangent,
    UndefinedPrimal,
    answers_zeros,
    backward_pass,
    check_one_side,
    collecting,
    defbilinear,
    deflinear,
    deflinear2,
    get_primitive_transpose,
    has_integers,
    is_undefined_primal,
    open_cotangents,
    primitive_transposes,
    set_ref_operations,
    set_reshard,
    transpose_jaxpr,
)

__all__ = [
    "JVPTrace", "JVPTracer", "RefCotangent", "SymbolicZero", "UndefinedPrimal", "Zero", "add_jaxvals", "add_tangents", "answers_zeros", "backward_pass",
    "check_one_side", "collecting", "defbilinear", "defjvp", "defjvp2", "deflinear", "deflinear2", "defzero", "drop_zeros", "get_primitive_transpose",
    "has_integers", "instantiate_zeros", "is_undefined_primal", "jvp", "jvp_jaxpr", "linearize", "nonzero_mask", "not_differentiable", "open_cotangents",
    "primitive_jvps", "primitive_transposes", "set_arithmetic", "set_ref_operations", "set_reshard", "transpose_jaxpr",
    "zeros_like_aval",
]  # fmt: skip


def __getattr__(name: str):
    if name == "add_jaxvals_p":  # the primitive that `lax` registers for sums of derivatives
        return add_jaxvals_primitive()
    raise AttributeError(f"module 'xlab.interpreters.ad' has no attribute {name!r}")
