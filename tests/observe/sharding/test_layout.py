"""Layouts against plain arithmetic, for any rank and mesh; what moves between two of them."""

import itertools

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import observe
from xlab.observe.records import Record
from xlab.sharding import NamedSharding, make_mesh
from xlab.sharding import PartitionSpec as P


@pytest.mark.parametrize(
    "spec", [P(), P("a"), P(None, "b"), P("a", "b", "c"), P(("a", "b"), None, "c"), P(("c", "a"))]
)
def test_blocks_are_slices_of_the_array(spec):
    mesh = make_mesh((2, 2, 2), ("a", "b", "c"))
    shape = (8, 4, 2)
    made = observe.layout(NamedSharding(mesh, spec), shape)
    value = np.arange(64).reshape(shape)
    sizes = dict(zip(mesh.axis_names, mesh.axis_sizes))
    seen = set()
    for block, place in zip(made.blocks, itertools.product(range(2), repeat=3)):
        at = dict(zip("abc", place))
        want = value
        for d, entry in enumerate(spec):
            axes = entry if isinstance(entry, tuple) else (entry,) if entry else ()
            index = 0
            for a in axes:
                index = index * sizes[a] + at[a]
            n = int(np.prod([sizes[a] for a in axes]))
            want = np.split(want, n, axis=d)[index]
        got = value[tuple(slice(*s) for s in block.slices)]
        np.testing.assert_array_equal(got, want)
        seen.add(block.slices)
    assert made.copies * len(seen) == 8 and made.bytes_total == 256
    assert made.bytes_per_device * len(seen) == 256


def test_of_an_array_and_its_text():
    made = observe.layout(programs.put(np.ones((8, 4)), "data", "model"))
    assert (
        repr(made)
        .split("\n")[0]
        .startswith("f32[8@data,4@model] over data=4 model=2: shard f32[2,2], 1 copy")
    )
    assert made.committed and made.mesh.device_ids == tuple(range(8))


def test_comparing_says_what_moves():
    mesh = programs.mesh()
    a, b = NamedSharding(mesh, P("data", None)), NamedSharding(mesh, P(None, None))
    gathered = observe.compare(a, b, (8, 4))
    (messages,) = gathered.rounds
    assert (
        sum(n for _, _, n in messages) == 8 * 96 and gathered.bytes_out == 96
    )  # each lacks three quarters of 128 B
    assert observe.compare(b, a, (8, 4)).rounds == ()
    swapped = observe.compare(
        NamedSharding(mesh, P("data", "model")), NamedSharding(mesh, P("model", "data")), (8, 8)
    )
    before = observe.layout(NamedSharding(mesh, P("data", "model")), (8, 8))
    after = observe.layout(NamedSharding(mesh, P("model", "data")), (8, 8))
    held = {x.device: x.slices for x in before.blocks}
    want = 0
    for x in after.blocks:
        common = [
            max(0, min(p[1], q[1]) - max(p[0], q[0])) for p, q in zip(x.slices, held[x.device])
        ]
        want += 4 * (8 - common[0] * common[1])
    assert sum(n for _, _, n in swapped.rounds[0]) == want
    assert Record.from_json(swapped.to_json()) == swapped
    with pytest.raises(ValueError, match="different shapes"):
        observe.compare(programs.put(np.ones(8), "data"), programs.put(np.ones(4), "data"))


def test_comparing_prefers_what_is_near_and_says_who_has_what():
    x = programs.put(np.ones((8, 8)), "data", None)
    moved = observe.compare(x, P(None, "model"), name="x", compiled=True)
    assert all(s % 2 == t % 2 and n == 32 for s, t, n in moved.messages), "along `data` only"
    assert set(moved.sent.values()) == set(moved.received.values()) == {96} and dict(
        moved.kept
    ) == dict.fromkeys(range(8), 32)
    assert [t.kind for t in moved.transfers] == [
        "all_gather"
    ] and "full rematerialization" in moved.warnings[0]
    said = observe.text(moved).splitlines()
    assert said[0] == "x: f32[8@data,8] → f32[8,8@model]"
    assert said[1] == "  24 messages, 768 B in all, at most 96 B from one device and 96 B to one"
    assert said[4].split() == [
        "0",
        "[0:2,",
        "0:8]",
        "[0:8,",
        "0:4]",
        "32",
        "B",
        "96",
        "B",
        "2:",
        "32",
        "B,",
        "4:",
        "32",
        "B,",
        "6:",
        "32",
        "B",
        "96",
        "B",
    ]
    assert observe.compare(x, P(None, "data"), compiled=True).warnings == (), (
        "an all_to_all does it"
    )
    assert "nothing moves" in observe.text(
        observe.compare(programs.put(np.ones((8, 8))), P("data"))
    )


def test_silent_replication_is_flagged():
    made = observe.layout(NamedSharding(programs.mesh(), P()), (1024, 1024))
    assert any("'model'" in w and "divides by 2" in w for w in made.warnings)
    assert observe.layout(NamedSharding(programs.mesh(), P()), (8, 8)).warnings == ()
    # Split over one axis and copied along another is data parallelism, not an oversight.
    assert (
        observe.layout(NamedSharding(programs.mesh(), P("data", None)), (1024, 1024)).warnings == ()
    )


def test_errors_teach():
    with pytest.raises(TypeError, match="no shape"):
        observe.layout(NamedSharding(programs.mesh(), P("data")))
    with pytest.raises(TypeError, match="takes an array"):
        observe.layout("x")
    with pytest.raises(ValueError, match="needs a mesh"):
        observe.layout(P("data"), (4,))


def test_d79_a_layout_says_all_of_a_placement_and_reads_no_data():
    mesh = xlab.make_mesh((4, 2), ("a", "b"))
    where = xlab.NamedSharding(mesh, xlab.P("a"), memory_kind="pinned_host")
    x = xlab.device_put(np.zeros((8, 3), np.float32), where)
    with xlab.transfer_guard("disallow"):
        made = observe.layout(x)
    assert made.committed and made.memory_kind == "pinned_host" and made.order == (1, 0)
    assert {b.device: b.slices for b in made.blocks} == {
        s.device.id: tuple(i.indices(n)[:2] for i, n in zip(s.index, x.shape))
        for s in x.addressable_shards
    }
    assert made.copies == 2 and {b.copy for b in made.blocks} == {0, 1}
    whole = observe.layout(xlab.device_put(x, xlab.NamedSharding(mesh, xlab.P())))
    assert whole.copies == len(whole.blocks) == 8  # replicated


def test_a_mesh_without_devices_has_numbers():
    from xlab.sharding import AbstractMesh

    made = observe.layout(NamedSharding(AbstractMesh((16, 16), ("a", "b")), P("a", "b")), (32, 64))
    assert made.shard_shape == (2, 4) and len(made.blocks) == 256
    assert made.mesh.axis_sizes == (16, 16) and made.blocks[17].slices == ((2, 4), (4, 8))


def test_keys_lie_as_keys_and_not_as_the_words_they_are_made_of():
    mesh = make_mesh((8,), ("a",))
    there = NamedSharding(mesh, P("a"))
    whole = xlab.random.split(xlab.random.key(0), 8)
    cut = xlab.device_put(whole, there)
    made = observe.layout(cut, name="ks")
    assert made.type.text == "key<fry>[8@a]" and made.shard_shape == (1,) and made.committed
    assert (made.bytes_per_device, made.bytes_total) == (8, 64)
    moved = observe.compare(whole, there)
    assert moved.bytes_in == 56 and moved.after.type.text == "key<fry>[8@a]"
    assert observe.compare(cut, P(), compiled=True).transfers[0].kind == "all_gather"
    cut.delete()
    assert "deleted" in observe.layout(cut).warnings[-1]
