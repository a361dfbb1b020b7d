"""Two processes of two devices each, as child processes of the test."""

from __future__ import annotations

import os

import pytest

import xlab
from tests.parallel.workers import run_two, start_two

WORKER = """
    import sys
    import numpy as np
    import xlab
    from xlab import lax
    from xlab.sharding import AxisType, NamedSharding, PartitionSpec as P

    address, index = sys.argv[1], int(sys.argv[2])
    xlab.distributed.initialize(address, 2, index, initialization_timeout=60, heartbeat_timeout_seconds=20,
                                shutdown_timeout_seconds=60)
    assert xlab.distributed.is_initialized()
    assert (xlab.device_count(), xlab.local_device_count(), xlab.process_count(), xlab.process_index()) == (4, 2, 2, index)
    try:
        xlab.distributed.initialize(address, 2, index)
    except RuntimeError as e:
        assert "once" in str(e)
    mesh = xlab.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, P("x"))
    whole = np.arange(8, dtype=np.float32)
    x = xlab.make_array_from_callback((8,), rows, lambda at: whole[at])
    assert not x.is_fully_addressable and len(x.addressable_shards) == 2
    total = xlab.jit(xlab.shard_map(lambda v: lax.psum(v.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
    for _ in range(3):
        assert float(total(x)) == 28.0
    y = xlab.jit(lambda v: v @ v)(x)
    assert float(y) == float(whole @ whole)
    xlab.distributed.shutdown()
    assert not xlab.distributed.is_initialized()
    print("done")
"""


@pytest.mark.slow
def test_two_processes_are_one_program():
    run_two(WORKER)


ENDS = """
    import sys, time
    import numpy as np
    import xlab
    from xlab.sharding import NamedSharding, P

    address, index, late, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    xlab.distributed.initialize(address, 2, index, initialization_timeout=60, heartbeat_timeout_seconds=5, shutdown_timeout_seconds=60)
    rows = NamedSharding(xlab.make_mesh((4,), ("x",)), P("x"))
    x = xlab.make_array_from_callback((8,), rows, lambda at: np.arange(8, dtype=np.float32)[at])
    assert float(xlab.jit(lambda v: v.sum())(x)) == 28.0
    if index != late and how == "raises":
        raise KeyError("its own mistake")
    if index != late and how == "exits":
        import os
        os._exit(0)
    if index == late:
        time.sleep(1)
        print(float(xlab.jit(lambda v: v + 1)(3.0)))
    print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("late", "how", "codes"),
    [(1, "ends", (0, 0)), (0, "raises", (0, 1)), (1, "raises", (1, 0)), (0, "exits", (0, 0))],
)
def test_processes_end_by_themselves_in_any_order(late, how, codes):
    ended = start_two(ENDS, str(late), how)
    assert tuple(code for code, _ in ended) == codes, ended
    assert "4.0\ndone" in ended[late][1], ended
    assert how != "raises" or "its own mistake" in ended[1 - late][1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere", 2, 0), "host:port"),
        (("127.0.0.1:1", 2, 2), "from 0 to num_processes"),
        (("127.0.0.1:1", 0, 0), "from 0"),
        ((None, 2, 0), "coordinator_address should be defined"),
        (("127.0.0.1:1", None, 0), "num_processes should be defined"),
    ],
)
def test_arguments_are_checked(arguments, words, monkeypatch):
    for name in list(os.environ):
        if name.endswith(
            (
                "COORDINATOR_ADDRESS",
                "NUM_PROCESSES",
                "PROCESS_ID",
                "NTASKS",
                "PROCID",
                "WORLD_SIZE",
                "WORLD_RANK",
            )
        ):
            monkeypatch.delenv(name)
    with pytest.raises(ValueError, match=words):
        xlab.distributed.initialize(*arguments)


def test_after_the_devices_are_in_use():
    xlab.devices()
    with pytest.raises(RuntimeError, match="before anything that touches a device"):
        xlab.distributed.initialize("127.0.0.1:1", 1, 0)
    assert not xlab.distributed.is_initialized()
    xlab.distributed.shutdown()
