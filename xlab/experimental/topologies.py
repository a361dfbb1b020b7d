"""Devices to compile for, attached or not.

Example:
    >>> topology = get_attached_topology()
    >>> make_mesh(topology, (len(topology.devices),), ("x",)).axis_names
    ('x',)
"""

from xlab.parallel.topologies import (
    TopologyDescription,
    get_attached_topology,
    get_topology_desc,
    make_mesh,
)

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]
