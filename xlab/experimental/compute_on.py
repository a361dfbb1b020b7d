"""Where operations run: on a device, or on the host that it belongs to.

Example:
    >>> import xlab
    >>> with compute_on("device_host"):
    ...     y = xlab.numpy.ones(2) * 2
"""

from xlab.lax.compute_on import compute_on, compute_on2

__all__ = ["compute_on", "compute_on2"]
