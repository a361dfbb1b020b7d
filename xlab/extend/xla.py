"""Passes of one's own inside of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlab.backend import module_passes as _passes
from xlab.backend.module_passes import PipelineStage

__all__ = [
    "PipelineStage",
    "clear_hlo_module_transformation",
    "register_hlo_module_transformation",
]


def register_hlo_module_transformation(
    callback: Callable[[bytes], bytes | None],
    *,
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> None:
    """Calls a function for every module that is compiled from now on, which may put another in its place.

    What is compiled already stays as it is. While a pass is registered, programs are neither taken from nor put into the disk cache, whose key
    could not tell what the pass did to them.

    Args:
        callback: takes a serialized `HloModuleProto`, gives another one, or None for no change. What it raises is the error of the compilation.
        name: of the pass. Several may have one name, and run in the order in which they came.
        stage: when it runs.
        platforms: for which platforms; by default all.

    Raises:
        TypeError: `callback` cannot be called, `name` is no str or `stage` no `PipelineStage`.
        RuntimeError: there is no such platform.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> sizes = []
        >>> register_hlo_module_transformation(lambda module: sizes.append(len(module)), name="sizes")
        >>> xlab.jit(lambda x: jnp.sin(x) * 7)(1.0).shape, len(sizes) > 0
        ((), True)
        >>> clear_hlo_module_transformation("sizes")
        True
    """
    if not callable(callback):
        raise TypeError(f"A pass is a function of the bytes of a module; got {callback!r}.")
    _check(name, stage)
    _passes.register(name, stage, callback, _names(platforms))


def clear_hlo_module_transformation(
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> bool:
    """Takes a pass away again.

    Args:
        name: the name it was registered with.
        stage: its stage.
        platforms: for which platforms; by default all.

    Returns:
        Whether there was one.

    Raises:
        TypeError: `name` is no str or `stage` no `PipelineStage`.
    """
    _check(name, stage)
    return _passes.clear(name, stage, _names(platforms))


def _check(name: object, stage: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"The name of a pass has to be a str; got {name!r}.")
    if not isinstance(stage, PipelineStage):
        raise TypeError(
            f"stage must be a PipelineStage, {' or '.join(map(str, PipelineStage))}; got {stage!r}."
        )


def _names(platforms: Sequence[str] | str | None) -> tuple[str, ...]:
    if platforms is None:
        return _passes.platforms()
    return (platforms,) if isinstance(platforms, str) else tuple(dict.fromkeys(platforms))
