"""Collectives carried out step by step: the last tiles are what the program computes, and everything said of the collective is true."""

import json

import numpy as np
import pytest

import xlab
from xlab import lax, observe
from xlab.observe.records import Record
from xlab.sharding import AxisType, make_mesh
from xlab.sharding import PartitionSpec as P

MESH = make_mesh((4, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
X = np.arange(32, dtype=np.float32)


def body(x):
    y = lax.psum(x * 2, "i")
    z = lax.all_gather(x, "j", tiled=True)
    b = lax.pbroadcast(x, "i", 2)
    s = lax.psum_scatter(x, "i", tiled=True)
    e = lax.all_to_all(x, "i", 0, 0, tiled=True)
    p = lax.ppermute(x, "i", [(0, 1)])
    return [v[None] for v in (lax.pcast(y, "i", to="varying"), z, b, s, e, p)]


SPEC = P(("i", "j"))
F = xlab.shard_map(body, mesh=MESH, in_specs=SPEC, out_specs=SPEC)


def shown(x):
    return [tuple(f"{v:.4g}" for v in row.ravel()) for row in np.asarray(x)]


@pytest.mark.parametrize("algorithm", ["ring", "doubling"])
def test_the_last_tiles_are_what_the_program_computes(algorithm):
    wanted = F(X)
    for which, want in enumerate(wanted):
        found = observe.replay(F, X, which=which, algorithm=algorithm)
        assert list(found.tiles[-1]) == shown(want), found.call
        assert len(found.tiles) == len({e.step for e in found.events}) + 1
        assert all(entry == "·" for tile in found.tiles[0] for entry in tile)
        assert found.wire_bytes == sum(e.bytes for e in found.events if e.moves)
        assert Record.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_everything_the_legend_needs():
    """C108."""
    found = observe.replay(F, X, which=0)
    assert (found.call, found.kind, found.reduction, found.axes) == (
        "psum",
        "all_reduce",
        "add",
        ("i",),
    )
    assert found.before.text == "f32[4]{V:i,j}" and found.after.text == "f32[4]{V:j}"
    assert "stablehlo.all_reduce" in found.stablehlo and "n=4, S=16 B" in found.formula
    assert found.groups == ((0, 2, 4, 6), (1, 3, 5, 7)) and found.mesh.axis_sizes == (4, 2)
    assert found.source.text.strip().startswith("y = lax.psum") and found.times == 1
    text = observe.text(found)
    assert (
        "psum over i: f32[4]{V:i,j} → f32[4]{V:j}, 6 steps by ring, 192 B between devices" in text
    )
    assert "0 → 2  [3:4] → [3:4]  added" in text


def test_the_order_of_ranks_is_said():
    """C4: a sum counts along the axes as they are given, a permutation by the positions of devices."""

    def f(x):
        return lax.all_gather(x, ("j", "i")), lax.ppermute(x, ("j", "i"), [(0, 1)])

    g = xlab.shard_map(f, mesh=MESH, in_specs=SPEC, out_specs=SPEC)
    gathered, moved = (observe.replay(g, X, which=k) for k in (0, 1))
    assert gathered.groups == ((0, 2, 4, 6, 1, 3, 5, 7),)
    assert "ranks count i fastest, j slowest" in gathered.sentence()
    assert [(e.src, e.dst) for e in moved.events if e.moves] == [(0, 1)]
    assert "ranks are positions in the mesh, in any order of the axes" in observe.text(moved)
    assert "ranks" not in observe.replay(F, X).sentence()


def test_an_emulated_collective_says_what_it_sends_instead():
    found = observe.replay(F, X, which=2)
    assert found.call == "pbroadcast" and found.carried_out == "all_gather"
    assert found.wire_bytes == 6 * 16 and found.actual_bytes == 8 * 3 * 16
    assert "carried out as all_gather, which sends 384 B" in found.sentence()
    (moved,) = [t for t in observe.transfers(F, X) if t.call == "pbroadcast"]
    assert (moved.sent, moved.sent_as_written) == (48, 12)
    assert "48 B sent per device where collective_broadcast alone sends 12 B" in moved.reason


def test_transfers_say_types_and_their_line():
    """C108: dtype, types before and after, and the StableHLO line of every collective that the user wrote."""
    for t in observe.transfers(F, X):
        assert t.dtype == "f32" and t.type_in.startswith("f32[4]{V:i,j}") and t.type_out
        assert '"stablehlo.' in t.stablehlo and "loc(" not in t.stablehlo


def test_a_device_that_nobody_sends_to_gets_zeros():
    found = observe.replay(F, X, which=5)
    nobody = [e for e in found.events if e.src < 0]
    assert sorted(e.dst for e in nobody) == [0, 1, 4, 5, 6, 7] and nobody[0].fill == 0
    assert found.tiles[-1][0] == ("0",) * 4
    assert nobody[0].text == "0 gets nothing: 0"


def test_values_inside_loops_and_programs_that_are_not_run():
    def looped(x):
        return lax.fori_loop(0, 3, lambda k, c: lax.ppermute(c + 1, "i", [(0, 1), (1, 0)]), x)

    f = xlab.shard_map(looped, mesh=MESH, in_specs=SPEC, out_specs=SPEC)
    found = observe.replay(f, X)
    assert found.times == 3 and found.inputs[0] == ("1", "2", "3", "4")
    big = observe.replay(F, np.zeros(8 * 128, np.float32))
    assert big.tiles == () and big.events and "after" not in observe.text(big)
    closed = xlab.make_jaxpr(F)(X)
    assert observe.replay(closed, X).tiles == observe.replay(F, X).tiles


def test_a_ragged_exchange_by_its_sizes():
    counts = np.int32([[1, 2], [0, 3]])
    starts = np.cumsum(counts, 1, dtype=np.int32) - counts
    places = np.cumsum(counts, 0, dtype=np.int32) - counts
    mesh = make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
    f = xlab.shard_map(
        lambda *xs: lax.ragged_all_to_all(*(x[0] for x in xs), axis_name="i")[None],
        mesh=mesh, in_specs=P("i"), out_specs=P("i"),
    )  # fmt: skip
    operand = np.arange(8, dtype=np.float32).reshape(2, 4)
    output = np.full((2, 6), -1, np.float32)
    args = operand, output, starts, counts, places, np.ascontiguousarray(counts.T)
    found = observe.replay(f, *args)
    assert found.exact and found.wire_bytes == 2 * 4, "two rows go to the other, three stay"
    assert list(found.tiles[-1]) == shown(f(*args))
    assert found.carried_out == "all_gather" and found.actual_bytes > found.wire_bytes


def test_a_mesh_without_devices_has_events_and_no_values():
    mesh = xlab.sharding.AbstractMesh((4, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
    f = xlab.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=SPEC, out_specs=P("j"))
    found = observe.replay(xlab.make_jaxpr(f)(X), X)
    assert found.tiles == () and found.wire_bytes == 192 and found.devices == tuple(range(8))


def test_what_cannot_be_replayed():
    with pytest.raises(ValueError, match="writes 6 collectives between devices; which=6.*0 to 5"):
        observe.replay(F, X, which=6)
    with pytest.raises(ValueError, match="writes 0 collectives.*axis of vmap send nothing"):
        observe.replay(xlab.vmap(lambda v: lax.psum(v, "k"), axis_name="k"), X)
    with pytest.raises(ValueError, match="unknown algorithm 'star'"):
        observe.replay(F, X, algorithm="star")
