"""Arrays that span processes: read, moved, mapped and refused, in two child processes of two devices each."""

from __future__ import annotations

import os

import pytest

from tests.parallel.workers import run_two

WORKER = """
    import sys
    import numpy as np
    import xlab
    from tests.parallel.spanning import VALUE, arrays, destinations, meshes, spread, sweep
    from tests.parallel.workers import fails
    from xlab import lax
    from xlab.config import flag_context
    from xlab.parallel import replica_mode
    from xlab.sharding import NamedSharding, P

    address, index = sys.argv[1], int(sys.argv[2])
    xlab.distributed.initialize(address, 2, index, initialization_timeout=60, heartbeat_timeout_seconds=30, shutdown_timeout_seconds=60)
    row, grid, reverse = meshes()
    rows, copies = NamedSharding(row, P("x")), NamedSharding(row, P())
    x, local = spread(VALUE, rows), xlab.numpy.asarray(VALUE)
"""

READING = (
    WORKER
    + """
    gather = ["process_allgather", "addressable_shards", f"on process {index}", "2 are here"]
    for read in (np.asarray, xlab.device_get, lambda v: v.tolist(), lambda v: v.tobytes(), lambda v: v.item(), np.array, memoryview,
                 lambda v: __import__("pickle").dumps(v), lambda v: float(v[:1, :1] + x[:1, :1]) and np.asarray(v)):
        fails((RuntimeError, TypeError, ValueError, BufferError), [], lambda: read(x))
    for read in (np.asarray, xlab.device_get, lambda v: v.tolist(), lambda v: v.tobytes()):
        fails(RuntimeError, gather, lambda: read(x))
    for text in (repr(x), str(x), f"{x}"):
        assert text.startswith("Array(shape=(8, 4), dtype=float32, sharding="), text
    # What every process holds can be read, copies and blocks that are here in other order alike.
    for name, (y, value) in arrays().items():
        if name in ("copies", "same in each"):
            assert np.asarray(y).tolist() == value.tolist(), name
        assert float(y.sum()) == float(value.sum()), name
        assert name == "explicit" or float(y[3, 1]) == value[3, 1], name
    assert float(x.clone().sum()) == float(VALUE.sum())
    away = xlab.device_put(VALUE, xlab.local_devices(1 - index)[0])
    fails(RuntimeError, [f"Read it in process {1 - index}", "none"], lambda: np.asarray(away))
    assert repr(away).startswith("Array(shape=(8, 4)")
    keys = xlab.make_array_from_callback((4,), rows, lambda at: xlab.random.split(xlab.random.key(0), 4)[at])
    assert "Array((4,), dtype=key<fry>, sharding=" in repr(keys)
    want = xlab.random.key_data(xlab.random.split(xlab.random.key(0), 4))
    assert np.asarray(xlab.random.key_data(xlab.device_put(keys, copies))).tolist() == np.asarray(want).tolist()
    fails(RuntimeError, ["closes over", "spans processes", "as an argument"], lambda: xlab.jit(lambda v: v + x)(x))
    assert xlab.observe.summarize(x).note == "2 of 4 parts, those in this process"
    assert sum(a.nbytes for a in xlab.live_arrays()) > 0
    print("done")
"""
)

PLACING = (
    WORKER
    + """
    unequal = ["not the same in every process", "process 1 differs", "make_array_from_process_local_data"]
    fails(AssertionError, unequal, lambda: xlab.device_put(VALUE + index, rows))
    fails(AssertionError, unequal, lambda: xlab.device_put(float(index), NamedSharding(row, P())))
    fails(ValueError, ["committed", "several"], lambda: xlab.device_put(xlab.device_put(VALUE, xlab.local_devices()[0]), rows))
    fails(ValueError, ["`a`", "in_shardings", "device_put"], lambda: xlab.jit(lambda a: a + 1, in_shardings=rows)(VALUE))
    assert np.asarray(xlab.jit(lambda a: a + 1, in_shardings=copies)(VALUE)).tolist() == (VALUE + 1).tolist()
    # Every layout to every destination: the parts of the same value, or the same refusal in both processes.
    refused = 0
    for name, y in {**{k: v for k, (v, _) in arrays().items()}, "numpy": VALUE, "uncommitted": local}.items():
        for to, place in destinations().items():
            if to in ("columns", "transposed", "both", "reversed") and name not in ("rows", "blocks"):
                continue        # the long sweep goes there
            if type(y) is not np.ndarray and name != "uncommitted" and to in ("here", "one of each", "device here", "device there",
                                                                              "device first") and name not in ("copies", "same in each"):
                fails(ValueError, ["cannot go to the devices", "cross_host_transfer_socket_address", "platform cpu"], lambda: xlab.device_put(y, place))
                refused += 1
                continue
            moved = xlab.device_put(y, place)
            assert not isinstance(place, NamedSharding) or moved.sharding == place, (name, to)
            for shard in moved.addressable_shards:
                np.testing.assert_array_equal(np.asarray(shard.data), VALUE[shard.index], f"{name} to {to}")
    assert refused == 35
    copied = xlab.device_put(x, rows, may_alias=False)
    x.delete()
    assert float(copied.sum()) == float(VALUE.sum())
    # Parts of processes.
    parts = {"a": VALUE[4 * index:4 * index + 4], "b": np.arange(2) + 2 * index}
    whole = xlab.make_array_from_process_local_data(rows, parts)
    assert float(whole["a"].sum()) == float(VALUE.sum()) and int(whole["b"].sum()) == 6
    across = NamedSharding(grid, P("d", "p"))
    held = xlab.make_array_from_process_local_data(across, VALUE[:, 2 * index:2 * index + 2], (8, 4))
    assert bool((held == VALUE).all())
    for data, shape, words in ((np.zeros(9), (8,), "(4,)"), (np.zeros(4), (8, 3), "(4, 3)"), (np.zeros(4), (None,), "None"), (np.zeros(()), None, "rank")):
        fails(ValueError, ["make_array_from_process_local_data", words], lambda: xlab.make_array_from_process_local_data(rows, data, shape))
    print("done")
"""
)

MAPPING = (
    WORKER
    + """
    mine = np.float32([2 * index, 2 * index + 1])
    f = xlab.pmap(lambda v: v + lax.psum(v, "i"), axis_name="i")
    y = f(mine)
    assert np.asarray(y).tolist() == (mine + 6).tolist() and y.is_fully_addressable and y.devices() == set(xlab.local_devices())
    assert np.asarray(f(y)).tolist() == (np.asarray(y) + 30).tolist()
    assert np.asarray(xlab.pmap(lambda v: lax.axis_index("i"), axis_name="i")(mine)).tolist() == mine.tolist()
    assert np.asarray(xlab.pmap(lambda a, b: a * b, in_axes=(0, None))(mine, np.float32(3 + index))).tolist() == (mine * (3 + index)).tolist()
    assert float(xlab.pmap(lambda a: lax.psum(a, "i"), axis_name="i", out_axes=None)(mine)) == 6
    assert xlab.pmap(lambda a: a * np.ones(3, np.float32), out_axes=1)(mine).shape == (3, 2)
    assert np.asarray(xlab.grad(lambda v: f(v).sum())(mine)).tolist() == [5, 5]
    assert np.asarray(xlab.vmap(f)(np.stack([mine, mine + 1]))).tolist() == [(mine + 6).tolist(), (mine + 11).tolist()]
    assert np.asarray(xlab.pmap(lambda v: v + lax.psum(v, "i"), axis_name="i", devices=xlab.devices())(mine)).tolist() == (mine + 6).tolist()
    local = xlab.pmap(lambda v: v + lax.psum(v, "i"), axis_name="i", devices=xlab.local_devices())
    assert np.asarray(local(mine)).tolist() == (mine + mine.sum()).tolist() == np.asarray(xlab.jit(local)(mine)).tolist()
    keys = xlab.random.split(xlab.random.key(0), 4)
    drawn = xlab.pmap(lambda k: xlab.random.uniform(k))(keys[2 * index:2 * index + 2])
    assert np.asarray(drawn).tolist() == np.asarray(xlab.vmap(xlab.random.uniform)(keys))[2 * index:2 * index + 2].tolist()
    assert f.lower(mine).out_info.shape == (4,)
    fails(ValueError, ["2 here", "4 in all", "leading axis size of 4"], lambda: f(np.zeros(4)))
    fails(ValueError, ["axis_size=2", "4 devices"], lambda: xlab.pmap(lambda v: v, axis_size=2)(mine))
    fails(ValueError, ["outside of jit", "shard_map"], lambda: xlab.jit(f)(mine))
    replica_mode.multi_host_supported_collectives.discard(lax.psum_p)
    fails(TypeError, ["uses the collectives psum", "all_gather"], lambda: f(mine))
    replica_mode.multi_host_supported_collectives.add(lax.psum_p)

    def body(v):
        assert str(v).count("On cpu:") == 2, str(v)
        return v * 2 if lax.psum(v.sum(), "x") == VALUE.sum() else v
    along = lambda body: xlab.shard_map(body, mesh=row, in_specs=P("x"), out_specs=P("x"))
    assert float(along(body)(x).sum()) == 2 * VALUE.sum()
    fails(TypeError, ["only some of the devices are in this process"], lambda: along(lambda v: v if v.sum() > -1 else -v)(x))
    with flag_context("spmd_mode", "allow_jit"):
        fails(RuntimeError, ["was called outside of jit", "f32[8,4]", "under xlab.jit"], lambda: x * 2)
        fails(RuntimeError, ["sin was called outside of jit"], lambda: lax.sin(x))
        assert float(xlab.jit(lambda v: v.sum() * 2)(x)) == 2 * VALUE.sum()
    assert float((x * 2).sum()) == 2 * VALUE.sum()
    print("done")
"""
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "source", [READING, PLACING, MAPPING], ids=["reading", "placing", "mapping"]
)
def test_two_processes(source):
    run_two(source)


@pytest.mark.slow
@pytest.mark.skipif(
    "XLAB_SPANNING_SWEEP" not in os.environ, reason="minutes: set XLAB_SPANNING_SWEEP=few or all"
)
def test_every_use():
    run_two(
        WORKER
        + """
    print(dict(sweep(__import__("os").environ["XLAB_SPANNING_SWEEP"] == "all")))
    print("done")
""",
        limit=1800,
    )
