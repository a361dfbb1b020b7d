"""Live arrays: sizes, places, names and the line that made them; and that knowing costs nothing where nobody asked."""

import gc

import numpy as np
import pytest

import xlab
from xlab import numpy as jnp
from xlab import observe
from xlab.backend import arrays, native
from xlab.observe.arrays import allocation_sites
from xlab.observe.records import Record, Source
from xlab.observe.records.live import Live, LiveArray, devices_text, live_text, rows

X = np.ones((8, 4), np.float32)


@pytest.fixture
def tracked():
    assert observe.track_arrays()
    yield
    observe.track_arrays(False)
    assert (
        arrays._made is None and native.POST_HOOK.value is None
        if hasattr(native.POST_HOOK, "value")
        else True
    )


def made_by(x):
    found = allocation_sites.origin(x)
    return found.text if found else None


def test_arrays_have_size_place_and_name():
    mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)
    mine = {
        "w": xlab.device_put(X, xlab.NamedSharding(mesh, xlab.P("data"))),
        "list": [jnp.ones(3), jnp.ones((), np.int32)],
    }
    record = observe.live(mine, limit=None)  # other tests may have left arrays
    named = {a.name: a for a in record.arrays if a.name}
    assert (
        named["w"].type == "f32[8@data,4]"
        and named["w"].bytes == 128
        and named["w"].devices == tuple(range(8))
    )
    assert named["w"].sharding == "P('data',) over data=4 model=2" and named["w"].committed
    assert set(named) == {"w", "list[0]", "list[1]"} and named["list[1]"].type == "i32[]"
    assert record.total == sum(a.bytes for a in record.arrays) and not record.more
    assert Record.from_json(record.to_json()) == record
    assert [a.bytes for a in record.arrays] == sorted(
        (a.bytes for a in record.arrays), reverse=True
    )


def test_shards_are_not_counted_twice():
    mesh = xlab.make_mesh((8,), ("data",), axis_types=(xlab.sharding.AxisType.Auto,))
    x = xlab.device_put(np.ones(1 << 12, np.float32), xlab.NamedSharding(mesh, xlab.P("data")))
    before = observe.live().total
    shards = x.addressable_shards
    assert len([s.data for s in shards]) == 8 and observe.live().total == before


def test_every_way_of_making_an_array_has_its_line(tracked):
    f = xlab.jit(lambda x: {"y": x + 1, "z": (x * 2,)})
    put = xlab.device_put(X)  # put
    first = f(put)  # first call
    warm = f(put)
    warm = f(put)  # warm call
    eager = put - 1
    eager = put - 1  # eager
    mesh = xlab.make_mesh((8,), ("d",), axis_types=(xlab.sharding.AxisType.Auto,))
    sharded = xlab.device_put(X, xlab.NamedSharding(mesh, xlab.P("d")))  # cut
    total = xlab.jit(jnp.sum)(sharded)  # in turn
    for value, comment in (
        (put, "put"),
        (first["y"], "first call"),
        (warm["z"][0], "warm call"),
        (eager, "eager"),
        (sharded, "cut"),
        (total, "in turn"),
    ):
        assert made_by(value).endswith(f"# {comment}"), comment
        assert allocation_sites.origin(value).file == __file__
    assert any(place.startswith("test_live.py, line") for place, *_ in observe.live().lines)


def test_a_dead_array_is_not_mistaken_for_a_new_one(tracked):
    x = xlab.device_put(X)
    key = id(x)
    del x
    gc.collect()
    assert key not in allocation_sites._known or allocation_sites._known[key].array() is None


def test_what_is_known_is_bounded(tracked, monkeypatch):
    monkeypatch.setattr(allocation_sites, "_sweep_at", 10)
    monkeypatch.setattr(allocation_sites, "MOST", 30)
    x = xlab.device_put(X)
    for _ in range(200):
        x + 1
    assert len(allocation_sites._known) < 20_000 and allocation_sites._sweep_at >= 10
    allocation_sites._sweep()
    assert len(allocation_sites._known) <= 30


def test_cells_are_known_without_recording():
    allocation_sites.note_cell("In[0]")
    names = {}
    source = "a = jnp.ones(3)\nb = [a + 1,\n     a + 2]\n(a + 3).sum()\n"
    exec(source, {"jnp": jnp}, names)
    assert allocation_sites.note_cell("In[7]", source, names) == 3
    assert allocation_sites.origin(names["a"]) == Source("In[7]", 1) and allocation_sites.origin(
        names["b"][1]
    ) == Source("In[7]", 2)
    assert allocation_sites.note_cell("In[8]", "", {}) == 0
    later = jnp.ones(4)
    assert allocation_sites.origin(later) is None
    allocation_sites.note_cell("In[9]", "not python (", {})
    assert allocation_sites.origin(later) == Source("In[9]", 0)


def test_what_cannot_be_flattened_is_skipped():
    endless = [1]
    endless.append(endless)
    names = {"endless": endless, "mixed": [{1: 2, "a": 3}], "kept": jnp.ones((2, 5))}
    source = "endless = mixed = 1\nkept = jnp.ones((2, 5))"
    assert allocation_sites.note_cell("In[3]", source, names) >= 1
    assert allocation_sites.origin(names["kept"]) == Source("In[3]", 2)
    assert "kept" in {a.name for a in observe.live(names).arrays}


def test_warm_calls_are_native_while_lines_are_not_recorded(python_calls):
    f = xlab.jit(lambda x: x * 3)
    x = xlab.device_put(X)
    f(x)
    f(x)
    observe.track_arrays()
    f(x)
    observe.track_arrays(False)
    allocation_sites.note_cell("In[1]")
    assert python_calls(f, x)[1] == []


def test_the_text():
    assert live_text(Live()) == "no array of xlab is alive"
    record = Live(
        (
            LiveArray(
                "f32[8@data,4]",
                128,
                "w",
                tuple(range(8)),
                "P('data') over data=8",
                True,
                "",
                Source("In[3]", 2, function="f"),
            ),
            LiveArray("f32[3]", 12, "", (0,)),
        ),
        152,
        1,
        ((0, 28), (1, 16)),
    )
    assert (
        live_text(record)
        == """\
  name   array           bytes   on            made in
  w      f32[8@data,4]   128 B   devices 0–7   In[3], line 2
  –      f32[3]           12 B   device 0      unknown
  … 1 smaller array
152 B in 3 arrays, copies counted once; 44 B on 2 devices with all copies
per device: 0 28 B, 1 16 B"""
    )
    assert devices_text((0, 2)) == "devices 0, 2"


def test_arrays_without_a_name_that_are_alike_are_listed_together():
    here, there = Source("cell", 3), Source("cell", 4)
    one = LiveArray("f32[3,3]", 36, devices=(0,), source=here)
    record = Live(
        (
            LiveArray("f32[9]", 36, "mine", (0,)),
            *[one] * 3,
            one.__class__("f32[3,3]", 36, devices=(0,), source=there),
            one.__class__("f32[3,3]", 36, devices=(1,)),
        ),
        216,
        2,
    )
    assert [(x.array.name, x.number, x.bytes, x.place) for x in rows(record.arrays)] == [
        ("", 4, 144, "2 places"),
        ("mine", 1, 36, "unknown"),
        ("", 1, 36, "unknown"),
    ]
    said = live_text(record)
    assert (
        "4 without a name" in said
        and "144 B" in said
        and "8 arrays" in said
        and "2 smaller arrays" in said
    )


def test_named_keys_are_listed_as_keys():
    ks = xlab.random.split(xlab.random.key(3), 8)
    (found,) = [a for a in observe.live({"ks": ks}).arrays if a.name == "ks"]
    assert (found.type, found.bytes) == ("key<fry>[8]", 64)
