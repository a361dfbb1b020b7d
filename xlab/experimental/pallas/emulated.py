"""Functions of the field's kernel interface that are more than another name for one of `xlab.kernels`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import xlab
from xlab import kernels, tree
from xlab import numpy as jnp
from xlab.config import idle_argument
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.refs import Ref
from xlab.core.typing import ArrayLike


class CompilerParams:
    """Base of the dataclasses that say how a compiler shall treat a kernel, as `tpu.CompilerParams`. Interpretation keeps them."""


class DeviceIdType(enum.Enum):
    """How the device of a remote operation is named: by its place in the mesh, or by its number."""

    MESH = "mesh"
    LOGICAL = "logical"


def semaphore_signal(
    sem_or_view: Ref,
    inc: ArrayLike = 1,
    *,
    device_id: Any = None,
    device_id_type: DeviceIdType = DeviceIdType.MESH,
    core_index: ArrayLike | None = None,
) -> None:
    """Adds to a semaphore, as `xlab.kernels.semaphore_signal`.

    Args:
        sem_or_view: a semaphore, or a view `sems.at[i]` of one.
        inc: how much, an int32.
        device_id: the device whose semaphore it is; only this one, None.
        device_id_type: how `device_id` names it.
        core_index: number of the core whose semaphore it is; by default the same core's.

    Raises:
        NotImplementedError: `device_id` names a device.
        ValueError: not a single semaphore, or `inc` is no integer.
    """
    if device_id is not None:
        raise NotImplementedError(
            f"a semaphore of another device is signaled (device_id={device_id!r}), but an interpreted kernel sees its own device only"
        )
    kernels.semaphore_signal(sem_or_view, inc, core=core_index)


def delay(nanos: ArrayLike) -> None:
    """Waits for some nanoseconds. Interpretation has no clock: nothing happens.

    Args:
        nanos: an integer scalar.

    Raises:
        TypeError: it is none.
    """
    aval = aval_of(nanos)
    if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"delay takes an integer number of nanoseconds, got {aval}")


def empty_like(x: Any) -> Any:
    """Arrays with unspecified contents, one per array type in a tree.

    Args:
        x: a tree of arrays or `ShapeDtypeStruct`s.

    Example:
        >>> import xlab
        >>> from xlab.experimental import pallas as pl
        >>> pl.empty_like([xlab.ShapeDtypeStruct((2,), "int32")])[0].shape
        (2,)
    """
    return tree.map(jnp.empty_like, x)


def empty_ref_like(x: Any) -> Any:
    """References to uninitialized memory, one per array type in a tree.

    Args:
        x: a tree of arrays, `ShapeDtypeStruct`s or types of scratch memory.

    Example:
        >>> from xlab.experimental import pallas as pl
        >>> pl.empty_ref_like(pl.ANY((2,), "int32")).shape
        (2,)
    """

    def one(t):
        aval = kernels.memory.as_ref_aval(t)
        return xlab.empty_ref(aval.inner_aval, memory_space=aval.memory_space)

    return tree.map(one, x)


@contextmanager
def enable_poison_buffers(new_val: bool = True) -> Iterator[None]:
    """Fills memory with values that are easy to see before it is written, which interpretation always does.

    Args:
        new_val: False has no effect and warns; see the option `uninitialized_memory`.
    """
    if new_val is False:
        idle_argument(
            "enable_poison_buffers",
            "new_val",
            "False",
            "memory always holds NaN before it is written; set the option uninitialized_memory to 'zero' instead",
        )
    yield


def get_global(what: Any) -> Ref:
    """Memory that lives from call to call of a kernel, which interpretation does not have.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"get_global({what!r}): interpreted kernels have no memory that outlives a call. Use scratch_shapes for memory that lives from "
        f"step to step of a grid, or pass an array and alias it with an output."
    )


def lower_as_mlir(
    f: Callable,
    *args: Any,
    dynamic_shapes: bool = False,
    device: Any = None,
    static_argnames: str | Sequence[str] = (),
    platforms: Sequence[str] | None = None,
    **kwargs: Any,
) -> str:
    """The StableHLO text of a function that calls kernels.

    Args:
        f: the function.
        args, kwargs: what it is called with, or types.
        dynamic_shapes: not supported.
        device: where it shall run.
        static_argnames: names of arguments that are no arrays.
        platforms: `("cpu",)`, the only platform here.

    Raises:
        NotImplementedError: `dynamic_shapes`, or another platform.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.experimental import pallas as pl
        >>> "stablehlo.add" in pl.lower_as_mlir(lambda x: x + 1, jnp.ones(3))
        True
    """
    if dynamic_shapes:
        raise NotImplementedError(
            "lower_as_mlir: shapes of kernels are static, dynamic_shapes=True is not supported"
        )
    if platforms is not None and tuple(platforms) != ("cpu",):
        raise NotImplementedError(
            f"lower_as_mlir: kernels are lowered for 'cpu' only, got platforms={tuple(platforms)}"
        )
    jitted = xlab.jit(f, device=device, static_argnames=static_argnames)
    return jitted.lower(*args, **kwargs).as_text()


@contextmanager
def pallas_export_experimental(dynamic_shapes: bool) -> Iterator[None]:
    """Exports kernels with shapes that are not known in the block, if `dynamic_shapes`; shapes of kernels are static here.

    Raises:
        NotImplementedError: `dynamic_shapes` is true.
    """
    if dynamic_shapes:
        raise NotImplementedError(
            "shapes of kernels are static: dynamic_shapes=True is not supported"
        )
    yield
