"""Pytrees of arrays over many devices, written to files and read under any sharding: `pytree_serialization.py`."""
