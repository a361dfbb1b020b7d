"""The native calls that take arrays apart, shielded from what they would import.

For each part, native code tries to import modules of JAX, to give the part a type and a sharding. That is refused (`import_guard.py`), but on
its way through the import system a refusal takes longer than reading the part. A native import asks the `__import__`
of the module that is running, so this module has one of its own, which refuses at once. It does so where JAX is there, too: it may be on
its way in, in another thread, and modules of it that are asked for out of order would end its import.
"""

from __future__ import annotations

import builtins
from typing import Any


def _import(name: str, *args: Any, **kwargs: Any) -> Any:
    if name.startswith("jax."):
        raise ModuleNotFoundError(name=name)
    return builtins.__import__(name, *args, **kwargs)


__builtins__ = {**vars(builtins), "__import__": _import}  # functions defined below see these


def split(arr: Any) -> list[Any]:
    """The one-device arrays, without types, that an array consists of; None for a deleted one."""
    return arr._arrays


def read(arr: Any) -> Any:
    """The values of a one-device array as NumPy."""
    return arr._single_device_array_to_np_array_did_copy()[0]


def start_reading(arr: Any) -> None:
    """Starts the transfer of all parts to the host."""
    for part in arr._arrays:
        part._copy_single_device_array_to_host_async()
