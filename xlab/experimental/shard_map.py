"""`shard_map` at its former address and with its former arguments; new programs call `xlab.shard_map`."""

from __future__ import annotations

import warnings

from xlab.parallel.shard_map import shard_map as _shard_map


def _former(f, mesh, in_specs, out_specs, check_rep=True):
    """`xlab.shard_map` with `check_vma=check_rep`."""
    return _shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)


_former.__name__ = _former.__qualname__ = "shard_map"


def __getattr__(name: str):
    if name != "shard_map":
        raise AttributeError(f"module 'xlab.experimental.shard_map' has no attribute {name!r}")
    warnings.warn(
        "xlab.experimental.shard_map.shard_map is the former address of xlab.shard_map, whose check_rep= is called "
        "check_vma=.",
        DeprecationWarning,
        stacklevel=2,
    )
    return _former
