"""Choosing the order of devices in a mesh."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab.backend import client as _client

__all__ = ["create_device_mesh", "create_hybrid_device_mesh", "device_kind_handler_dict"]

device_kind_handler_dict: dict[str, Callable] = {}
"""For kinds of devices whose order matters: `handler(mesh_shape, devices, contiguous_submeshes=) -> array of devices or None`,
asked first by `create_device_mesh`. None leaves the choice to it."""


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Devices as an array of the given shape, for `Mesh`.

    Devices on one host are equally near, so they are taken in the order of their ids; the last options concern hardware with a
    physical topology and change nothing here.

    Args:
        mesh_shape: number of devices along each mesh axis.
        devices: the devices; all by default.
        contiguous_submeshes: whether the devices of each process form a block (TPU).
        allow_split_physical_axes: whether a mesh axis may take part of a physical axis (TPU).

    Example:
        >>> import xlab
        >>> create_device_mesh((1, 1), xlab.devices()[:1]).shape
        (1, 1)
    """
    shape = tuple(int(n) for n in mesh_shape)
    devices = list(_client.devices() if devices is None else devices)
    if any(n < 1 for n in shape):
        raise ValueError(f"a mesh needs positive sizes, got {shape}")
    if math.prod(shape) != len(devices):
        raise ValueError(
            f"Number of devices {len(devices)} must equal the product of mesh_shape {shape}, which is "
            f"{math.prod(shape)}: choose sizes whose product is {len(devices)}, or pass devices=xlab.devices()[:"
            f"{math.prod(shape)}]"
        )
    handler = device_kind_handler_dict.get(devices[-1].device_kind)
    if handler is not None:
        chosen = handler(shape, devices, contiguous_submeshes=contiguous_submeshes)
        if chosen is not None:
            return chosen
    grid = np.empty(shape, dtype=object)
    for index, device in zip(
        np.ndindex(*shape), sorted(devices, key=lambda d: (d.process_index, d.id))
    ):
        grid[index] = device
    return grid


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """A mesh over several groups of devices: axis sizes are products of those within a group and those between groups.

    A group (granule) is the devices of one process. The options that concern slices, or hardware with a physical topology, change
    nothing here.

    Args:
        mesh_shape: number of devices along each mesh axis within a granule.
        dcn_mesh_shape: number of granules along each mesh axis.
        devices: the devices; all by default.
        process_is_granule: whether a granule is a process instead of a slice; here it always is.
        should_sort_granules_by_key: whether granules are ordered by their number.
        allow_split_physical_axes: whether a mesh axis may take part of a physical axis (TPU).

    Example:
        >>> import xlab
        >>> create_hybrid_device_mesh((1,), (1,), xlab.devices()[:1]).shape
        (1,)
    """
    devices = list(_client.devices() if devices is None else devices)
    groups: dict[int, list] = {}
    for d in devices:
        groups.setdefault(d.process_index, []).append(d)
    if math.prod(dcn_mesh_shape) != len(groups):
        raise ValueError(
            f"Number of slices {len(groups)} must equal the product of dcn_mesh_shape {tuple(dcn_mesh_shape)}"
        )
    if len(mesh_shape) != len(dcn_mesh_shape):
        raise ValueError(
            f"mesh_shape {tuple(mesh_shape)} and dcn_mesh_shape {tuple(dcn_mesh_shape)} must have one entry per axis"
        )
    blocks = np.empty(tuple(dcn_mesh_shape), dtype=object)
    for index, key in zip(
        np.ndindex(*blocks.shape), sorted(groups) if should_sort_granules_by_key else groups
    ):
        blocks[index] = create_device_mesh(mesh_shape, groups[key])
    return np.block(blocks.tolist())
