"""Derivatives by sparse arguments, under the path that programs import."""

from xlab.sparse import (
    grad,
    jacfwd,
    jacobian,
    jacrev,
    value_and_grad,
)

__all__ = [
    "grad",
    "jacfwd",
    "jacobian",
    "jacrev",
    "value_and_grad",
]
