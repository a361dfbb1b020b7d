"""Metadata for the compiler, on operations.

Example:
    >>> import xlab
    >>> with set_xla_metadata(stage=1):
    ...     y = xlab.numpy.ones(2) * 2
"""

from xlab.lax.compute_on import set_xla_metadata

__all__ = ["set_xla_metadata"]
