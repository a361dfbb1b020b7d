"""Saving and loading pytrees of arrays, each device its own part.

Example:
    >>> import tempfile, xlab, xlab.numpy as jnp
    >>> here = xlab.sharding.SingleDeviceSharding(xlab.devices()[0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nonblocking_save([jnp.arange(3), jnp.ones(())], folder).result()
    ...     loading = nonblocking_load(folder, here)
    ...     loading.pytree[0].shape, [x.tolist() for x in loading.result()]
    ((3,), [[0, 1, 2], 1.0])
"""

from xlab.parallel.array_files import (
    PyTreeFuture,
    load,
    load_pytreedef,
    nonblocking_load,
    nonblocking_save,
    save,
)

__all__ = [
    "PyTreeFuture",
    "load",
    "load_pytreedef",
    "nonblocking_load",
    "nonblocking_save",
    "save",
]
