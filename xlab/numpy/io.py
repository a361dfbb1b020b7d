"""Arrays from bytes, text, files and other libraries; how arrays are printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from xlab.backend.client import default_device
from xlab.core import dtypes
from xlab.core.array import Array
from xlab.core.typing import DeviceLike, DTypeLike
from xlab.numpy.creation import array, asarray
from xlab.sharding import Sharding, SingleDeviceSharding

__all__ = [
    "array_repr",
    "array_str",
    "from_dlpack",
    "frombuffer",
    "fromfile",
    "fromiter",
    "fromstring",
    "get_printoptions",
    "load",
    "printoptions",
    "save",
    "savez",
    "set_printoptions",
]

array_repr, array_str = np.array_repr, np.array_str
get_printoptions, set_printoptions, printoptions = (
    np.get_printoptions,
    np.set_printoptions,
    np.printoptions,
)
save, savez = np.save, np.savez


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Arrays from a file of `numpy.save`; bfloat16, which such files call two bytes without meaning, is recognized.

    Values that are no numbers, among them those of the other narrow types, come as NumPy arrays.

    Args:
        file: a path or an open file.
        args: as for `numpy.load`.
        kwargs: as for `numpy.load`.

    Example:
        >>> import io
        >>> import xlab.numpy as jnp
        >>> f = io.BytesIO()
        >>> jnp.save(f, jnp.ones(2))
        >>> _ = f.seek(0)
        >>> jnp.load(f)
        Array([1., 1.], dtype=float32)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == np.dtype("V2"):
        found = found.view(dtypes.bfloat16)
    numbers = found.dtype == dtypes.bfloat16 or (
        found.dtype.kind not in "OSUVMm" and found.dtype.isnative
    )
    return asarray(found) if numbers else found


def frombuffer(
    buffer: bytes | Any, dtype: DTypeLike | None = float, count: int = -1, offset: int = 0
) -> Array:
    """A vector from bytes.

    Args:
        buffer: an object with the buffer interface, such as `bytes`.
        dtype: the dtype of the items.
        count: how many items; -1 for all.
        offset: where to begin, in bytes.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.frombuffer(bytes([1, 2]), jnp.uint8)
        Array([1, 2], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtype=dtypes.to_dtype(dtype), count=count, offset=offset))


def fromiter(iterable: Iterable, dtype: DTypeLike | None, count: int = -1) -> Array:
    """A vector from the values of an iterable.

    Args:
        iterable: numbers.
        dtype: the dtype of the items.
        count: how many items; -1 for all.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fromiter(range(3), int)
        Array([0, 1, 2], dtype=int32)
    """
    return asarray(np.fromiter(iterable, dtype=dtypes.to_dtype(dtype), count=count))


def fromfile(
    file: Any, dtype: DTypeLike | None = float, count: int = -1, sep: str = "", offset: int = 0
) -> Array:
    """A vector from the numbers in a file, read at once: in a traced function they are constants.

    Args:
        file: a path or an open file.
        dtype: the dtype of the items.
        count: how many items; -1 for all.
        sep: what stands between items written as text.
        offset: where to begin, in bytes.

    Example:
        >>> import tempfile, numpy as np, xlab.numpy as jnp
        >>> with tempfile.TemporaryFile() as file:
        ...     np.float32([1, 2]).tofile(file), file.seek(0)
        ...     print(jnp.fromfile(file, jnp.float32))
        (None, 0)
        [1. 2.]
    """
    return asarray(
        np.fromfile(file, dtype=dtypes.to_dtype(dtype), count=count, sep=sep, offset=offset)
    )


def fromstring(string: str, dtype: DTypeLike | None = float, count: int = -1, *, sep: str) -> Array:
    """A vector from a text of numbers.

    Args:
        string: numbers as text.
        dtype: the dtype of the items.
        count: how many items; -1 for all.
        sep: what stands between items written as text.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fromstring("1 2", int, sep=" ")
        Array([1, 2], dtype=int32)
    """
    return asarray(np.fromstring(string, dtype=dtypes.to_dtype(dtype), count=count, sep=sep))


def from_dlpack(x: Any, /, *, device: DeviceLike | None = None, copy: bool | None = None) -> Array:
    """An array from another library's, through the DLPack protocol.

    Args:
        x: an array with the methods `__dlpack__` and `__dlpack_device__`.
        device: a device or a sharding for the result.
        copy: True always copies, False never does.

    Raises:
        TypeError: `x` has no such methods.
        BufferError: its dtype or layout is none that DLPack knows.
        ValueError: with `copy=False` the device would need a copy.

    Example:
        >>> import numpy as np
        >>> import xlab.numpy as jnp
        >>> jnp.from_dlpack(np.ones(2, np.float32))
        Array([1., 1.], dtype=float32)
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"from_dlpack needs an array with the methods __dlpack__ and __dlpack_device__, got {type(x)}"
        )
    if copy is False and device is not None:
        here = x.sharding if isinstance(x, Array) else SingleDeviceSharding(default_device())
        there = device if isinstance(device, Sharding) else SingleDeviceSharding(device)
        if there.device_set != here.device_set:
            raise ValueError(
                f"from_dlpack: the array is on {here} and device={device} needs a copy, which copy=False forbids: "
                f"leave copy out"
            )
    if isinstance(x, Array):
        return array(x, copy=bool(copy), device=device)
    try:
        host = np.from_dlpack(x)
    except (RuntimeError, BufferError) as e:
        raise BufferError(
            f"from_dlpack cannot take {type(x).__name__} with dtype {getattr(x, 'dtype', 'unknown')} through DLPack: {e} "
            "Use asarray, or view it as integers of its width first."
        ) from e
    return asarray(host.copy() if copy else host, device=device)
