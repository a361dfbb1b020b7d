"""Transfer guards: allow, log or disallow implicit (and, on request, explicit) transfers.

Native code checks each transfer against this thread's state; here that state follows the options `transfer_guard_*`.
Levels: 'allow', 'log', 'disallow' (implicit transfers), 'log_explicit', 'disallow_explicit' (`device_put` as well).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any

from xlab.backend.native import XlaRuntimeError, _jax
from xlab.config import FLAGS, config

_lib = _jax.guard_lib
_level = _lib.TransferGuardLevel
_LEVELS = {"allow": _level.ALLOW, "log": _level.LOG, "disallow": _level.DISALLOW, "log_explicit": _level.LOG_EXPLICIT,
           "disallow_explicit": _level.DISALLOW_EXPLICIT}  # fmt: skip
_DIRECTIONS = ("host_to_device", "device_to_host", "device_to_device")

thread_state: Callable[[], Any] = _lib.thread_local_state
"""The native state of the current thread; `explicit_device_put` on it says that a transfer was asked for."""


class _Guard:
    """A `with` block of the current thread, or a decorator, under a level for some directions."""

    __slots__ = ("_directions", "_level", "_previous")

    def __init__(self, directions: tuple[str, ...], level: str):
        self._directions, self._level = directions, FLAGS["transfer_guard"].check(level)
        self._previous: list[dict] = []

    def __enter__(self) -> None:
        global _in_use
        _in_use = True
        state = thread_state()
        self._previous.append(
            {
                d: (getattr(state, d), config.__dict__.get(f"transfer_guard_{d}"))
                for d in self._directions
            }
        )
        for d in self._directions:
            setattr(state, d, _LEVELS[self._level])
            config.set_local(f"transfer_guard_{d}", self._level)

    def __exit__(self, *exc_info: object) -> None:
        state = thread_state()
        for d, (native, ours) in self._previous.pop().items():
            setattr(state, d, native)
            if ours is None:
                config.unset_local(f"transfer_guard_{d}")
            else:
                config.set_local(f"transfer_guard_{d}", ours)

    def __call__(self, fun: Callable) -> Callable:
        @wraps(fun)
        def wrapped(*args, **kwargs):
            with _Guard(self._directions, self._level):
                return fun(*args, **kwargs)

        return wrapped


def transfer_guard(new_val: str) -> _Guard:
    """Context manager: sets the guard level for transfers in every direction.

    Example:
        >>> import numpy as np, xlab
        >>> double = xlab.jit(lambda x: 2 * x)
        >>> with xlab.transfer_guard("disallow"):  # doctest: +IGNORE_EXCEPTION_DETAIL
        ...     double(np.ones(3))
        Traceback (most recent call last):
        ...
        jaxlib._jax.JaxRuntimeError: INVALID_ARGUMENT: Disallowed host-to-device transfer: ...
    """
    return _Guard(_DIRECTIONS, new_val)


def transfer_guard_host_to_device(new_val: str) -> _Guard:
    """Context manager: sets the guard level for transfers from host to device."""
    return _Guard(("host_to_device",), new_val)


def transfer_guard_device_to_host(new_val: str) -> _Guard:
    """Context manager: sets the guard level for reading device data; on CPU reading is never refused."""
    return _Guard(("device_to_host",), new_val)


def transfer_guard_device_to_device(new_val: str) -> _Guard:
    """Context manager: sets the guard level for copies from one device to another."""
    return _Guard(("device_to_device",), new_val)


def explicit_transfer():
    """Marks transfers in the block as explicit: requested by the user or by the runtime itself."""
    return _explicit() if _in_use else _NOTHING


_in_use = False
_NOTHING = nullcontext()


@contextmanager
def _explicit():
    state = thread_state()
    previous = state.explicit_device_put
    state.explicit_device_put = True
    try:
        yield
    finally:
        state.explicit_device_put = previous


def between_devices(aval: Any, sharding: Any):
    """The block copies an array to other devices by way of the host: a transfer between devices, to be guarded as one."""
    return _between(aval, sharding) if _in_use else _NOTHING


@contextmanager
def _between(aval: Any, sharding: Any):
    state = thread_state()
    level = state.device_to_device or _lib.global_state().device_to_device
    explicit = state.explicit_device_put
    if level == _level.DISALLOW_EXPLICIT or (level == _level.DISALLOW and not explicit):
        raise XlaRuntimeError(
            f"INVALID_ARGUMENT: Disallowed device-to-device transfer: aval={aval}, dst_sharding={sharding}"
        )
    previous = state.host_to_device, explicit
    state.host_to_device, state.explicit_device_put = _level.ALLOW, True
    try:
        yield
    finally:
        state.host_to_device, state.explicit_device_put = previous


def _set_all(value: str) -> None:
    for d in _DIRECTIONS:
        config.update(f"transfer_guard_{d}", value)


def _set_one(direction: str) -> Callable[[str], None]:
    def changed(value: str) -> None:
        global _in_use
        _in_use = _in_use or value != "allow"
        setattr(_lib.global_state(), direction, None if value == "allow" else _LEVELS[value])

    return changed


config.add_observer("transfer_guard", _set_all)
for _d in _DIRECTIONS:
    config.add_observer(f"transfer_guard_{_d}", _set_one(_d))
    if getattr(config, f"transfer_guard_{_d}") != "allow":
        _set_one(_d)(getattr(config, f"transfer_guard_{_d}"))
if config.transfer_guard != "allow":
    _set_all(config.transfer_guard)
