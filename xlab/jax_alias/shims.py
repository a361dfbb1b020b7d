"""Private names of JAX that mean something here but have no place of their own; the table in `private.py` points at them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np

from xlab.backend import client, processes
from xlab.core import avals, dtypes, source_info
from xlab.core.trace import EVAL, state
from xlab.parallel.assemble import make_array_from_single_device_arrays

__all__ = [
    "ArrayTypes",
    "Backends",
    "ExcludedPaths",
    "GlobalState",
    "Pathways",
    "RegisteredTypes",
    "ResultHandlers",
    "addressable_devices",
    "include_frame",
    "register_exclusion",
    "supports_inf",
    "tangent_type_of",
    "trace_state_clean",
]


def register_exclusion(path: str) -> None:
    """Takes a file, or the files of a folder, for internal: errors and source lines are shown at who calls it."""
    source_info.exclude(path)


def include_frame(frame: FrameType) -> bool:
    """Whether a frame is the user's."""
    return not source_info.is_internal(frame.f_code.co_filename)


class ExcludedPaths:
    """The paths that count as internal, as a list that libraries append to and remove from."""

    def __iter__(self) -> Iterator[str]:
        return iter(source_info.excluded())

    def __len__(self) -> int:
        return len(source_info.excluded())

    def __contains__(self, path: str) -> bool:
        return os.path.abspath(path) in source_info.excluded()

    def append(self, path: str) -> None:
        source_info.exclude(path)

    def remove(self, path: str) -> None:
        source_info.include(path)


class Pathways:
    """What only a Pathways cluster has."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(
            "this needs a Pathways cluster, and xlab runs on the devices of its own processes"
        )


class ResultHandlers:
    """What makes a whole array of those of the devices, by kind of type; arrays are the only one."""

    def __getitem__(self, kind: type) -> Callable[..., Any]:
        if kind is not avals.ShapedArray:
            raise KeyError(kind)
        return lambda aval, sharding, committed: (
            lambda parts: make_array_from_single_device_arrays(aval.shape, sharding, list(parts))
        )


class RegisteredTypes:
    """The types that are nodes of trees, to be asked with `in`."""

    def __contains__(self, cls: type) -> bool:
        from xlab.tree import is_tree_node

        return is_tree_node(cls)


class ArrayTypes:
    """The classes whose values are arguments of programs: giving one the handler of NumPy's arrays adds it."""

    def __getitem__(self, cls: type) -> Any:
        if cls not in avals.aval_makers:
            raise KeyError(cls)
        return avals.aval_makers[cls]

    def __contains__(self, cls: type) -> bool:
        return cls in avals.aval_makers

    def __setitem__(self, cls: type, handler: Any) -> None:
        if cls not in self:
            avals.register_array_type(cls, np.asarray)


def supports_inf(dtype: Any) -> bool:
    """Whether a floating type has an infinity."""
    found = dtypes.to_dtype(dtype)
    return dtypes.issubdtype(found, np.inexact) and found.type(float("inf")) == float("inf")


def trace_state_clean() -> bool:
    """Whether nothing is being traced."""
    return state.trace is EVAL


class Backends:
    """The clients that exist, by platform."""

    def get(self, platform: str, default: Any = None) -> Any:
        return client.client() if platform == client.PLATFORM and client.started() else default


class GlobalState:
    """What this process knows of the others it has joined."""

    @property
    def client(self) -> Any:
        return processes.coordination()[0]

    @property
    def process_id(self) -> int:
        return processes.coordination()[1]

    @property
    def num_processes(self) -> int:
        return processes.coordination()[2]


def addressable_devices(sharding: Any) -> tuple[Any, ...]:
    """The devices of a sharding that this process feeds, in the order of the program's devices."""
    here = sharding.addressable_devices
    return tuple(d for d in sharding._device_assignment if d in here)


def tangent_type_of(aval: Any) -> Callable[[], Any]:
    """What asks a type for that of its tangents, under the name that it had before."""
    return aval.to_tangent_aval
