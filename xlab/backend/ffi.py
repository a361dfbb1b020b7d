"""Calls into foreign compiled code: registering functions and types with the compiler under a name.

Example:
    >>> import os
    >>> os.path.isdir(include_dir())
    True
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from xlab.backend.native import _jax

Buffer = _jax.ffi.Buffer  # memory of a program that calls Python, for as long as the call lasts
ExecutionContext = _jax.ffi.ExecutionContext
ExecutionStage = _jax.ffi.ExecutionStage

_PLATFORMS = {"cpu": "Host", "gpu": "CUDA", "cuda": "CUDA", "rocm": "ROCM"}


def _platform(name: str) -> str:
    return _PLATFORMS.get(name, name)


def register_ffi_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Makes a compiled function callable from programs.

    Args:
        name: what programs call it by; unique within the process.
        fn: a `PyCapsule` around the function's address (see `pycapsule`), or a dict from the stages of a call ("instantiate",
            "prepare", "initialize", "execute") to such capsules.
        platform: where it runs.
        api_version: 1 for functions of the typed interface, 0 for the older untyped one.
        kwargs: `traits`, a set of bits about the function.
    """
    unknown = set(kwargs) - {"traits"}
    if unknown:
        raise TypeError(
            f"register_ffi_target got unexpected keyword arguments {sorted(unknown)}; it takes name, fn, platform, "
            f"api_version and traits"
        )
    _jax.register_custom_call_target(
        name, fn, platform=_platform(platform), api_version=api_version, **kwargs
    )


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Registers the id of a type that functions keep between calls: a capsule around a pointer to the id."""
    _jax.register_custom_type(name, obj)


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Registers a type that functions keep between calls: a dict of capsules with its "type_id" and "type_info"."""
    _jax.register_custom_type(name, type_registration)


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Says that a function treats leading dimensions alike, so that programs on several devices may cut along them."""
    _jax.register_custom_call_as_batch_partitionable(name)


def pycapsule(funcptr: Any) -> Any:
    """A `PyCapsule` around a ctypes function pointer, for `register_ffi_target`.

    Example:
        >>> import ctypes
        >>> type(pycapsule(ctypes.CDLL(None).malloc)).__name__
        'PyCapsule'
    """
    destructor = ctypes.CFUNCTYPE(None, ctypes.py_object)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, destructor)
    return make(funcptr, None, destructor(0))


def include_dir() -> str:
    """The directory of the C++ headers that foreign functions are compiled with."""
    import jaxlib

    return os.path.join(os.path.dirname(os.path.abspath(jaxlib.__file__)), "include")
