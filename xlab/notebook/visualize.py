"""`visualize_array_sharding` and `visualize_sharding`: which device holds which block, for any rank and any mesh.

In a notebook a picture, elsewhere text.
"""

from __future__ import annotations

from collections.abc import Callable
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
        f32[8,4] on device 0, 128 B
    """
    from xlab.notebook.formatters import show

    show(sharding, tuple(shape))


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], Any]) -> None:
    """Calls `callback(sharding)` with the sharding of an array.

    Example:
        >>> import xlab.numpy as jnp
        >>> inspect_array_sharding(jnp.ones(2), callback=lambda s: print(len(s.device_set)))
        1

    Raises:
        TypeError: a traced value. Its sharding is decided by the compiler: `xlab.observe.report` lists it under Shardings.
    """
    callback(_concrete(value, "inspect_array_sharding").sharding)


def visualize_array_sharding(array: Any, **drawing: Any) -> None:
    """Draws how an array lies on its devices; reads nothing of its contents.

    Example:
        >>> import xlab.numpy as jnp
        >>> visualize_array_sharding(jnp.ones((2, 2)))
        f32[2,2] on device 0, 16 B, uncommitted
    """
    from xlab.notebook.formatters import show

    show(_concrete(array, "visualize_array_sharding"))


def _concrete(array: Any, name: str) -> Any:
    if is_tracer(array):
        raise TypeError(
            f"{name} was given a traced value of type {array.aval.str_short()}: the compiler decides on its sharding "
            f"after tracing. Call it on the result of the function, or run the cell under %%xjit, whose report lists "
            f"the shardings of all intermediates."
        )
    if not isinstance(array, xlab.Array):
        raise TypeError(
            f"{name} takes an array of xlab; given {type(array).__name__}. For a shape and a sharding there is "
            f"visualize_sharding(shape, sharding)."
        )
    return array
