"""The current mesh of a thread, kept in the trace context so that every cache key follows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab.backend import neighbors
from xlab.backend.native import is_tracing
from xlab.config import config
from xlab.sharding.mesh import ENTERED, AbstractMesh, Mesh

EMPTY_MESH = Mesh(np.empty((), dtype=object), ())
EMPTY_ABSTRACT_MESH = EMPTY_MESH.abstract_mesh

_CONCRETE, _ABSTRACT = "concrete_mesh", "abstract_mesh"


def get_mesh() -> Mesh:
    """The mesh set by `set_mesh` or entered by `with mesh:`; an empty one when there is none."""
    return config.context_value(_CONCRETE) or config.context_value(ENTERED) or EMPTY_MESH


def get_concrete_mesh() -> Mesh | None:
    """The concrete mesh set by `set_mesh`; one entered by `with mesh:` only names axes and places nothing."""
    return config.context_value(_CONCRETE)


def get_abstract_mesh() -> AbstractMesh:
    """The mesh that types refer to: of `set_mesh`, or of the surrounding manual region."""
    return config.context_value(_ABSTRACT) or EMPTY_ABSTRACT_MESH


class set_mesh:
    """Makes a mesh the current one: for good, or for a `with` block.

    Example:
        >>> from xlab.sharding import get_mesh, make_mesh, set_mesh
        >>> with set_mesh(make_mesh((1,), ("x",))):
        ...     get_mesh().axis_names
        ('x',)
    """

    __slots__ = ("_previous",)

    def __init__(self, mesh: Mesh):
        if not isinstance(mesh, Mesh):
            raise ValueError(
                neighbors.refusal(mesh)
                or f"set_mesh expects a Mesh, such as make_mesh((2,), ('x',)); got {mesh!r} of type {type(mesh).__name__}."
            )
        if is_tracing():
            raise ValueError(
                "set_mesh can only be used outside of functions that are being traced (by jit, grad, vmap, ...): it decides over which devices "
                "whole programs run. Enter it around the call, or name the mesh where it is needed: NamedSharding(mesh, spec), "
                "shard_map(mesh=mesh)."
            )
        concrete = None if mesh.empty else mesh
        self._previous = (
            config.set_context_value(_CONCRETE, concrete),
            config.set_context_value(_ABSTRACT, concrete.abstract_mesh if concrete else None),
        )

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        config.set_context_value(_CONCRETE, self._previous[0])
        config.set_context_value(_ABSTRACT, self._previous[1])


use_mesh = set_mesh


class use_abstract_mesh:
    """`with use_abstract_mesh(mesh):` makes types refer to a mesh without changing the devices in use."""

    __slots__ = ("_mesh", "_previous")

    def __init__(self, mesh: AbstractMesh):
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(
                f"use_abstract_mesh expects an AbstractMesh; got {mesh!r} of type {type(mesh).__name__}."
            )
        self._mesh = mesh
        self._previous: list[Any] = []

    def __enter__(self) -> AbstractMesh:
        self._previous.append(
            config.set_context_value(_ABSTRACT, None if self._mesh.empty else self._mesh)
        )
        return self._mesh

    def __exit__(self, *exc_info: object) -> None:
        config.set_context_value(_ABSTRACT, self._previous.pop())
