"""`visualize_array_sharding` and `visualize_sharding`: which device holds which block, for any rank and any mesh.

In a notebook a picture, elsewhere text. Inside a traced function the drawing happens when the sharding is known: at once
for arrays, and on every run for traced values.
"""

from __future__ import annotations

from typing import Any

import xlab
from xlab.core.trace import is_tracer


def visualize_sharding(shape: tuple[int, ...], sharding: Any, **drawing: Any) -> None:
    """Draws how an array of a shape lies under a sharding.

    Args:
        shape: of the whole array.
        sharding: any sharding.
        drawing: accepted for compatibility (`use_color`, `scale`, `min_width`, `max_width`, `color_map`); the drawing chooses itself.

    Example:
        >>> from xlab.sharding import SingleDeviceSharding
        >>> import xlab
        >>> visualize_sharding((8, 4), SingleDeviceSharding(xlab.devices()[0]))
        f32[8,4]: on device 0
    """
    from xlab.notebook.displays import show

    show(sharding, tuple(shape))


def visualize_array_sharding(array: Any, **drawing: Any) -> None:
    """Draws how an array lies on its devices; reads nothing of its contents.

    Of a traced value it draws on every run of the program, through a callback with the sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> visualize_array_sharding(jnp.ones((2, 2)))
        f32[2,2]: on device 0
    """
    if is_tracer(array):
        shape = tuple(array.shape)
        xlab.debug.inspect_array_sharding(array, callback=lambda sharding: visualize_sharding(shape, sharding))
        return
    from xlab.notebook.displays import show

    if not isinstance(array, xlab.Array):
        raise TypeError(f"visualize_array_sharding takes an array of xlab; given {type(array).__name__}. For a shape and a "
                        f"sharding there is visualize_sharding(shape, sharding).")
    show(array)
