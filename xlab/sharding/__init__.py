"""Shardings as data: a mesh, a spec, and a function from each device to the slice it holds.

Reading order: `mesh`, `spec`, `indices` (pure arithmetic), `named` (the sharding classes), `hlo` (to and from the
compiler's forms), `current` (the current mesh), `placement` (layouts and memories). May import `tree`, `backend` and the
ground floor. Promises that equal meshes and shardings are equal, hashable and cheap to compare.

Also: `auto.py` (shardings that the compiler chooses), `typed.py` (shardings inside types), `factor_rules.py` (sharding rules of single operations).

Example:
    >>> from xlab.sharding import AbstractMesh, NamedSharding, PartitionSpec as P
    >>> NamedSharding(AbstractMesh((4, 2), ("data", "model")), P("data", "model")).shard_shape((8, 8))
    (2, 4)
"""

import importlib as _importlib
from typing import Any as _Any

from xlab.backend import arrays as _arrays
from xlab.sharding.current import (
    EMPTY_ABSTRACT_MESH,
    EMPTY_MESH,
    get_abstract_mesh,
    get_concrete_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
    use_mesh,
)
from xlab.sharding.hlo import to_spec as from_hlo_sharding
from xlab.sharding.mesh import AbstractDevice, AbstractMesh, AxisType, Mesh, make_mesh
from xlab.sharding.named import (
    GSPMDSharding,
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    from_native,
    make_single_device_sharding,
)
from xlab.sharding.placement import AUTO, Format, Layout
from xlab.sharding.spec import UNCONSTRAINED, DuplicateSpecError, P, PartitionSpec

_arrays.set_shard_makers(single=SingleDeviceSharding)

# Names whose home is further up: they are operations on values.
_UPPER = {"ManualAxisType": "xlab.core.avals", "auto_axes": "xlab.lax.reshard", "explicit_axes": "xlab.lax.reshard",
          "reshard": "xlab.lax.reshard"}  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*globals(), *_UPPER})


def __getattr__(name: str) -> _Any:
    if name in _UPPER:
        found = globals()[name] = getattr(_importlib.import_module(_UPPER[name]), name)
        return found
    raise AttributeError(f"module 'xlab.sharding' has no attribute {name!r}")


__all__ = [
    "AUTO", "AbstractDevice", "AbstractMesh", "AxisType", "DuplicateSpecError", "EMPTY_ABSTRACT_MESH", "EMPTY_MESH",
    "Format", "GSPMDSharding", "Layout", "ManualAxisType", "Mesh", "NamedSharding", "P", "PartitionSpec", "Sharding",
    "SingleDeviceSharding", "UNCONSTRAINED", "auto_axes", "explicit_axes", "from_hlo_sharding", "from_native", "get_abstract_mesh", "get_concrete_mesh", "get_mesh",
    "make_mesh", "make_single_device_sharding", "reshard", "set_mesh", "use_abstract_mesh", "use_mesh",
]  # fmt: skip
