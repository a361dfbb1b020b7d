"""Integrals of sampled functions: `trapezoid`."""

from xlab.numpy import trapezoid as trapezoid

__all__ = ["trapezoid"]
