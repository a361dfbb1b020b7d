"""Dataflow of a collective: which slice of which device goes where, in which step.

`dataflow` spells out one collective equation under an algorithm as events; `replay` carries events out on NumPy arrays. Each device
has three buffers: `input` (its operand), `output` (its result), and `work`, where sums grow and blocks for others wait. What an event
reads, it reads before any event of the same step writes.

>>> whole = ((0, 2),)
>>> moved = SliceEvent(0, 0, 1, 8, "copy", src_slice=whole, dst_slice=whole)
>>> flow = Flow("collective_permute", "", "direct", (2,), (2,), "float32", 4, groups=((0, 1),), events=(moved,))
>>> flow.wire_bytes, replay(flow, {0: np.ones(2), 1: np.zeros(2)})[1].tolist()
(8, [1.0, 1.0])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlab.interpreters import communication
from xlab.interpreters.slices import SliceEvent, Slices, whole_of
from xlab.sharding.mesh import AbstractMesh


@dataclass(frozen=True)
class Flow:
    """The events of one run of a collective, with what is needed to carry them out.

    Args:
        kind, reduction: as in `communication.CollectiveOp`.
        algorithm: the one that is used; another than was asked for where that does not fit.
        shape_in, shape_out, dtype, itemsize: of what each device has before and after.
        work_shape: of the buffer in between.
        groups: device ids.
        reduced: dimensions of the operand that each device adds up by itself before.
        exact: False where how much is sent is data that was not given; the events then send as much as there can be.
    """

    kind: str
    reduction: str
    algorithm: str
    shape_in: tuple[int, ...]
    shape_out: tuple[int, ...]
    dtype: str
    itemsize: int
    work_shape: tuple[int, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    reduced: tuple[int, ...] = ()
    exact: bool = True
    events: tuple[SliceEvent, ...] = field(default=(), repr=False)

    def __iter__(self) -> Iterator[SliceEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __getitem__(self, i):
        return self.events[i]

    @property
    def wire_bytes(self) -> int:
        """Bytes that go from one device to another."""
        return sum(e.bytes for e in self.events if e.src is not None and e.src != e.dst)

    @property
    def steps(self) -> int:
        """Steps in which something goes from one device to another."""
        return len({e.step for e in self.events if e.src is not None and e.src != e.dst})

    def sent(self) -> dict[int, int]:
        """Bytes that each device sends; what it passes on for others is counted in."""
        out = {d: 0 for g in self.groups for d in g}
        for e in self.events:
            if e.src is not None and e.src != e.dst:
                out[e.src] += e.bytes
        return out


def dataflow(
    eqn: Any,
    mesh: Any,
    algorithm: str = "ring",
    *,
    number: int = -1,
    sizes: Mapping[int, Sequence[Any]] | None = None,
) -> Flow:
    """The events of a collective equation.

    Args:
        eqn: an equation inside a `shard_map`; of one that is no collective there are no events but what devices keep.
        mesh: the mesh of it: anything with `axis_names` and `axis_sizes`; ids are those of its `devices`, if it has any, else positions.
        algorithm: one of `schedules.ALGORITHMS`; where it does not fit, the nearest that does.
        number: the equation's number, for the events.
        sizes: of a ragged exchange, for each device its input offsets, send sizes and output offsets.

    Example:
        >>> import xlab
        >>> from xlab.sharding import AbstractMesh, AxisType, PartitionSpec as P
        >>> mesh = AbstractMesh((2,), ("i",), axis_types=(AxisType.Auto,))
        >>> f = xlab.shard_map(lambda x: xlab.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
        >>> body = xlab.make_jaxpr(f)(xlab.numpy.ones(8)).eqns[0].params["jaxpr"]
        >>> [e.kind for e in dataflow(body.eqns[0], mesh)]
        ['keep', 'keep', 'reduce', 'reduce', 'copy', 'copy']
    """
    names, lengths = tuple(mesh.axis_names), tuple(mesh.axis_sizes)
    ids = _ids(mesh, math.prod(lengths))
    rule = communication.collective_rules.get(eqn.primitive)
    if rule is None:
        return _kept(eqn, ids, number)
    avals = [v.aval for v in eqn.invars]
    move = rule(avals, [v.aval for v in eqn.outvars], **eqn.params)
    inside = tuple(a for a in move.axes if a in names)
    if len(inside) < len(move.axes):
        raise ValueError(
            f"{eqn.primitive.name} runs over the axes {move.axes}, and the mesh has {names}: give the mesh that binds them all"
        )
    rows = communication.groups_along(names, lengths, inside, move.groups)
    rows = communication.in_order(move, rows)
    out = eqn.outvars[0].aval
    out = getattr(out, "inner_aval", out)  # of a collective that is only started
    operand = avals[0] if hasattr(avals[0], "shape") else out  # a token has none
    shape = tuple(n for i, n in enumerate(operand.shape) if i not in move.reduced)
    count = math.prod(operand.shape)
    itemsize = max(1, operand.nbytes // count) if count else 0
    axis_sizes = tuple(lengths[names.index(a)] for a in inside)
    made = Slices(move, shape, tuple(out.shape), algorithm, axis_sizes, itemsize)
    groups = tuple(tuple(ids[i] for i in g) for g in rows)
    events: list[SliceEvent] = []
    for g, group in enumerate(groups):
        given = None if sizes is None else [sizes[d] for d in group]
        for e in made.group(len(group), given):
            events.append(
                e._replace(
                    src=None if e.src is None else group[e.src],
                    dst=group[e.dst],
                    group=g,
                    op=move.kind,
                    eqn=number,
                )
            )
    events.sort(key=lambda e: e.step)
    n = len(groups[0])
    stages = communication.collectives[move.kind].stages
    return Flow(
        move.kind,
        move.reduction,
        made.used(n),
        shape,
        tuple(out.shape),
        str(operand.dtype),
        itemsize,
        made.work_shape(n) if stages[0] != "pairs" else (),
        groups,
        move.reduced,
        move.kind != "ragged_all_to_all" or sizes is not None,
        tuple(events),
    )


def _ids(mesh, n: int) -> list[int]:
    given = () if type(mesh) is AbstractMesh else getattr(mesh, "device_ids", ())
    return [int(i) for i in np.ravel(given)] or list(range(n))


def _kept(eqn, ids, number) -> Flow:
    """Casts and ranks: nothing goes from one device to another."""
    (out,) = [v.aval for v in eqn.outvars][:1]
    shape = tuple(out.shape)
    whole = whole_of(shape)
    events = [
        SliceEvent(
            0, d, d, out.nbytes, "keep", src_slice=whole, dst_slice=whole, op=eqn.primitive.name
        )
        for d in ids
        if eqn.invars
    ]
    return Flow(
        eqn.primitive.name,
        "",
        "",
        shape,
        shape,
        str(out.dtype),
        getattr(out.dtype, "itemsize", 0),
        groups=(tuple(ids),),
        events=tuple(e._replace(eqn=number) for e in events),
    )


# -------------------------------------------------------------------------------------------------------- replay

_COMBINE = {"add": np.add, "max": np.maximum, "min": np.minimum}


def replay(
    flow: Flow, operands: Mapping[int, Any], results: Mapping[int, Any] | None = None
) -> dict[int, np.ndarray]:
    """Carries events out on arrays: what each device has in the end.

    Args:
        flow: the events.
        operands: for each device id its operand.
        results: of a ragged exchange, what each device's result holds before.
    """
    *_, at = held(flow, operands, results)
    return {d: np.array(at["output", d].data) for d in (d for g in flow.groups for d in g)}


Buffers = dict[tuple[str, int], np.ma.MaskedArray]


def held(
    flow: Flow, operands: Mapping[int, Any], results: Mapping[int, Any] | None = None
) -> Iterator[Buffers]:
    """What the buffers hold before the first step and after each, by name and device: what nobody has written is masked."""
    at: Buffers = {}
    for d in (d for g in flow.groups for d in g):
        x = np.asarray(operands[d])
        x = x.sum(flow.reduced, dtype=x.dtype) if flow.reduced else x
        at["input", d] = np.ma.array(x)
        for name, shape in (("output", flow.shape_out), ("work", flow.work_shape)):
            at[name, d] = np.ma.masked_all(shape, x.dtype)
            at[name, d].data[...] = 0
        if results is not None:
            at["result", d] = np.ma.array(results[d])
    yield at
    for _, step in itertools.groupby(flow.events, key=lambda e: e.step):
        for e, value in [(e, _read(at, e)) for e in step]:
            target = at[e.writes, e.dst]
            where = tuple(slice(a, b) for a, b in e.dst_slice)
            if value is None:
                target[where] = e.fill
            elif e.kind == "reduce":
                target[where] = _COMBINE[flow.reduction](target.data[where], value)
            else:
                target[where] = value.reshape(target[where].shape)
        yield at


def _read(at: Buffers, e: SliceEvent) -> np.ndarray | None:
    if e.src is None:
        return None
    return np.array(at[e.reads, e.src].data[tuple(slice(a, b) for a, b in e.src_slice)])
