"""Events of collectives carried out on NumPy arrays give what the compiled program gives, and send the bytes of the closed formulas."""

import functools
import itertools
import json

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab.interpreters import communication, communication_costs, dataflow
from xlab.interpreters.schedules import ALGORITHMS, carried_out
from xlab.sharding import AxisType, Mesh
from xlab.sharding import PartitionSpec as P

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")


def programs(n, names):
    """Every collective of a block of `3 × 4n` per device, over all axes; the last column is of blocks for a broadcast."""
    some = [(i, (i * 3 + 1) % n) for i in range(0, n, 2)] if n % 3 else [(0, n - 1)]
    groups = [list(range(0, n, 2)), list(range(1, n, 2))] if n % 2 == 0 else None
    return [
        lambda x: lax.psum(x, names),
        lambda x: lax.psum(x, (*names, 0)),
        lambda x: lax.psum(x[0, 0], names),
        lambda x: lax.pmax(x, names, axis_index_groups=groups),
        lambda x: lax.pmin(x, names),
        lambda x: lax.all_gather(x, names, axis=1),
        lambda x: lax.all_gather(x[0, 0], names),
        lambda x: lax.all_gather(x, names, axis=1, tiled=True, axis_index_groups=groups),
        lambda x: lax.psum_scatter(x, names, scatter_dimension=1, tiled=True),
        lambda x: lax.psum_scatter(x[:, :n], names, scatter_dimension=1, tiled=False),
        lambda x: lax.all_to_all(x, names, 1, 0, tiled=True),
        lambda x: lax.all_to_all(x[:, :n], names, 1, 0),
        lambda x: lax.ppermute(x, names, some),
        lambda x: lax.pbroadcast(x, names, n - 1),
    ]


@functools.cache
def compiled(shape):
    """The collective equations of a program over a mesh, with the operand and the result of each on every device."""
    names = tuple("ij"[: len(shape)])
    n = int(np.prod(shape))
    devices = np.array(xlab.devices()[:n][::-1]).reshape(shape)  # ids are not positions
    mesh = Mesh(devices, names, axis_types=(AxisType.Auto,) * len(shape))
    x = np.random.default_rng(0).integers(0, 99, (n, 3, 4 * n)).astype(np.int32)

    def body(x):
        return [f(x[0])[None] for f in programs(n, names)]

    spec = P(names)
    f = xlab.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    outs = [np.asarray(o) for o in xlab.jit(f)(x)]
    inner = xlab.make_jaxpr(f)(x).eqns[0].params["jaxpr"]
    eqns = [e for e in inner.eqns if e.primitive in communication.collective_rules]
    ids = [d.id for d in devices.flat]
    found = []
    for eqn, out in zip(eqns, outs, strict=True):
        shape_in = eqn.invars[0].aval.shape
        mine = {
            d: (x[k] if shape_in[-1:] == (4 * n,) else x[k][:, :n] if shape_in else x[k][0, 0])
            for k, d in enumerate(ids)
        }
        mine = {d: v.reshape(shape_in) for d, v in mine.items()}
        shape_out = eqn.outvars[0].aval.shape
        found.append((eqn, mine, {d: out[k].reshape(shape_out) for k, d in enumerate(ids)}))
    return mesh, found


@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (4,), (8,), (4, 2), (2, 3)], ids=str)
def test_events_do_what_the_compiled_program_does(shape):
    """C104, C106, C116."""
    mesh, found = compiled(shape)
    for (eqn, operands, results), way in itertools.product(found, ALGORITHMS):
        flow = dataflow.dataflow(eqn, mesh, way)
        words = f"{eqn.primitive.name} by {way}"
        got = dataflow.replay(flow, operands)
        for d, want in results.items():
            np.testing.assert_array_equal(got[d], want, err_msg=f"{words} on {d}")
        check_written_once(flow, words)


def check_written_once(flow, words):
    """Every element of every result is written, by a copy at most once, and only after it is there."""
    for d in (d for g in flow.groups for d in g):
        written, copied = (np.zeros(flow.shape_out, int) for _ in range(2))
        for e in flow.events:
            if e.dst != d or e.writes != "output":
                continue
            where = tuple(slice(a, b) for a, b in e.dst_slice)
            written[where] += 1
            copied[where] += e.kind == "copy"
        assert written.min(initial=1) >= 1, words
        assert copied.max(initial=0) <= 1, words


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_bytes_sent_are_those_of_the_formulas(n):
    """C105: what each device sends under algorithms that send nothing twice."""
    mesh, found = compiled((n,))
    for eqn, operands, _ in found:
        for way in ALGORITHMS:
            flow = dataflow.dataflow(eqn, mesh, way)
            size = next(iter(operands.values())).nbytes
            if flow.reduced:
                size //= 3
            sent = communication_costs.sent_in_all(
                flow.kind,
                flow.groups,
                [(e.src, e.dst) for e in flow if e.src is not None],
                size,
            )
            passed_on = flow.kind == "all_to_all" and flow.algorithm != "direct"
            if passed_on:
                assert flow.wire_bytes >= sent
            else:
                assert flow.wire_bytes == pytest.approx(sent)
            balanced = flow.kind in KINDS[:3] and np.prod(flow.shape_in) % n == 0
            if balanced:
                assert len(set(flow.sent().values())) == 1, (eqn.primitive.name, way)


def test_steps_are_those_of_the_formulas():
    mesh, found = compiled((8,))
    for eqn, operands, _ in found:
        for way in ALGORITHMS:
            flow = dataflow.dataflow(eqn, mesh, way)
            n = len(flow.groups[0])
            made = communication_costs.price(flow.kind, n, 64, way)
            if made is not None and next(iter(operands.values())).size > 1:
                assert flow.steps == made.steps, (flow.kind, way)


@pytest.mark.parametrize("way", ["axes", "per_axis"])
def test_rings_along_axes_take_fewer_steps(way):
    mesh, found = compiled((4, 2))
    flow = dataflow.dataflow(found[0][0], mesh, way)
    assert flow.algorithm == way
    assert flow.steps == communication_costs.price("all_reduce", 8, 64, way, (4, 2)).steps == 8
    ids = mesh.device_ids
    for e in flow:
        a, b = (np.argwhere(ids == d)[0] for d in (e.src, e.dst))
        assert e.kind == "keep" or (a != b).sum() == 1, "only neighbors along one axis"


def test_what_does_not_fit_is_done_another_way():
    mesh, found = compiled((3,))
    assert dataflow.dataflow(found[0][0], mesh, "doubling").algorithm == "ring"
    assert carried_out(("broadcast",), 3, "doubling") == "doubling"
    with pytest.raises(ValueError, match="unknown algorithm 'star'; there are ring"):
        dataflow.dataflow(found[0][0], mesh, "star")
    with pytest.raises(ValueError, match="give the mesh that binds them all"):
        dataflow.dataflow(found[0][0], xlab.sharding.AbstractMesh((3,), ("z",)))


def test_events_as_json():
    """C104: the keys of an event, and the event of a device that nobody sends to."""
    mesh, found = compiled((4,))
    permute = next(f for f in found if f[0].primitive.name == "ppermute")[0]
    flow = dataflow.dataflow(permute, mesh, number=7)
    (nobody, *_) = [e.as_dict() for e in flow if e.src is None]
    assert nobody["kind"] == "keep" and nobody["bytes"] == 0 and nobody["fill"] == 0
    moved = json.loads(json.dumps(next(e for e in flow if e.kind == "copy").as_dict()))
    keys = {"step", "src", "dst", "bytes", "kind", "group", "chunk", "src_slice", "dst_slice"}
    assert keys < set(moved) and moved["op"] == "collective_permute" and moved["eqn"] == 7
    assert moved["src_slice"] == [[0, 3], [0, 16]] and moved["bytes"] == 192


def test_casts_and_ranks_send_nothing():
    mesh = xlab.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))

    def body(x):
        return lax.pcast(x, "i", to="varying") + lax.axis_index("i")

    f = xlab.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P("i"))
    inner = xlab.make_jaxpr(f)(np.ones(2, np.float32)).eqns[0].params["jaxpr"]
    flows = [dataflow.dataflow(e, mesh) for e in inner.eqns]
    assert all(flow.wire_bytes == 0 for flow in flows)
    assert [len(flow) for flow in flows[:2]] == [4, 0]


@pytest.mark.parametrize("way", ALGORITHMS)
def test_a_ragged_exchange_sends_its_sizes(way):
    """C104: rows by the sizes that are given, ribbons of them in the events, and bytes of those rows alone."""
    mesh = xlab.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, (4, 4)).astype(np.int32)
    operand = rng.integers(1, 99, (4, 16, 2)).astype(np.int32)
    output = np.full((4, 16, 2), -1, np.int32)
    starts = np.cumsum(counts, 1, dtype=np.int32) - counts
    places = np.cumsum(counts, 0, dtype=np.int32) - counts  # receivers stack what arrives

    def body(*xs):
        return lax.ragged_all_to_all(*(x[0] for x in xs), axis_name="i")[None]

    f = xlab.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    args = (operand, output, starts, counts, places, np.ascontiguousarray(counts.T))
    (eqn,) = [
        e
        for e in xlab.make_jaxpr(f)(*args).eqns[0].params["jaxpr"].eqns
        if e.primitive.name == "ragged_all_to_all"
    ]
    sizes = {d: (starts[d], counts[d], places[d]) for d in range(4)}
    flow = dataflow.dataflow(eqn, mesh, way, sizes=sizes)
    got = dataflow.replay(flow, dict(enumerate(operand)), dict(enumerate(output)))
    np.testing.assert_array_equal(np.stack([got[d] for d in range(4)]), f(*args))
    away = int(counts.sum() - np.trace(counts)) * 2 * 4
    assert flow.exact and (flow.wire_bytes == away if way == "direct" else flow.wire_bytes >= away)
    assert not dataflow.dataflow(eqn, mesh, way).exact
