"""Values and arrays of several processes: in one process, and in two child processes of two devices each."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from tests.parallel.workers import run_two
from xlab.experimental import multihost_utils as mh
from xlab.sharding import AxisType, P

X = np.arange(8, dtype=np.float32).reshape(4, 2)

WORKER = """
    import sys
    import numpy as np
    import xlab
    from tests.parallel.workers import fails
    from xlab.experimental import multihost_utils as mh
    from xlab.sharding import AxisType, NamedSharding, P

    address, index = sys.argv[1], int(sys.argv[2])
    xlab.distributed.initialize(address, 2, index, initialization_timeout=60, heartbeat_timeout_seconds=20,
                                shutdown_timeout_seconds=60)
    mine = {"a": np.float32([index, 10 + index]), "b": index == 0}
    stacked, joined = mh.process_allgather(mine), mh.process_allgather(mine, tiled=True)
    assert stacked["a"].tolist() == [[0, 10], [1, 11]] and stacked["b"].tolist() == [True, False]
    assert joined["a"].tolist() == [0, 10, 1, 11]
    assert mh.broadcast_one_to_all(mine)["a"].tolist() == [0, 10]
    assert mh.broadcast_one_to_all(mine, is_source=index == 1)["a"].tolist() == [1, 11]
    try:
        mh.broadcast_one_to_all(mine, is_source=True)
    except ValueError as e:
        assert "[0, 1]" in str(e)
    mh.assert_equal(np.arange(3), "same")
    fails(AssertionError, ["not the same.", "[0 1 2]", "[1]"],
          lambda: mh.assert_equal(np.arange(3) + index, "not the same."))
    fails(AssertionError, ["shapes", "[1]"], lambda: mh.assert_equal(np.arange(3 + index)))
    fails(AssertionError, ["name mismatch", f"place{index}"], lambda: mh.sync_global_devices(f"place{index}"))
    fails(ValueError, ["other structure, shapes"], lambda: mh.process_allgather(np.zeros(2 + index)))
    of_one = xlab.device_put(np.arange(3), xlab.devices()[-1])
    fails(ValueError, ["other structure, shapes"], lambda: mh.process_allgather(of_one, tiled=True))
    mh.sync_global_devices("here")
    with mh.live_devices(xlab.devices()) as alive:
        assert alive == xlab.devices()
    fails(ValueError, ["devices of this process"], lambda: mh.live_devices(xlab.local_devices(1 - index)).__enter__())
    mesh = xlab.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    part = np.arange(4, dtype=np.float32) + 4 * index
    x = mh.host_local_array_to_global_array(part, mesh, P("x"))
    assert x.shape == (8,) and float(xlab.jit(lambda v: v.sum())(x)) == 28.0
    back = mh.global_array_to_host_local_array(x, mesh, P("x"))
    assert np.asarray(back).tolist() == part.tolist() and back.is_fully_addressable
    assert mh.process_allgather(x, tiled=True).tolist() == list(range(8))
    fails(ValueError, ["only supports tiled=True"], lambda: mh.process_allgather(x))
    mh.sync_global_devices("end")
    xlab.distributed.shutdown()
    print("done")
"""


@pytest.mark.slow
def test_two_processes():
    run_two(WORKER)


class TestOneProcess:
    def test_values(self):
        got = mh.process_allgather({"a": X, "b": 3})
        assert got["a"].shape == (1, 4, 2) and got["b"].tolist() == [3]
        assert mh.process_allgather(X, tiled=True).shape == X.shape
        assert mh.broadcast_one_to_all([X, 3])[1].shape == ()
        mh.assert_equal({"a": X, "b": np.float32("nan")})
        mh.sync_global_devices("here")
        with pytest.raises(TypeError, match="name of the place"):
            mh.sync_global_devices(3)

    @pytest.mark.skipif(len(xlab.devices()) < 4, reason="needs 4 devices")
    def test_arrays(self):
        mesh = xlab.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
        (x,) = mh.host_local_array_to_global_array((X,), mesh, P("x", "y"))
        assert x.sharding == xlab.NamedSharding(mesh, P("x", "y"))
        np.testing.assert_array_equal(mh.global_array_to_host_local_array(x, mesh, P("x")), X)
        np.testing.assert_array_equal(
            xlab.jit(lambda v: mh.host_local_array_to_global_array(v, mesh, P("x")) * 2)(X), 2 * X
        )
        with pytest.raises(ValueError, match="not a valid input to the pspecs"):
            mh.host_local_array_to_global_array((X, X), mesh, (P("x"), None))
