"""Sets of devices to compile for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xlab.backend import client as _client
from xlab.parallel.mesh_utils import create_device_mesh
from xlab.sharding import Mesh

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


@dataclass(frozen=True)
class TopologyDescription:
    """Devices that programs can be compiled for."""

    devices: list[Any]


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices of this machine."""
    return TopologyDescription(list(_client.devices(platform)))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **kwargs: Any
) -> TopologyDescription:
    """The topology of a machine that need not be attached, if the platform can describe it.

    Args:
        topology_name: name of the topology, such as 'v5e:2x2'.
        platform: 'tpu'; by default the one there is.
        kwargs: options of the platform.
    """
    return TopologyDescription(list(_client.topology_devices(topology_name, platform, **kwargs)))


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """A mesh over the devices of a topology.

    Args:
        topo: what `get_topology_desc` returned.
        mesh_shape: number of devices along each mesh axis.
        axis_names: their names.
        contiguous_submeshes: whether the devices of each process form a block.
    """
    return Mesh(
        create_device_mesh(mesh_shape, topo.devices, contiguous_submeshes=contiguous_submeshes),
        axis_names,
    )
