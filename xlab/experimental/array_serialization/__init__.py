"""Arrays over many devices, written to files and read under any sharding: pytrees in `pytree_serialization.py`, TensorStore's files in `serialization.py`."""
