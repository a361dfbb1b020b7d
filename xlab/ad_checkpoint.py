"""Rematerialization: `checkpoint`, its policies, names for values, and saved residuals."""

from xlab.transforms.checkpoint import checkpoint, remat
from xlab.transforms.policies import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint_name,
    checkpoint_policies,
)
from xlab.transforms.saved_residuals import print_saved_residuals, saved_residuals

__all__ = [
    "Offloadable",
    "Recompute",
    "Saveable",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
    "remat",
    "saved_residuals",
]
