"""`BaseExperiment`: a program as it was traced, compiled for other placements of its arguments and other meshes. Nothing runs.

It starts from the traced program and not from the function, so that what is compared is the program that ran; only where the types of
values say how they lie (Explicit axes) or where a body is written for its mesh, the function is traced again.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xlab.backend import client
from xlab.compile.lowering import lower
from xlab.compile.resolve import LoweringRequest
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from xlab.interpreters.communication_costs import Interconnect
from xlab.observe.buffers.memory import memory as _memory
from xlab.observe.programs.analysis_only import analysis_only
from xlab.observe.programs.program import mesh_info
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.records import Report
from xlab.observe.records.whatif import Placement, WhatIf, placement_of
from xlab.observe.sharding.collectives import collectives
from xlab.observe.sharding.program_layouts import argument_layouts
from xlab.observe.sharding.reasons import spec_text
from xlab.observe.sharding.retraced import names_mesh, retraced
from xlab.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

LARGEST = 4096
"""Devices of the largest mesh that is compiled for."""

_WHOLE = (
    "Let it use the current mesh (shard_map without mesh=, and specs without one), or trace it again on the other mesh: "
    "observe.what_if(f, args, in_shardings=…, mesh=…)"
)

Spec = Sequence[Sequence[str]]


def mesh_of(axes: Mapping[str, int], like: Mesh | None = None) -> Mesh:
    """A mesh to compile for: of this machine's devices where they suffice, of virtual ones otherwise.

    >>> mesh_of({"data": 64, "model": 8}).size
    512
    """
    names, sizes = tuple(axes), tuple(axes.values())
    count = int(np.prod(sizes, dtype=np.int64))
    if not names or min(sizes) < 1 or count > LARGEST:
        raise ValueError(
            f"a mesh to compile for has axes of at least one device and {LARGEST:,} in all; given "
            f"{', '.join(f'{n}={s}' for n, s in axes.items()) or 'no axis'}"
        )
    if like is not None and dict(like.shape) == dict(axes):
        return like
    present = client.devices()
    devices = present[:count] if count <= len(present) else client.virtual_devices(count)
    grid = np.empty(count, dtype=object)
    grid[:] = devices
    kinds = dict(zip(like.axis_names, like.axis_types)) if like is not None else {}
    others = AxisType.Explicit if like is not None and like.are_all_axes_explicit else AxisType.Auto
    return Mesh(grid.reshape(sizes), names, tuple(kinds.get(name, others) for name in names))


class BaseExperiment:
    """One program to try placements on.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import NamedSharding, PartitionSpec as P
        >>> x = xlab.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh_of({"i": 1}), P("i")))
        >>> tried = BaseExperiment(xlab.jit(lambda x: x + 1), x).weigh({0: ((), ("i",))}, {"i": 4})
        >>> tried.after.arguments, len(tried.after.collectives)
        ((('x', 'f32[8,8@i]'),), 0)
    """

    def __init__(self, what: Any, *args: Any, link: str | Interconnect = "cpu", **kwargs: Any):
        self.stages = program_stages(what, args, kwargs)
        self.link = link
        low = self.stages.lowered
        if low.mesh is None or not hasattr(low.mesh, "devices"):
            raise ValueError(
                f"{self.stages.name} lies on no mesh: give an argument a NamedSharding, or set a mesh with xlab.set_mesh(mesh)"
            )
        self.mesh: Mesh = low.mesh
        avals = self.stages.closed.in_avals
        self.arguments = [i for i in low.kept if isinstance(avals[i], ShapedArray)]
        self.names = list(map(self.stages.closed.jaxpr.debug_info.arg_name, self.arguments))
        self.shapes = [tuple(avals[i].shape) for i in self.arguments]
        self._now: Placement | None = None

    def now(self) -> Placement:
        """The program as it is."""
        if self._now is None:
            self._now = placement_of(self.report(self.stages, self.link), "now")
        return self._now

    def weigh(
        self, specs: Mapping[int, Spec] | None = None, axes: Mapping[str, int] | None = None
    ) -> WhatIf:
        """The program as it is, beside the program with some arguments placed otherwise.

        Args:
            specs: by number of the argument, the mesh axes of each dimension.
            axes: another mesh, by axis sizes; may be larger than this machine.

        Raises:
            ValueError: an axis is not in the mesh or used twice, a dimension does not divide, or the program is written for one
                shape of mesh.
        """
        return WhatIf(self.stages.name, self.now(), self.placement(specs or {}, axes, "what if"))

    def placement(
        self, specs: Mapping[int, Spec], axes: Mapping[str, int] | None = None, title: str = ""
    ) -> Placement:
        """The cost of one placement."""
        with analysis_only():
            return placement_of(self.report(self.placed(specs, axes), self.link), title)

    @staticmethod
    def report(stages: ProgramStages, link: Any) -> Report:
        """What a compiled program needs and sends."""
        return _report(stages, link)

    placement_from = staticmethod(placement_of)

    def placed(
        self,
        specs: Mapping[int, Spec],
        axes: Mapping[str, int] | None = None,
        free: Sequence[int] = (),
    ) -> ProgramStages:
        """The program with some arguments placed otherwise; results numbered in `free` lie as the compiler likes."""
        mesh = mesh_of(axes, self.mesh) if axes else self.mesh
        low, avals = self.stages.lowered, self.stages.closed.in_avals
        shardings: list[Any] = [None] * len(avals)
        for i, s in zip(low.kept, low.in_shardings):
            shardings[i] = _moved(s, self.mesh, mesh, getattr(avals[i], "ndim", 0))
        for number, spec in specs.items():
            at = self.arguments[number]
            shardings[at] = NamedSharding(mesh, self._spec(number, spec, mesh))
        given = self._lowered(mesh, shardings, free)
        return ProgramStages(given.closed, low.name, lowered=given)

    def _lowered(self, mesh: Mesh, shardings: list[Any], free: Sequence[int] = ()) -> Any:
        """The program with other shardings of its arguments; traced again where that makes it another program."""
        low = self.stages.lowered
        if not self.mesh.are_all_axes_auto:
            given = retraced(self.stages, mesh, shardings)
            if mesh is not self.mesh and names_mesh(given.closed, self.mesh):
                raise ValueError(
                    f"{self.stages.name} names the mesh {dict(self.mesh.shape)} inside, and cannot lie on another: {_WHOLE}"
                )
            return given
        try:
            closed = on_mesh(self.stages.closed, self.mesh, mesh, self.stages.name)
        except ValueError as error:
            # Written for the current mesh, whichever it is?
            with contextlib.suppress(ValueError):
                given = retraced(self.stages, mesh, shardings)
                if not names_mesh(given.closed, self.mesh):
                    return given
            raise error
        outs = [
            None if n in free else _moved(s, self.mesh, mesh, getattr(a, "ndim", 0))
            for n, (s, a) in enumerate(zip(low.out_shardings, closed.out_avals))
        ]
        return lower(
            closed,
            low.name,
            LoweringRequest(
                shardings,
                out_shardings=outs,
                donated=low.donated,
                compiler_options=low.compiler_options,
            ),
        )

    def _spec(self, number: int, spec: Spec, mesh: Mesh) -> PartitionSpec:
        name, shape = self.names[number], self.shapes[number]
        used = list(itertools.chain(*spec))
        unknown = [a for a in used if a not in mesh.axis_names]
        if unknown or len(set(used)) < len(used) or len(spec) > len(shape):
            raise ValueError(
                f"the spec of `{name}` names each of the axes {', '.join(map(str, mesh.axis_names))} at most once, over its "
                f"{len(shape)} dimensions; given {spec_text(tuple(tuple(axes) for axes in spec))}"
            )
        return PartitionSpec(*(tuple(axes) or None for axes in spec))

    def present(self, number: int) -> tuple[tuple[str, ...], ...]:
        """The current placement of an argument."""
        low = self.stages.lowered
        s = dict(zip(low.kept, low.in_shardings)).get(self.arguments[number])
        if not isinstance(s, NamedSharding):
            return ((),) * len(self.shapes[number])
        return tuple(
            tuple(s.spec.axes_of(d) or ()) if d < len(s.spec) else ()
            for d in range(len(self.shapes[number]))
        )


def placements_of(
    shape: Sequence[int], axes: Mapping[str, int]
) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Every way to give each mesh axis to at most one dimension that it divides, those that split most first.

    >>> list(placements_of((4,), {"a": 2}))
    [(('a',),), ((),)]
    """
    names = [n for n, size in axes.items() if size > 1]
    found = []
    for place in itertools.product(range(len(shape), -1, -1), repeat=len(names)):
        dims: list[tuple[str, ...]] = [()] * len(shape)
        for name, d in zip(names, place):
            if d < len(shape):
                dims[d] = (*dims[d], name)
        if all(
            n % int(np.prod([axes[a] for a in dim], dtype=np.int64)) == 0
            for n, dim in zip(shape, dims)
        ):
            found.append(tuple(dims))
    found.sort(key=lambda dims: -sum(map(len, dims)))
    return iter(found)


def _report(stages: ProgramStages, link: Any) -> Report:
    return Report(
        stages.name,
        (),
        argument_layouts(stages),
        tuple(collectives(stages, link)[0]),
        memory=(_memory(stages),),
        mesh=mesh_info(stages.mesh),
        counted=True,
    )


def _moved(s: Any, old: Mesh, new: Mesh, ndim: int) -> Any:
    """A sharding on another mesh; axes that this mesh lacks are left out."""
    if not isinstance(s, NamedSharding):
        return s
    kept = [
        tuple(a for a in (s.spec.axes_of(d) or ()) if a in new.axis_names) or None
        for d in range(min(len(s.spec), ndim))
    ]
    return NamedSharding(
        new if s.mesh == old else s.mesh, PartitionSpec(*kept), memory_kind=s.memory_kind
    )


def on_mesh(closed: ClosedJaxpr, old: Mesh, new: Mesh, name: str) -> ClosedJaxpr:
    """A program with its sharding constraints on another mesh.

    Raises:
        ValueError: a part of it is written for the shape of its mesh: `shard_map`.
    """
    if new is old:
        return closed
    done: dict[int, Jaxpr] = {}

    def value(x: Any, where: str) -> Any:
        if isinstance(x, NamedSharding) and x.mesh == old:
            return _moved(x, old, new, len(x.spec))
        if x == old.abstract_mesh or x is old:
            raise ValueError(
                f"{name} has a {where} over the mesh {dict(old.shape)}: its body is written for that shape. {_WHOLE}"
            )
        if isinstance(x, ClosedJaxpr):
            return ClosedJaxpr(jaxpr(x.jaxpr), x.consts)
        if isinstance(x, Jaxpr):
            return jaxpr(x)
        return type(x)(value(item, where) for item in x) if type(x) in (tuple, list) else x

    def equation(eqn: JaxprEqn) -> JaxprEqn:
        params = {k: value(v, eqn.primitive.name) for k, v in eqn.params.items()}
        return (
            eqn
            if all(params[k] is v for k, v in eqn.params.items())
            else eqn.replace(params=params)
        )

    def jaxpr(j: Jaxpr) -> Jaxpr:
        if id(j) not in done:
            done[id(j)] = j.replace(eqns=[equation(e) for e in j.eqns])
        return done[id(j)]

    return ClosedJaxpr(jaxpr(closed.jaxpr), closed.consts)
