"""Memories of devices and hosts, for `device_put` and offloading."""

from xlab.sharding.placement import MemorySpace as Space

__all__ = ["Space"]
