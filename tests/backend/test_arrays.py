import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import xlab
from tests.backend import toys
from xlab.backend import arrays, client
from xlab.core.avals import ShapedArray
from xlab.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding, from_native


@pytest.mark.parametrize(
    "dtype",
    [
        bool,
        np.int8,
        np.int32,
        np.int64,
        np.uint32,
        np.float16,
        np.float32,
        np.float64,
        np.complex64,
        np.complex128,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.int4,
    ],
)
def test_round_trip_keeps_every_dtype(dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    back = arrays.to_numpy(toys.put(x, toys.single()))
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("size", [16, 1 << 20])
@pytest.mark.parametrize("spec", [None, ("x",), ()])
def test_later_changes_of_the_host_array_do_not_reach_the_device(size, spec):
    x = np.arange(size, dtype=np.float32)
    wanted = x.copy()
    array = toys.put(x, toys.single() if spec is None else toys.along(*spec))
    x[:] = -1
    np.testing.assert_array_equal(toys.gather(array), wanted)


def test_reading_is_free_of_copies_and_read_only():
    array = toys.put(np.arange(1000, dtype=np.float32), toys.single())
    a, b = arrays.to_numpy(array), arrays.to_numpy(array)
    assert not a.flags.writeable
    assert np.shares_memory(a, b)


def test_wrong_dtype_is_refused():
    with pytest.raises(TypeError, match="float32"):
        arrays.put(
            [np.zeros(2, np.int32)],
            ShapedArray((2,), np.float32),
            toys.single(),
            client.devices()[:1],
        )


@pytest.mark.beside
def test_shards_are_arrays_of_ours_and_cheap():
    array = toys.put(np.arange(16, dtype=np.float32), toys.along("x"))
    parts = arrays.shards(array)
    assert parts is arrays.shards(array)
    assert [p.aval for p in parts] == [ShapedArray((2,), np.float32)] * 8
    assert [from_native(p._sharding) for p in parts] == [
        SingleDeviceSharding(d) for d in client.devices()[:8]
    ]
    arrays.to_numpy(parts[0])
    start = time.perf_counter()
    for _ in range(125):
        fresh = arrays.from_shards(array.aval, toys.along("x"), parts)
        for part in arrays.shards(fresh):
            arrays.to_numpy(part)
    assert time.perf_counter() - start < 1.0  # 1000 reads: about 10 ms when the machine is quiet
    assert "jax" not in sys.modules


def test_assembling_and_moving():
    x = np.arange(16, dtype=np.float32)
    array = toys.put(x, toys.along("x"))
    again = arrays.from_shards(array.aval, toys.along("x"), arrays.shards(array))
    np.testing.assert_array_equal(toys.gather(again), x)
    host = NamedSharding(toys.line_mesh(), PartitionSpec("x"), memory_kind="pinned_host")
    moved = arrays.copy_to_devices(array, array.aval, host, host.devices_in_order)
    assert from_native(moved._sharding) is host
    np.testing.assert_array_equal(toys.gather(moved), x)
    loose = arrays.copy_to_devices(
        array, array.aval, toys.along("x"), host.devices_in_order, committed=False
    )
    assert not loose._committed
    assert array._committed
    np.testing.assert_array_equal(toys.gather(loose), x)
    there = arrays.copy_to_devices(
        toys.put(x, toys.single()), array.aval, toys.single(3), client.devices()[3:4]
    )
    assert from_native(there._sharding) is toys.single(3)
    np.testing.assert_array_equal(arrays.to_numpy(there), x)


def test_threads_that_share_one_array_are_one_kin():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            array = toys.put(np.arange(4, dtype=np.float32), toys.single())
            gate, made = threading.Barrier(4), []

            def share(array=array, gate=gate, made=made):
                gate.wait()
                made.append(arrays.rewrap(array, array.aval, toys.single()))

            threads = [threading.Thread(target=share) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert len({arrays.alias_group(x) for x in (array, *made)}) == 1
            assert len(arrays.give_up(array)) == 5
    finally:
        sys.setswitchinterval(interval)


def test_dlpack_round_trip():
    array = toys.put(np.arange(4, dtype=np.float32), toys.single())
    back = arrays.from_dlpack(
        arrays.to_dlpack(array), client.devices()[0], ShapedArray, toys.single()
    )
    np.testing.assert_array_equal(arrays.to_numpy(back), np.arange(4))
    assert back.aval == array.aval


def put_rows():
    mesh = xlab.make_mesh((8,), ("d",))
    return xlab.device_put(
        np.arange(16, dtype=np.float32).reshape(8, 2), NamedSharding(mesh, PartitionSpec("d"))
    )


def test_taking_an_array_apart_asks_nobody_for_the_neighbor(monkeypatch):
    asked = []

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "jax":
                asked.append(name)

    x = put_rows() * 1
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    arrays.copy_to_host_async(x)
    assert np.array_equal(np.asarray(x), np.arange(16.0).reshape(8, 2))
    assert len(x.addressable_shards[0].data) == 1
    assert asked == []


def test_parts_are_read_when_somebody_looks_at_them():
    x = put_rows()
    unread, read = x.addressable_shards[2], x.addressable_shards[3]
    assert read.data.tolist() == [[6.0, 7.0]] and read.data is read.data
    assert arrays.known_shards(x)[3] is read.data
    assert (unread.index, unread.replica_id) == ((slice(2, 3), slice(None)), 0)
    x.delete()
    with pytest.raises(RuntimeError, match="was deleted or donated"):
        unread.data
    assert read.data.is_deleted()


@pytest.mark.parametrize("dtype", ["bool", "complex64", "bfloat16", "float8_e4m3fn", "int4"])
def test_values_are_read_whether_or_not_buffers_know_the_dtype(dtype):
    x = (put_rows() % 8).astype(dtype)
    expected = (np.arange(16, dtype=np.float32) % 8).reshape(8, 2).astype(x.dtype)
    for read in (np.asarray(x), xlab.device_get(x), np.concatenate([s.data for s in x.addressable_shards])):  # fmt: skip
        assert read.dtype == x.dtype and np.array_equal(read, expected)
    one = np.asarray(x.addressable_shards[1].data)
    assert not one.flags.writeable and np.array_equal(one, expected[1:2])


def test_reading_what_failed_raises_what_the_computation_raised():
    def fail(value):
        raise ValueError("no such row")

    rows = xlab.jit(lambda v: xlab.pure_callback(fail, v, v, vmap_method="sequential"))
    with pytest.raises(xlab.errors.JaxRuntimeError, match="no such row"):
        np.asarray(rows(put_rows()))


def test_shardings_of_parts_are_made_once():
    first, second = (put_rows() * factor for factor in (1, 2))
    for a, b, device in zip(first.addressable_shards, second.addressable_shards, client.devices()):
        assert a.data._sharding is b.data._sharding and a.data.committed
        assert from_native(a.data._sharding) is SingleDeviceSharding(device)
        assert a.data.aval is b.data.aval


def test_the_error_of_the_last_program_with_collectives_is_raised_once(monkeypatch):
    class Failed:
        def block_until_ready(self):
            raise ValueError("no connection")

    monkeypatch.setattr(arrays, "_running", Failed())
    with pytest.raises(ValueError, match="no connection"):
        arrays.block_until_idle()
    arrays.block_until_idle()
