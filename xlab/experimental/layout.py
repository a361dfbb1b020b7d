"""Memory layouts of arrays, formats, and layout constraints."""

from xlab.lax.layout import with_layout_constraint
from xlab.sharding.placement import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]
