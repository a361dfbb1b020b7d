"""Roofline counts of a program before it is compiled: arithmetic, bytes of memory, bytes between devices."""

from xlab.observe.timing.rooflines import (
    RooflineResult,
    RooflineRuleContext,
    RooflineShape,
    register_roofline,
    register_standard_roofline,
    roofline,
    roofline_and_grad,
)

__all__ = ["RooflineResult", "RooflineRuleContext", "RooflineShape", "register_roofline", "register_standard_roofline", "roofline",
           "roofline_and_grad"]  # fmt: skip
