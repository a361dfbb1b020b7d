"""Differentiation: `jvp.py` (forward), `linearize.py` (the linear part as a jaxpr), `transpose.py` (backward).

Reading order as listed. `primitive_jvps` and `primitive_transposes` are the tables; rules stand beside the
primitives in `lax`.
"""

from xlab.interpreters.ad.jvp import (
                                      JVPTrace,
                                      JVPTracer,
                                      Zero,
                                      add_tangents,
                                      defjvp,
                                      defjvp2,
                                      defzero,
                                      instantiate_zeros,
                                      jvp,
                                      jvp_jaxpr,
                                      not_differentiable,
                                      primitive_jvps,
                                      set_arithmetic,
)
from xlab.interpreters.ad.linearize import linearize
from xlab.interpreters.ad.transpose import (
                                      UndefinedPrimal,
                                      backward_pass,
                                      defbilinear,
                                      deflinear,
                                      deflinear2,
                                      is_undefined_primal,
                                      primitive_transposes,
                                      transpose_jaxpr,
)

__all__ = ["JVPTrace", "JVPTracer", "UndefinedPrimal", "Zero", "add_tangents", "backward_pass",
           "defbilinear", "defjvp", "defjvp2", "deflinear", "deflinear2", "defzero", "instantiate_zeros",
           "is_undefined_primal", "jvp", "jvp_jaxpr", "linearize", "not_differentiable", "primitive_jvps",
           "primitive_transposes", "set_arithmetic", "transpose_jaxpr"]
