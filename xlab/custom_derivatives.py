"""Functions with derivatives of their own."""

from xlab import lax as _lax  # noqa: F401  (the primitives, with their rules)
from xlab.interpreters.ad import Zero as SymbolicZero
from xlab.transforms.closure_convert import closure_convert
from xlab.transforms.custom_gradient import custom_gradient
from xlab.transforms.custom_jvp import custom_jvp, custom_jvp_call_p
from xlab.transforms.custom_vjp import custom_vjp, custom_vjp_call_p

__all__ = ["SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_p", "custom_vjp",
           "custom_vjp_call_p"]
