"""Recomputation: names for values, policies that keep them, and what is kept."""

from xlab.transforms.checkpoint import checkpoint, remat
from xlab.transforms.policies import (
           Offloadable,
           Recompute,
           Saveable,
           checkpoint_name,
           checkpoint_policies,
)
from xlab.transforms.saved_residuals import print_saved_residuals, saved_residuals

__all__ = ["Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name", "checkpoint_policies",
           "print_saved_residuals", "remat", "saved_residuals"]
