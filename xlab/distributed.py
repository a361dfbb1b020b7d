"""Several processes as one: `initialize`, `is_initialized`, `shutdown`."""

from xlab.parallel.distributed import initialize, is_initialized, shutdown

__all__ = ["initialize", "is_initialized", "shutdown"]
