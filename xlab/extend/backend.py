"""The compiler and the devices behind the runtime, for those who compile programs of their own or keep caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlab.backend import caches as _caches
from xlab.backend import client as _client
from xlab.backend import compiling as _compiling
from xlab.backend import native as _native
from xlab.compile.memory_cache import clear_caches as _clear_caches
from xlab.config import idle_argument as _idle

__all__ = [
    "backend_xla_version",
    "backends",
    "clear_backends",
    "clear_in_memory_compilation_cache",
    "get_backend",
    "get_compile_options",
    "get_default_device",
    "ifrt_proxy",
    "register_backend_cache",
    "register_backend_factory",
]


ifrt_proxy: Any
"""jaxlib's module for clients of devices on another machine."""


def __getattr__(name: str) -> Any:
    if name == "ifrt_proxy":  # loaded by those who connect to another machine
        return _native.ifrt_proxy()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def backends() -> dict[str, Any]:
    """The clients of the platforms that are present, by the platform's name.

    Example:
        >>> list(backends())
        ['cpu']
    """
    return _client.clients()


def get_backend(platform: str | Any | None = None) -> Any:
    """The client of a platform.

    Args:
        platform: its name, or the client itself; the default platform if absent.

    Raises:
        RuntimeError: there is no such platform.

    Example:
        >>> get_backend("cpu").platform
        'cpu'
    """
    return _client.client_of(platform)


def get_default_device() -> Any:
    """The device where arrays go that nothing else places."""
    return _client.default_device()


def backend_xla_version(platform: str | Any | None = None) -> int | None:
    """The version of XLA that a plugin's client says it has; None where it says none.

    Args:
        platform: as for `get_backend`.
    """
    return getattr(get_backend(platform), "xla_version", None)


def clear_in_memory_compilation_cache() -> None:
    """Forgets compiled programs; functions compile again when they are called next."""
    _clear_caches()


def clear_backends() -> None:
    """Forgets the clients of all platforms and every compiled program, so that the next use of a device makes new clients.

    Until then options that devices are made with can be changed, such as `num_cpu_devices`. Arrays that there are keep their devices,
    which are others than the new ones: they can be read, and be brought to these with `device_put`.
    """
    _clear_caches()
    _client.forget_clients()


def register_backend_factory(
    name: str,
    factory: Callable[[], Any],
    *,
    priority: int = 0,
    fail_quietly: bool = True,
    experimental: bool = False,
    make_topology: Callable[..., Any] | None = None,
    c_api: Any | None = None,
) -> None:
    """Adds a platform, whose devices are then `xlab.devices(name)` and whose client is `get_backend(name)`.

    Args:
        name: what it is called.
        factory: makes the client, when it is first asked for.
        priority: which platform is the default one; has no effect, that is the CPU.
        fail_quietly: whether `backends()` leaves it out where it cannot start, instead of raising.
        experimental: whether its first use is a warning.
        make_topology: makes the description of a machine that need not be attached, for `experimental.topologies`.
        c_api: the plugin that the client comes from; has no effect, as clients are used alike.

    Raises:
        ValueError: there is a platform of that name.
        TypeError: the factory is no function.

    Example:
        >>> register_backend_factory("cpu", lambda: None)
        Traceback (most recent call last):
        ValueError: there is a platform named 'cpu' already: give the other one a name of its own
    """
    function = "register_backend_factory"
    _idle(function, "priority", priority or None, "the default platform is the CPU")
    _idle(function, "c_api", c_api, "clients are used alike")
    _client.register_platform(
        name, factory, quiet=fail_quietly, experimental=experimental, topology=make_topology
    )


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Has a cache emptied whenever the runtime's caches are.

    Args:
        cache: has a method `cache_clear`, as what `functools.lru_cache` makes.
        for_what: what it keeps, for messages.

    Raises:
        TypeError: it cannot be cleared.
    """
    clear = getattr(cache, "cache_clear", None)
    if not callable(clear):
        raise TypeError(
            f"register_backend_cache: the cache for {for_what} has to have a method cache_clear(), got {cache!r}"
        )
    _caches.register(clear)


def get_compile_options(
    num_replicas: int,
    num_partitions: int,
    device_assignment: Sequence[Sequence[int]] | np.ndarray | None = None,
    env_options_overrides: Mapping[str, Any] | None = None,
    fdo_profile: bytes | None = None,
    detailed_logging: bool = True,
    backend: Any | None = None,
) -> Any:
    """Options to compile a module with the client itself: `get_backend().compile_and_load(module, devices, options)`.

    Args:
        num_replicas: copies of the program.
        num_partitions: devices that one copy is spread over.
        device_assignment: devices or their ids, of shape (num_replicas, num_partitions), or (num_replicas,) where there is one partition; by
            default the first ones.
        env_options_overrides: options of the compiler, by name.
        fdo_profile: a profile for feedback-directed optimization.
        detailed_logging: whether XLA logs the module.
        backend: the client, as for `get_backend`.

    Returns:
        jaxlib's `CompileOptions`.

    Raises:
        ValueError: the assignment has another shape, or names a device that there is not.

    Example:
        >>> get_compile_options(1, 1).num_replicas
        1
    """
    by_id = {d.id: d for d in _client.devices(backend)}
    if device_assignment is None:
        ids = np.array(sorted(by_id)[: num_replicas * num_partitions])
    else:
        given = np.asarray(device_assignment, dtype=object)
        given = given[:, None] if given.ndim == 1 else given
        ids = np.array([getattr(d, "id", d) for d in given.flat], int)
        if given.shape != (num_replicas, num_partitions):
            ids = ids[:0]
    if ids.size != num_replicas * num_partitions or not set(ids.tolist()) <= set(by_id):
        raise ValueError(
            f"get_compile_options: {num_replicas} replicas of {num_partitions} partitions need as many ids of devices, of shape "
            f"({num_replicas}, {num_partitions}), among {sorted(by_id)}; got {device_assignment if device_assignment is not None else ids.tolist()}"
        )
    options = dict(env_options_overrides or {})
    if fdo_profile is not None:
        options["fdo_profile"] = fdo_profile
    made = _compiling.compile_options(
        [by_id[i] for i in ids.tolist()], num_partitions, options=options
    )
    made.executable_build_options.debug_options.xla_detailed_logging = detailed_logging
    return made
