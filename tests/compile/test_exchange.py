"""Arrays laid out anew on other devices, and transfers of many arrays at once (D61, D62, D66)."""

import itertools

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import events
from xlab.backend import arrays
from xlab.sharding import Format, Layout, Mesh, NamedSharding, SingleDeviceSharding
from xlab.sharding import PartitionSpec as P

put = xlab.device_put
D = xlab.devices()
ONE, BACK, FOUR = (Mesh(np.array(d), ("x",)) for d in (D, D[::-1], D[2:6]))
GRID, TURNED = (
    Mesh(np.array(D).reshape(2, 4), ("a", "b")),
    Mesh(np.array(D[::-1]).reshape(4, 2).T.copy(), ("p", "q")),
)
SHARDINGS = [
    NamedSharding(ONE, P("x")),
    NamedSharding(ONE, P(None, "x")),
    NamedSharding(ONE, P()),
    NamedSharding(BACK, P("x")),
    NamedSharding(FOUR, P("x")),
    NamedSharding(GRID, P("a", "b")),
    NamedSharding(GRID, P(("b", "a"), None)),
    NamedSharding(TURNED, P("q", "p")),
    NamedSharding(GRID, P(None, "b"), memory_kind="pinned_host"),
    SingleDeviceSharding(D[3]),
]


@pytest.fixture
def seen():
    found = []

    def note(event):
        if event.kind == "transfer":
            found.append(event)

    events.add(note)
    yield found
    events.remove(note)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int4"])
def test_every_layout_to_every_other(dtype):
    values = (np.arange(64).reshape(8, 8) % 7).astype(xlab.numpy.dtype(dtype))
    for source, target in itertools.permutations(SHARDINGS, 2):
        moved = put(put(values, source), target)
        assert moved.sharding == target and moved.committed, (source, target)
        np.testing.assert_array_equal(np.asarray(moved), values)
        for shard in moved.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), values[shard.index])


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (8,), (16, 8, 3)])
def test_other_shapes_are_laid_out_anew(shape):
    values = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    there = put(values, NamedSharding(ONE, P("x") if shape[0] else P(None, "x")))
    for spec in (P(), P(None, "a") if len(shape) > 1 else P("a")):
        moved = put(there, NamedSharding(GRID, spec))
        np.testing.assert_array_equal(np.asarray(moved), values)


def test_the_whole_array_is_never_put_together(monkeypatch):
    x = put(np.arange(64.0).reshape(8, 8), SHARDINGS[0])

    def whole(self):
        raise AssertionError("the whole array was read")

    monkeypatch.setattr(arrays.ArrayImpl, "_host_value", whole)
    for target in SHARDINGS[1:]:
        put(x, target)


def test_what_was_laid_out_anew_belongs_to_nobody_else():
    x = put(jnp.arange(16.0).reshape(8, 2), SHARDINGS[0])
    y = put(x, SHARDINGS[2])
    z = xlab.jit(lambda v: v + 1, donate_argnums=0)(y)
    assert y.is_deleted() and not x.is_deleted()
    np.testing.assert_array_equal(x, np.arange(16.0).reshape(8, 2))
    np.testing.assert_array_equal(z, np.arange(16.0).reshape(8, 2) + 1)


def test_d66_a_call_moves_all_arrays_of_one_device_at_once(seen, monkeypatch):
    calls = []
    copy_all = arrays.copy_all
    monkeypatch.setattr(
        arrays, "copy_all", lambda xs, s: (calls.append(len(xs)), copy_all(xs, s))[1]
    )
    there = put(jnp.ones(3), D[3])
    leaves = {"a": jnp.arange(3.0), "b": [there, put(jnp.ones((2, 2)), D[1])], "n": np.ones(5)}
    moved = put(leaves, D[3])
    assert calls == [2]
    assert moved["b"][0] is there
    for x in xlab.tree.leaves(moved):
        assert x.devices() == {D[3]} and x.committed
    np.testing.assert_array_equal(moved["a"], np.arange(3.0))
    (event,) = [e for e in seen if e.attrs["leaves"] > 1]
    assert event.attrs["leaves"] == 2 and event.attrs["bytes"] == 12 + 16
    assert event.attrs["name"] == "device to device, 2 arrays" and event.duration_ns > 0


def test_d66_mixed_destinations_are_one_event(seen):
    a, b, c = jnp.ones(8), jnp.ones((8, 8)), jnp.arange(8)
    seen.clear()
    out = put((a, b, c), (D[1], SHARDINGS[0], D[2]))
    assert [e.attrs["leaves"] for e in seen] == [3]
    assert out[0].devices() == {D[1]} and out[1].sharding == SHARDINGS[0]
    seen.clear()
    put(out, (D[1], SHARDINGS[0], D[2]))  # nothing to move
    put([], D[1])
    assert not seen


def test_d66_a_deleted_array_among_others_is_named():
    gone = jnp.arange(3.0)
    gone.delete()
    with pytest.raises(RuntimeError, match="was deleted"):
        put([jnp.ones(2), gone], D[1])


def test_d61_donation_consumes_what_a_program_would():
    x = put(jnp.ones((8, 8)), SHARDINGS[0])
    assert (put(x, SHARDINGS[3], donate=True), x.is_deleted())[1]
    y = put(jnp.ones((3, 4)), D[0])
    there = Format(Layout((1, 0)), SingleDeviceSharding(D[0]))
    assert (put(y, there, donate=True), y.is_deleted())[1]
    z = put(jnp.ones((8, 8)), SHARDINGS[0])
    np.testing.assert_array_equal(put(z, SHARDINGS[1], donate=True), np.ones((8, 8)))
    np.testing.assert_array_equal(put(np.ones(3), D[1], donate=True), np.ones(3))


def test_d54_a_format_stays_in_the_equation():
    there = Format(Layout((1, 0)), SingleDeviceSharding(D[0]))
    x = jnp.ones((3, 4))
    (eqn,) = xlab.make_jaxpr(lambda v: put(v, there))(x).jaxpr.eqns
    assert eqn.params["devices"] == (there,)
    assert xlab.jit(lambda v: put(v, there) * 2)(x).devices() == {D[0]}
    g = xlab.grad(lambda v: (put(v, Format(Layout((1, 0)), SingleDeviceSharding(D[1]))) ** 2).sum())
    np.testing.assert_array_equal(g(x), 2 * np.ones((3, 4)))


def test_d72_constants_of_numpy_need_no_equation():
    def equations(f):
        return len(xlab.make_jaxpr(f)().jaxpr.eqns)

    assert equations(lambda: put(np.ones(3))) == 0
    assert equations(lambda: put({"a": np.ones(3), "b": np.arange(2)})) == 0
    assert equations(lambda: put(np.ones(3), D[1])) == 1
    assert equations(lambda: put(np.ones(3), may_alias=False)) == 1
    np.testing.assert_array_equal(xlab.jit(lambda: put(np.arange(3)) * 2)(), [0, 2, 4])


def test_x1_an_event_says_which_way_the_data_took(seen):
    def way(value, where, **options):
        seen.clear()
        put(value, where, **options)
        return [(e.attrs["name"], e.attrs["bytes"], e.attrs["reason"]) for e in seen]

    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    rows, copies, back, four = SHARDINGS[0], SHARDINGS[2], SHARDINGS[3], SHARDINGS[4]
    host, device = "host to devices", "device to device"
    assert way(values, rows) == [(host, 256, "a slice to each of 8 devices")]
    assert way(values, copies) == [(host, 256, "the whole value to each of 8 devices")]
    assert way(put(values, D[1]), D[2]) == [(device, 256, "one copy")]
    swapped = NamedSharding(Mesh(np.array([D[1], D[0], *D[2:]]), ("x",)), P("x"))
    held = put(values, rows)
    assert way(held, swapped) == [(device, 256, "whole shards: 6 stay, 2 are copied")]
    assert way(held, back) == [(device, 256, "whole shards: 0 stay, 8 are copied")]
    fewer = NamedSharding(Mesh(np.array(D[:3]), ("x",)), P())
    assert way(put(values, copies), fewer) == [(device, 256, "whole shards: 3 stay, 0 are copied")]
    for source, target in ((held, four), (held, SHARDINGS[1]), (put(values, D[3]), rows)):
        assert way(source, target) == [
            (device, 256, "pieces of shards: each device gets those of its new shard")
        ]
    both = put(values, D[1]), values
    assert way(both, (D[2], rows)) == [
        (f"{device} and {host}, 2 arrays", 512, "a slice to each of 8 devices; one copy")
    ]
    with xlab.observe.record() as session:
        put(held, swapped)
    assert "whole shards: 6 stay, 2 are copied" in str(xlab.observe.phases(session)[0])
