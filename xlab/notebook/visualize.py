"""`visualize_array_sharding` and `visualize_sharding`: which device holds which block, for any rank and any mesh.

In a notebook a picture, elsewhere text.
"""

from __future__ import annotations

from typing import Any

import xlab
from xlab.core.trace import is_tracer
from xlab.lax.inspecting import inspect_sharding


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
        f32[8,4] on device 0, 128 B
    """
    from xlab.notebook.formatters import show

    show(sharding, tuple(shape))


def visualize_array_sharding(array: Any, **drawing: Any) -> None:
    """Draws how an array lies on its devices; reads nothing of its contents.

    In a program, where the compiler decides on that: drawn when the program has been compiled, and not again when it runs.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> visualize_array_sharding(jnp.ones((2, 2)))
        f32[2,2] on device 0, 16 B, uncommitted
        >>> _ = xlab.jit(lambda x: visualize_array_sharding(x[0]))(jnp.ones((2, 2)))
        f32[2] on device 0, 8 B

    Raises:
        TypeError: for what is no array.
    """
    from xlab.notebook.formatters import show

    if not is_tracer(array) and isinstance(array, xlab.Array):
        show(array)
    else:
        inspect_sharding(
            array, lambda sharding, aval: show(sharding, aval.shape), "visualize_array_sharding"
        )
