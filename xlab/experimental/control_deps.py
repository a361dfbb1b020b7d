"""The order in which a program computes values that do not need one another.

Example:
    >>> import xlab, xlab.numpy as jnp
    >>> xlab.jit(lambda x: schedule([x + 1, x * 2]))(jnp.ones(3))
"""

from xlab.lax.control_deps import control_dep, schedule

__all__ = ["control_dep", "schedule"]
