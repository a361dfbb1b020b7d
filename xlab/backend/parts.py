"""The native calls that take arrays apart, shielded from what they would import.

For each part, native code tries to import modules of JAX, to give the part a type and a sharding. That is refused (`import_guard.py`), but on
its way through the import system a refusal takes longer than reading the part. A native import asks the `__import__`
of the module that is running, so this module has one of its own, which refuses at once. It does so where JAX is there, too: it may be on
its way in, in another thread, and modules of it that are asked for out of order would end its import.

While nobody has asked for JAX, native code is answered: the parts get shardings of ours, which are made once for each device. Without an
answer it makes a sharding for every part, which takes as long as the rest.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from xlab.backend import import_guard

_WANTED = "jax._src.sharding_impls"
_answer = types.ModuleType(_WANTED)  # has a name in `sys.modules` only during a call


def set_sharding_of_parts(make: Callable[..., Any]) -> None:
    """Sets the function that makes the native sharding of one part: `make(device, memory_kind=kind)`."""
    _answer.make_single_device_sharding = make  # type: ignore[attr-defined]


def _import(name: str, *args: Any, **kwargs: Any) -> Any:
    if name.startswith("jax."):
        if sys.modules.get(name) is _answer:
            return _answer
        raise ModuleNotFoundError(name=name)
    return builtins.__import__(name, *args, **kwargs)


__builtins__ = {**vars(builtins), "__import__": _import}  # functions defined below see these


def split(arr: Any) -> list[Any]:
    """The one-device arrays, without types, that an array consists of; None for a deleted one."""
    with import_guard.beginning:
        if import_guard.requested():
            return arr._arrays
        try:  # an import of JAX waits until the name is free again
            sys.modules[_WANTED] = _answer
            return arr._arrays
        finally:
            sys.modules.pop(_WANTED, None)


def read(arr: Any) -> np.ndarray:
    """The values of a one-device array as NumPy, read-only; waits for them."""
    try:
        return np.asarray(memoryview(arr))
    except BufferError:  # a dtype, a layout or a memory that buffers cannot say; or a failure, which the other way raises
        return arr._single_device_array_to_np_array_did_copy()[0]


def start_reading(arr: Any) -> None:
    """Starts the transfer of all parts to the host; the memory of CPU devices is the host's."""
    if arr.platform() == "cpu":
        return
    for part in split(arr):
        part._copy_single_device_array_to_host_async()
