"""Names the field keeps under `experimental`; those that are stable here live in their rooms."""

from xlab.lax.callbacks import io_callback

__all__ = ["io_callback"]
