"""Pytrees of arrays over many devices, written to files and read under any sharding: `array_serialization.pytree_serialization`."""
