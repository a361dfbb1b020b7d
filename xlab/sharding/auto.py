"""`AutoSharding`: the compiler chooses how a value of any rank lies, and says so over a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlab.sharding.mesh import Mesh
from xlab.sharding.named import NamedSharding, Sharding
from xlab.sharding.spec import UNCONSTRAINED, PartitionSpec


class AutoSharding(Sharding):
    """A sharding that the compiler chooses, over the axes of a mesh, known as `AUTO(mesh)`.

    Args:
        mesh: what the choice is expressed on. It is made by propagation from the other arguments and results.

    Raises:
        TypeError: when it is no mesh of devices.

    Example:
        >>> import xlab
        >>> auto = AutoSharding(xlab.make_mesh((1,), ("x",)))
        >>> auto.of_rank(2).spec
        P(UNCONSTRAINED, UNCONSTRAINED)
    """

    __slots__ = ("__weakref__", "mesh")

    def __init__(self, mesh: Mesh):
        if not isinstance(mesh, Mesh):
            raise TypeError(
                f"AUTO takes a mesh of devices, got {mesh!r} of type {type(mesh).__name__}"
            )
        self.mesh = mesh

    @property
    def devices_in_order(self) -> tuple[Any, ...]:
        return tuple(self.mesh.devices.flat)

    def of_rank(self, ndim: int) -> NamedSharding:
        """The sharding of a value of this rank, all of whose dimensions are left open."""
        return NamedSharding(self.mesh, PartitionSpec(*[UNCONSTRAINED] * ndim))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AutoSharding) and self.mesh == other.mesh

    def __hash__(self) -> int:
        return hash((AutoSharding, self.mesh))

    def __reduce__(self) -> Any:
        return AutoSharding, (self.mesh,)

    def __repr__(self) -> str:
        return f"AUTO({self.mesh!s})"


def check_one_mesh(shardings: Sequence[Any], what: str) -> bool:
    """Whether the compiler chooses any of the shardings; raises where these speak of several meshes."""
    meshes = {s.mesh for s in shardings if type(s) is AutoSharding}
    if len(meshes) > 1:
        raise ValueError(
            f"{what} has AUTO shardings on different meshes, {' and '.join(map(str, meshes))}: the compiler expresses its choices on one"
        )
    return bool(meshes)
