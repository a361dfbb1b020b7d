"""Python functions and objects that run on the host of the devices that their arguments are on.

With one controller for many hosts that is another machine. Here every process is the host of its devices, so that functions run in the
process that calls them, with whole arrays, outside of programs; what they take and return is held to the same rules.

Example:
    >>> import xlab.numpy as jnp
    >>> @colocated_python
    ... def normalized(x):
    ...     return x / np.linalg.norm(x) * jnp.ones_like(x)
    >>> normalized(jnp.array([3.0, 4.0])).tolist()
    [0.6000000238418579, 0.800000011920929]
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend.client import devices as _devices
from xlab.compile.stages import ShapeDtypeStruct
from xlab.config import config, flag_context
from xlab.core.array import KeyArray, is_native_array
from xlab.core.trace import Tracer
from xlab.sharding import Mesh

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]


def colocated_python(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs on the host of its arguments' devices.

    Args:
        fun: takes and returns trees of arrays. Its results are arrays on devices of the arguments, or on those of `specialize`.

    Returns:
        A function with a method `specialize(in_specs=None, out_specs_fn=None, devices=None)`, which gives the function with what is
        known of its calls, and raises where a call is another: `in_specs` is a tree of `ShapeDtypeStruct` for `(args, kwargs)`,
        `out_specs_fn` computes the types of the results from those of the arguments, `devices` are those to run at, which
        a function without arguments needs.

    Raises:
        TypeError: in a call with traced values, which exist in no host's memory.
        ValueError: in a call with, or for a result of, anything but arrays; without arguments or devices; when types are not those
            that were specified.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> make = colocated_python(lambda: jnp.zeros(3)).specialize(devices=xlab.devices()[1:2])
        >>> make().devices() == {xlab.devices()[1]}
        True
    """
    return _Colocated(fun, lambda devices: fun).wrapper()


def colocated_python_class(cls: type[Any]) -> type[Any]:
    """A class whose methods run on the host of their arguments' devices.

    An object of `cls` is made there when a method is called for the first time, and lives as long as the one that was made here. Its
    attributes are not seen from here.

    Example:
        >>> import xlab.numpy as jnp
        >>> @colocated_python_class
        ... class Counter:
        ...     def __init__(self, start):
        ...         self.count = start
        ...     def add(self, x):
        ...         self.count += 1
        ...         return x + self.count
        >>> counter = Counter(10)
        >>> counter.add(jnp.ones(2)).tolist(), counter.add(jnp.ones(2)).tolist()
        ([12.0, 12.0], [13.0, 13.0])
    """
    if not isinstance(cls, type):
        raise TypeError(f"colocated_python_class takes a class, got {cls!r}")

    class Wrapper:
        def __init__(self, *args: Any, **kwargs: Any):
            self._made: list[Any] = []
            self._make = functools.partial(cls, *args, **kwargs)
            self._lock = threading.Lock()

        def _object(self) -> Any:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
                return self._made[0]

    def method(name: str, plain: Callable) -> Any:
        def bound(self):
            run = lambda devices: getattr(self._object(), name)
            return _Colocated(plain, run).wrapper()

        return property(bound, doc=plain.__doc__)

    for name in dir(cls):
        plain = getattr(cls, name)
        if callable(plain) and (not name.startswith("__") or name == "__call__"):
            if name == "__call__" and "__call__" not in vars(cls):
                continue
            setattr(Wrapper, name, method(name, plain))
    Wrapper.__name__, Wrapper.__qualname__ = cls.__name__, cls.__qualname__
    Wrapper.__doc__, Wrapper.__module__ = cls.__doc__, cls.__module__
    return Wrapper


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices of the hosts of these devices, in their order; a mesh of them for a mesh.

    Raises:
        ValueError: for devices without a CPU device beside them.

    Example:
        >>> import xlab
        >>> colocated_cpu_devices(xlab.devices()[:2]) == xlab.devices()[:2]
        True
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        found = np.array(colocated_cpu_devices(list(mesh.devices.flat)), dtype=object)
        return Mesh(found.reshape(mesh.devices.shape), mesh.axis_names, axis_types=mesh.axis_types)
    return [d if d.platform == "cpu" else _beside(d) for d in devices_or_mesh]


def _beside(device: Any) -> Any:
    here = [d for d in _devices("cpu") if d.process_index == device.process_index]
    place = device.local_hardware_id or 0
    if place >= len(here):
        raise ValueError(
            f"no CPU device belongs to {device}: its process has {len(here)} of them. Ask for one for each device with "
            f"xlab.config.update('num_cpu_devices', n) before the first device is used"
        )
    return here[place]


class _Colocated:
    """A function, and what is known of its calls. `find(devices)` gives what runs."""

    def __init__(
        self,
        fun: Callable,
        find: Callable[[Sequence], Callable],
        in_specs: Any = None,
        out_specs_fn: Callable | None = None,
        devices: Sequence | None = None,
    ):
        self.fun, self.find = fun, find
        self.in_specs, self.out_specs_fn, self.devices = in_specs, out_specs_fn, devices

    def wrapper(self) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self(args, kwargs)

        call = functools.wraps(self.fun)(call)
        call.specialize = self.specialize  # type: ignore[attr-defined]
        return call

    def specialize(
        self,
        in_specs: Any = None,
        out_specs_fn: Callable | None = None,
        devices: Sequence | None = None,
    ) -> Callable:
        for what, new, old in (
            ("in_specs", in_specs, self.in_specs),
            ("out_specs_fn", out_specs_fn, self.out_specs_fn),
            ("devices", devices, self.devices),
        ):
            if new is not None and old is not None:
                raise ValueError(f"specialize: {what} of {self._name()} have been said already")
        return _Colocated(
            self.fun,
            self.find,
            self.in_specs if in_specs is None else in_specs,
            out_specs_fn or self.out_specs_fn,
            self.devices if devices is None else tuple(devices),
        ).wrapper()

    def _name(self) -> str:
        return getattr(self.fun, "__qualname__", repr(self.fun))

    def __call__(self, args: tuple, kwargs: dict) -> Any:
        given = _tree.leaves((args, kwargs))
        self._check_arrays(given, "arguments")
        specs = _tree.map(_spec, (args, kwargs))
        if self.in_specs is not None:
            self._check_specs("arguments", self.in_specs, specs)
        devices = self.devices or tuple(
            dict.fromkeys(d for x in given for d in x.sharding.device_set)
        )
        if not devices:
            raise ValueError(
                f"No devices found. colocated_python function without input arguments must be first specialized with devices: call "
                f"{self._name()}.specialize(devices=xlab.devices()[:1])()"
            )
        # What the function makes lies where it runs: on the first of the devices that are this process's.
        mine = [d for d in devices if d.process_index == d.client.process_index()]
        first = min(mine, key=lambda d: d.id) if mine else config.default_device
        with flag_context("default_device", first):
            out = self.find(devices)(*args, **kwargs)
        self._check_arrays(_tree.leaves(out), "results")
        if self.out_specs_fn is not None:
            wanted = self.out_specs_fn(*specs[0], **specs[1])
            self._check_specs("results", wanted, _tree.map(_spec, out))
        return out

    def _check_arrays(self, leaves: Sequence, what: str) -> None:
        for x in leaves:
            if isinstance(x, Tracer):
                raise TypeError(
                    f"{self._name()} runs in Python on arrays that exist, and is called with a traced value of type {x.aval.str_short(short_dtypes=True)}: call "
                    f"it outside of the function that is traced, or put it there with xlab.pure_callback or experimental.io_callback"
                )
            if not is_native_array(x) and not isinstance(x, KeyArray):
                raise ValueError(
                    f"colocated_python only supports arrays as input and output, but got {type(x)} among the {what} of "
                    f"{self._name()}: put it on a device with xlab.numpy.asarray or xlab.device_put"
                )

    def _check_specs(self, what: str, wanted: Any, found: Any) -> None:
        (w, w_tree), (f, f_tree) = _tree.flatten(wanted), _tree.flatten(found)
        if w_tree != f_tree:
            raise ValueError(
                f"{self._name()} was specialized for {what} of the structure {w_tree}, got {f_tree}"
            )
        for want, have in zip(w, f):
            placed = want.sharding is None or want.sharding == have.sharding
            if (want.shape, want.dtype) != (have.shape, have.dtype) or not placed:
                raise ValueError(
                    f"{self._name()} was specialized for {what} like {want}, got one like {have}"
                )


def _spec(x: Any) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
