"""Shardings as XLA writes them, to and from the bytes that other programs store."""

from __future__ import annotations

from typing import Any

from xlab.backend.shardings import OpSharding as _OpSharding
from xlab.backend.shardings import hlo_from_bytes, hlo_to_bytes
from xlab.sharding import GSPMDSharding

__all__ = [
    "GSPMDSharding",
    "get_hlo_sharding_from_serialized_proto",
    "get_op_sharding_from_serialized_proto",
    "get_serialized_proto_from_hlo_sharding",
]


def get_op_sharding_from_serialized_proto(sharding: bytes) -> Any:
    """The protocol buffer `OpSharding` in bytes.

    Raises:
        ValueError: they are none.
    """
    proto = _OpSharding()
    try:
        proto.ParseFromString(sharding)
    except Exception as e:
        raise ValueError(f"these bytes are no serialized OpSharding: {e}") from None
    return proto


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> Any:
    """The tiling of an array over devices that bytes stand for.

    Example:
        >>> import xlab
        >>> mesh = xlab.make_mesh((1,), ("x",))
        >>> tiling = xlab.NamedSharding(mesh, xlab.P("x"))._to_xla_hlo_sharding(1)
        >>> get_hlo_sharding_from_serialized_proto(get_serialized_proto_from_hlo_sharding(tiling)) == tiling
        True
    """
    get_op_sharding_from_serialized_proto(sharding)
    return hlo_from_bytes(sharding)


def get_serialized_proto_from_hlo_sharding(sharding: Any) -> bytes:
    """A tiling as bytes, which `get_hlo_sharding_from_serialized_proto` reads."""
    return hlo_to_bytes(sharding)
