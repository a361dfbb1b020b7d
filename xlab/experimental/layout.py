"""Where within a device's memory arrays lie: layouts, formats, and constraints on them."""

from xlab.lax.layout import with_layout_constraint
from xlab.sharding.placement import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]
