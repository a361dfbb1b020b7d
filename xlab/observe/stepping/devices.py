"""Stepping inside `shard_map`: every device's value of every variable.

A value of the body is kept as one array with a leading dimension that counts devices and is cut over them, so each device
holds its own. An equation runs as a `shard_map` of its own on such arrays; collectives therefore really communicate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from xlab.core.avals import INVARYING, ShapedArray
from xlab.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from xlab.core.pending import AbstractTodo
from xlab.core.trace import user_context
from xlab.interpreters import partial_eval as pe
from xlab.lax.collectives.starting import synchronous
from xlab.lax.shape import reshape
from xlab.lax.slicing_in_dim import dynamic_index_in_dim
from xlab.observe.programs.program import mesh_info
from xlab.observe.records import MeshInfo
from xlab.observe.stepping.frames import Frame
from xlab.parallel.pmap import PRIVATE_AXIS
from xlab.parallel.put import device_put
from xlab.parallel.shard_map_primitive import shard_map_p
from xlab.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec


class Devices:
    """Values in the body of one `shard_map`: each array has a leading dimension over devices."""

    def __init__(self, eqn: JaxprEqn, around: Devices | None = None):
        self.mesh, self.names = eqn.params["mesh"], eqn.params["newly_manual_axes"]
        self.around = around
        if around is not None:
            self.mesh, self.names = around.mesh, self.names | around.names
        self.axes = tuple(n for n in self.mesh.axis_names if n in self.names)
        self.count = int(np.prod([self.mesh.shape[n] for n in self.axes]))
        self.spec = PartitionSpec(self.axes)
        self.made: dict[Any, Jaxpr] = {}
        self.keep: list[Any] = []

    @classmethod
    def enter(
        cls, eqn: JaxprEqn, values: list, around: Devices | None = None
    ) -> tuple[Frame, Devices] | None:
        """The frame of a body with each device's operands; None where it cannot be entered (references, tokens).

        `around` are the devices of the body that it is nested in, of which each has its own values already.
        """
        inner = eqn.params["jaxpr"]
        jaxpr = inner.jaxpr if hasattr(inner, "jaxpr") else inner
        if (
            jaxpr.constvars
            or not hasattr(eqn.params["mesh"], "devices_in_order")
            or not all(map(_plain, _avals(jaxpr)))
        ):
            return None
        mode = cls(eqn, around)
        local = [v.aval for v in jaxpr.invars]
        args = mode._bind(
            mode._program("in", local, local, [], stack_in=around is not None, stack_out=True),
            values,
            mode._outside(eqn.params["in_specs"]),
            (mode.spec,) * len(local),
        )
        over = [n for n in mode.axes if around is None or n not in around.names]
        unnamed = any(str(n).startswith(PRIVATE_AXIS) for n in over)  # of a pmap without axis_name
        title = "pmap" if unnamed else f"shard_map over {', '.join(map(str, over))}"
        return Frame(jaxpr, list(args), title, eqn), mode

    def _outside(self, specs: Any) -> tuple:
        """How values of the surroundings lie over all axes, by the specs of the equation."""
        if self.around is None:
            return tuple(specs)
        return tuple(PartitionSpec(self.around.axes, *s) for s in specs)

    # -- what the machine asks for ---------------------------------------------------------------------

    def run(self, eqn: JaxprEqn, values: list) -> list:
        if eqn.primitive.takes_pending:
            return values  # what was started is there: a step runs to its end
        given = [x for a, x in zip(eqn.invars, values) if type(a) is not Literal]
        jaxpr = self.made.get(id(eqn))
        if jaxpr is None:
            jaxpr = self.made[id(eqn)] = self._one(eqn)
            self.keep.append(eqn)
        with user_context(eqn.source_info):
            return list(
                self._bind(jaxpr, given, (self.spec,) * len(given), (self.spec,) * len(eqn.outvars))
            )

    def take(self, x, i):
        return dynamic_index_in_dim(x, np.int32(i), 1, keepdims=False)

    def stack(self, values):
        return self._placed(np.stack([np.asarray(v) for v in values], axis=1))

    def truth(self, x: Any) -> bool | None:
        found = np.asarray(x)
        return bool(found.all()) if found.all() == found.any() else None

    def index(self, x: Any) -> int | None:
        found = np.asarray(x)
        return int(found.flat[0]) if (found == found.flat[0]).all() else None

    def constants(self, values):
        return [
            self._placed(np.broadcast_to(np.asarray(v), (self.count, *np.shape(v)))) for v in values
        ]

    def _placed(self, x: np.ndarray) -> Any:
        """An array with a row for each device as one that is cut over them, as all other values of the body are."""
        return device_put(x, NamedSharding(self.mesh, self.spec))

    def leave(self, eqn: JaxprEqn, outs: list) -> list:
        """Each device's results put together by the out_specs."""
        inner = eqn.params["jaxpr"]
        jaxpr = inner.jaxpr if hasattr(inner, "jaxpr") else inner
        local = [v.aval for v in jaxpr.outvars]
        return list(
            self._bind(
                self._program(
                    "out", local, local, [], stack_in=True, stack_out=self.around is not None
                ),
                outs,
                (self.spec,) * len(local),
                self._outside(eqn.params["out_specs"]),
            )
        )

    # -- programs of one equation ----------------------------------------------------------------------

    def _one(self, eqn: JaxprEqn) -> Jaxpr:
        atoms = [a for a in eqn.invars if type(a) is not Literal]
        outs = [_result(v.aval) for v in eqn.outvars]
        ins = [a.aval for a in atoms]
        fresh = [Var(a) for a in ins]
        given = iter(fresh)
        inner = eqn.replace(
            primitive=synchronous.get(eqn.primitive, eqn.primitive),
            invars=[a if type(a) is Literal else next(given) for a in eqn.invars],
            outvars=[Var(a) for a in outs],
        )
        return self._program(None, ins, outs, [inner], fresh, inner.outvars, True, True)

    def _program(
        self,
        key: Any,
        ins: Any,
        outs: Any,
        eqns: Any,
        variables: Any = None,
        results: Any = None,
        stack_in: Any = False,
        stack_out: Any = False,
    ) -> Jaxpr:
        """`eqns` between taking the device dimension off the inputs and putting it on the results."""
        variables = variables or [Var(a) for a in ins]
        results = results or variables
        before, invars = [], variables
        if stack_in:
            invars = [Var(_stacked(a)) for a in ins]
            before = [_reshaping(s, v) for s, v in zip(invars, variables)]
        after, outvars = [], results
        if stack_out:
            outvars = [Var(_stacked(a)) for a in outs]
            after = [_reshaping(v, s) for v, s in zip(results, outvars)]
        return Jaxpr([], invars, outvars, [*before, *eqns, *after])

    def _bind(self, jaxpr, values, in_specs, out_specs):
        if not jaxpr.outvars:
            return []
        return shard_map_p.bind(
            *values,
            jaxpr=jaxpr,
            mesh=self.mesh,
            in_specs=tuple(in_specs),
            out_specs=tuple(out_specs),
            check_vma=False,
            newly_manual_axes=self.names,
        )


def _avals(jaxpr: Jaxpr) -> Any:
    yield from (v.aval for v in (*jaxpr.invars, *jaxpr.outvars))
    for eqn in jaxpr.eqns:
        yield from (_result(v.aval) for v in eqn.outvars)


def _result(aval: Any) -> Any:
    """The type of what is known after a step: of a collective that was started, its result."""
    return aval.inner_aval if type(aval) is AbstractTodo else aval


def _plain(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and getattr(aval.dtype, "names", None) is None


def _stacked(aval: ShapedArray) -> ShapedArray:
    return ShapedArray((1, *aval.shape), aval.dtype, aval.weak_type, mat=INVARYING)


def _reshaping(source: Var, target: Var) -> JaxprEqn:
    before: Any = source.aval
    after: Any = target.aval
    plain = before.update(mat=INVARYING)
    made = pe.trace_to_closed_jaxpr(lambda x: [reshape(x, after.shape)], [plain]).jaxpr.eqns[0]
    return made.replace(invars=[source], outvars=[target])


def mesh_of(equations: Iterable[JaxprEqn], values: list) -> MeshInfo | None:
    """The mesh that a run shows its devices on: of a `shard_map` or `pmap` in the program, else of an argument."""
    meshes = [e.params["mesh"] for e in equations if e.primitive is shard_map_p]
    meshes += [x.sharding.mesh for x in values if hasattr(getattr(x, "sharding", None), "mesh")]
    real = [m for m in meshes if hasattr(m, "devices_in_order")]
    return mesh_info(max(real, key=lambda m: m.size)) if real else None


def mesh_in_effect(equations: Iterable[JaxprEqn], values: list) -> Mesh | None:
    """The arguments' mesh where the program places values over an abstract one like it; None for any other program.

    >>> mesh_in_effect((), []) is None
    True
    """
    asked = {
        s.mesh.shape_tuple
        for e in equations
        for s in (e.params.get("sharding"), e.params.get("dst_sharding"))
        if isinstance(s, NamedSharding) and isinstance(s.mesh, AbstractMesh)
    }
    meshes = [getattr(getattr(x, "sharding", None), "mesh", None) for x in values] if asked else []
    return next((m for m in meshes if isinstance(m, Mesh) and m.shape_tuple in asked), None)
