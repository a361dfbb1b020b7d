"""Functions with derivatives of their own."""

from xlab import lax as _lax  # noqa: F401  (the primitives, with their rules)
from xlab.interpreters.ad import SymbolicZero
from xlab.transforms.closure_convert import closure_convert
from xlab.transforms.custom_gradient import custom_gradient
from xlab.transforms.custom_jvp import custom_jvp, custom_jvp_call_p
from xlab.transforms.custom_vjp import (
    CustomVJPPrimal,
    custom_vjp,
    custom_vjp_call_p,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)
from xlab.transforms.linear_call import custom_transpose, linear_call
from xlab.transforms.remat_opt import remat_opt_p

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_jvp_call_p",
    "custom_transpose",
    "custom_vjp",
    "custom_vjp_call_p",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "remat_opt_p",
    "zero_from_primal",
]
