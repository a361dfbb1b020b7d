"""Looking at sharded values: the field's names for what `xlab.notebook` and `xlab.observe` do."""

from xlab.notebook.visualize import (
    inspect_array_sharding,
    visualize_array_sharding,
    visualize_sharding,
)

__all__ = ["inspect_array_sharding", "visualize_array_sharding", "visualize_sharding"]
