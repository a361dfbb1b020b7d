"""The guard against arrays freed by the garbage collector, which hold device memory too long.

Native code checks when it clears an array that was part of a reference cycle; its state follows the option
`array_garbage_collection_guard`.
"""

from __future__ import annotations

from typing import Any

from xlab.backend.native import _jax
from xlab.config import config, flag_context

_lib = _jax.guard_lib
_LEVELS = {
    "allow": _lib.GarbageCollectionGuardLevel.ALLOW,
    "log": _lib.GarbageCollectionGuardLevel.LOG,
    "fatal": _lib.GarbageCollectionGuardLevel.FATAL,
}


class array_garbage_collection_guard(flag_context):
    """Context manager: what happens to arrays that only the garbage collector frees: 'allow', 'log' or 'fatal'.

    An array in a reference cycle keeps its device memory until the collector happens to run. 'log' writes an error for each,
    'fatal' ends the process.

    Example:
        >>> with array_garbage_collection_guard("log"):
        ...     pass
    """

    __slots__ = ("_native",)

    def __init__(self, new_val: str):
        super().__init__("array_garbage_collection_guard", new_val)
        self._native: list[Any] = []

    def __enter__(self) -> None:
        super().__enter__()
        state = _lib.thread_local_state()
        self._native.append(state.garbage_collect_array)
        state.garbage_collect_array = _LEVELS[self._value]

    def __exit__(self, *exc_info: object) -> None:
        _lib.thread_local_state().garbage_collect_array = self._native.pop()
        super().__exit__(*exc_info)


def _set_global(level: str) -> None:
    _lib.global_state().garbage_collect_array = _LEVELS[level]


config.add_validator("array_garbage_collection_guard", _set_global)
