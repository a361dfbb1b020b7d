"""Types for annotations: what functions accept as an array, a dtype, a shape, axes, a device."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from xlab.backend.client import Device
from xlab.core.array import Array as Array
from xlab.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, Sharding


class SupportsDType(Protocol):
    """Anything with a dtype."""

    @property
    def dtype(self) -> np.dtype: ...


ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
DTypeLike = str | type[Any] | np.dtype | SupportsDType
ShapeLike = int | Sequence[int]
AxisLike = int | Sequence[int]
ShardingLike = NamedSharding | PartitionSpec
DeviceLike = Device | Sharding
MeshLike = Mesh | AbstractMesh
AxisName = Hashable | tuple[Hashable, ...]
