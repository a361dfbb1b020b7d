"""Functions whose operations are scheduled together.

Example:
    >>> scheduling_group(name="first")(lambda x: x * 2)(3.0)
    Array(6., dtype=float32, weak_type=True)
"""

from xlab.lax.compute_on import scheduling_group, xla_metadata_call

__all__ = ["scheduling_group", "xla_metadata_call"]
