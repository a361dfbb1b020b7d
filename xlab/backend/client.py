"""The CPU client and its devices, made when first needed.

Example:
    >>> devices()[0].platform
    'cpu'
"""

from __future__ import annotations

import _thread
import functools
import gc
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xlab.backend import calling, scheduling, watchdog
from xlab.backend.native import _jax
from xlab.config import config, cpu_device_count

if TYPE_CHECKING:
    Client = Any
    Device = Any
    DeviceList = Any
else:
    Client = _jax.Client
    Device = _jax.Device
    DeviceList = _jax.DeviceList
PLATFORM = "cpu"

_lock = threading.Lock()
_client: Any = None
_devices: tuple[Device, ...] = ()
_processes = 1
_started_with = 0
_make: Callable[..., Any] = _jax.get_tfrt_cpu_client


def client() -> Any:
    """The process's client; the first call starts it with the configured number of devices."""
    return _client if _client is not None else _start()


def started() -> bool:
    """Whether the client exists, which fixes the number of devices."""
    return _client is not None


def _start(make: Callable[..., Any] | None = None) -> Any:
    global _client, _devices, _processes, _started_with, _make
    with _lock:
        if _client is None:
            count = cpu_device_count()
            if count < 1:
                raise ValueError(f"config.num_cpu_devices must be at least 1; got {count}.")
            with (
                watchdog.long_collective_timeout(),
                calling.room_for_callbacks(count),
                scheduling.in_batches(count),
            ):
                made = (make or _make)(num_devices=count)
            _devices, _started_with = tuple(made.devices()), count
            _processes = max(d.process_index for d in _devices) + 1
            _client, _make = made, make or _make  # another client is made like this one
            gc.callbacks.append(_release)
    return _client


def _release(
    phase: str, info: dict[str, int], _collect: Callable[[], None] = _jax.collect_garbage
) -> None:
    """After a full garbage collection, frees host callbacks that deleted programs held."""
    if phase == "stop" and info["generation"] == 2:
        try:
            _collect()
        except KeyboardInterrupt:
            # Python drops what a callback of its collector raises; the interrupt is for the program around it.
            threading.Timer(0.01, _thread.interrupt_main).start()


def require_unused() -> None:
    """Raises RuntimeError if the client exists already and so cannot be replaced."""
    if _client is not None:
        raise RuntimeError(
            "The devices are already in use, so the process can no longer join others. Call "
            "xlab.distributed.initialize() before anything that touches a device."
        )


def use_client(make: Callable[..., Any]) -> Any:
    """Starts the process's client with `make(num_devices=...)`, for several processes working together."""
    require_unused()
    return _start(make)


class _Platform:
    """A platform that somebody registered: how its client is made, and the client once it is."""

    def __init__(self, make: Callable[[], Any], quiet: bool, experimental: bool, topology: Any):
        self.make, self.quiet, self.experimental, self.topology = (
            make,
            quiet,
            experimental,
            topology,
        )
        self.client: Any = None


_platforms: dict[str, _Platform] = {}


def register_platform(
    name: str, make: Callable[[], Any], *, quiet: bool, experimental: bool, topology: Any
) -> None:
    """Adds a platform that can be asked for by name; the default one stays `PLATFORM`."""
    if name == PLATFORM or name in _platforms:
        raise ValueError(
            f"there is a platform named {name!r} already: give the other one a name of its own"
        )
    if not callable(make):
        raise TypeError(
            f"a platform is registered with a function that makes its client, got {make!r}"
        )
    _platforms[name] = _Platform(make, quiet, experimental, topology)


def clients() -> dict[str, Any]:
    """The clients of all platforms by name; platforms that cannot start and were registered as optional are left out."""
    found = {PLATFORM: client()}
    for name, platform in _platforms.items():
        try:
            found[name] = client_of(name)
        except RuntimeError:
            if not platform.quiet:
                raise
    return found


def client_of(backend: Any) -> Any:
    """The client of a platform by its name, or the client itself; that of the default platform for None.

    Raises:
        RuntimeError: there is no such platform, or its client cannot be made.
        TypeError: it is neither a name nor a client.
    """
    if backend is None or backend == PLATFORM:
        return client()
    if isinstance(backend, _jax.Client):
        return backend
    if not isinstance(backend, str):
        raise TypeError(
            f"backend has to be the name of a platform, {PLATFORM!r}, or a client such as xlab.devices()[0].client; "
            f"got {backend!r}"
        )
    platform = _platforms.get(backend)
    if platform is None:
        present = ", ".join(map(repr, (PLATFORM, *_platforms)))
        raise RuntimeError(
            f"Unknown backend: {backend!r} requested, but the only platform present is {present}. "
            "Use xlab.devices() and set config.num_cpu_devices for more of them."
            if not _platforms
            else f"Unknown backend: {backend!r} requested, but the platforms present are {present}."
        )
    with _lock:
        if platform.client is None:
            try:
                made = platform.make()
            except Exception as error:
                raise RuntimeError(f"Backend {backend!r} failed to initialize: {error}") from error
            if made is None:
                raise RuntimeError(
                    f"Backend {backend!r} failed to initialize: the function it was registered with made no client"
                )
            if platform.experimental:
                warnings.warn(
                    f"Platform {backend!r} is experimental and not all functionality may be correctly supported!",
                    stacklevel=3,
                )
            platform.client = made
    return platform.client


def forget_clients() -> None:
    """Forgets the clients of all platforms; the next use of a device makes new ones. Arrays keep theirs alive."""
    global _client, _devices, _started_with
    with _lock:
        if _client is not None:
            gc.callbacks.remove(_release)
        _client, _devices, _started_with = None, (), 0
        for platform in _platforms.values():
            platform.client = None


def _devices_of(backend: Any) -> tuple[Device, ...]:
    of = client_of(backend)
    return _devices if of is _client else tuple(of.devices())


def devices(backend: str | Any | None = None) -> list[Device]:
    """All devices of all processes, in order of their ids.

    Args:
        backend: the name of a platform, of which there is one, `"cpu"`, or its client, as here and below.

    Raises:
        RuntimeError: there is no such platform.
    """
    return list(_devices_of(backend))


def local_devices(
    process_index: int | None = None, backend: str | Any | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of one process.

    Args:
        process_index: which process; this one by default.
        backend: the platform.
        host_id: the former name of `process_index`.

    Raises:
        ValueError: there is no such process.
    """
    if host_id is not None:
        warnings.warn("local_devices(host_id=...) is now called process_index", stacklevel=2)
        process_index = host_id
    mine = client_of(backend).process_index() if process_index is None else process_index
    if not 0 <= mine < process_count(backend):
        raise ValueError(
            f"There is no process {mine}; the processes are 0 to {process_count(backend) - 1}."
        )
    return [d for d in _devices_of(backend) if d.process_index == mine]


def device_count(backend: str | Any | None = None) -> int:
    """Number of devices of all processes."""
    return len(_devices_of(backend))


def local_device_count(backend: str | Any | None = None) -> int:
    """Number of devices of this process."""
    return len(local_devices(backend=backend))


def default_backend() -> str:
    """The platform computations run on by default."""
    return PLATFORM


def process_index(backend: str | Any | None = None) -> int:
    """This process's number among those working together."""
    return client_of(backend).process_index()


def process_count(backend: str | Any | None = None) -> int:
    """How many processes work together."""
    of = client_of(backend)
    return _processes if of is _client else max(d.process_index for d in of.devices()) + 1


def process_indices(backend: str | Any | None = None) -> list[int]:
    """The numbers of all processes."""
    return list(range(process_count(backend)))


def default_device() -> Device:
    """The device of uncommitted data: `config.default_device`, else the first local device."""
    chosen = config.default_device
    if chosen is None:
        if _client is None:
            client()
        return (
            _devices[0]
            if _devices[0].process_index == _client.process_index()
            else local_devices()[0]
        )
    if isinstance(chosen, Device):
        return chosen
    if isinstance(chosen, str):
        try:
            return local_devices(backend=chosen)[0]
        except RuntimeError as error:
            raise ValueError(
                f"default_device must be a device, such as xlab.devices()[0], or the name of a platform that is there: {error}"
            ) from None
    found: Sequence[Device] = getattr(chosen, "_device_assignment", ())
    if len(found) == 1:
        return found[0]
    raise TypeError(f"config.default_device must be a device or a platform name; got {chosen!r}.")


def platform_version() -> str:
    """The client's own description of its version."""
    return client().platform_version


@functools.cache
def processor(device: Device) -> str:
    """The target of machine code for a device: accelerator kind, or CPU architecture and features."""
    if device.platform != "cpu":
        return str(device.device_kind)
    import hashlib
    import platform

    features = ""
    try:
        with open("/proc/cpuinfo") as file:
            features = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        features = platform.processor()
    words = " ".join(sorted(features.partition(":")[2].split() or [features]))
    return f"{platform.machine()} {hashlib.sha256(words.encode()).hexdigest()[:16]}"


def memory_kinds(device: Device) -> tuple[str, ...]:
    """Kinds of memory the device can address, the default one first."""
    default = device.default_memory().kind
    return (default, *(m.kind for m in device.addressable_memories() if m.kind != default))


def default_memory_kind(device: Device) -> str:
    """The kind of memory data goes to when none is named."""
    return device.default_memory().kind


def topology_devices(name: str, platform: str | None, **options: Any) -> list[Device]:
    """Devices of a topology that need not be attached, from the platform's plugin."""
    known = _platforms.get(platform or "")
    if known is not None and known.topology is not None:
        return list(known.topology(name, **options).devices)
    if platform in (None, "cpu"):
        raise NotImplementedError(
            "topology not implemented for cpu: a plugin of another platform describes machines that are not "
            "attached. get_attached_topology() gives the devices of this one."
        )
    return list(
        _jax.get_default_c_api_topology(platform, name, options)._make_compile_only_devices()
    )


_virtual: dict[int, tuple[Device, ...]] = {}


def virtual_devices(count: int) -> tuple[Device, ...]:
    """Devices to compile for, not to run on; their number does not depend on this process's devices.

    >>> len(virtual_devices(16))
    16
    """
    found = _virtual.get(count)
    if found is None:
        with _lock:
            # A client of its own: the process's has the devices that arrays live on.
            found = _virtual.setdefault(
                count, tuple(_jax.get_tfrt_cpu_client(num_devices=count).devices())
            )
    return found


def live_arrays(platform: str | Any | None = None) -> list[Any]:
    """Every array alive on this client, without the buffers that arrays over several devices are made of; `platform` is the name of its
    platform, or the client."""
    return [a for a in client_of(platform).live_arrays() if a.aval is not None]


def _refuse_late_change(value: Any) -> None:
    if _client is not None and value is not None and value != _started_with:
        raise RuntimeError(
            f"num_cpu_devices cannot become {value}: the devices are already in use ({_started_with} of them). "
            "Set it before the first array or devices() call, with config.update('num_cpu_devices', n) or the "
            "environment variable XLAB_NUM_CPU_DEVICES, and restart the kernel."
        )
    if value is not None and value < 1:
        raise ValueError(f"num_cpu_devices must be at least 1; got {value}.")


config.add_validator("num_cpu_devices", _refuse_late_change)
