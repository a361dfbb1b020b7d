"""Two processes of two devices each, as child processes of the test."""

from __future__ import annotations

import os
import threading
import time
import types

import pytest

import xlab
from tests.parallel.workers import run_two, start_two
from xlab.backend.native import _jax

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


def test_no_thread_is_left_in_native_code_when_the_interpreter_ends(monkeypatch):
    """One that asks who lives would come back while the interpreter ends, and abort it; leaving sends it home before."""
    from xlab.backend import processes

    gone, asked = threading.Event(), threading.Event()

    class Link:
        """Process 1 ends while it is asked whether it lives."""

        def get_live_nodes(self, _):
            asked.set()
            gone.wait(20)
            time.sleep(0.2)
            raise RuntimeError("cancelled")

        def key_value_try_get(self, key):
            if not asked.is_set():
                raise _jax.JaxRuntimeError("NOT_FOUND")
            return "1"

        def key_value_set(self, *_, **__):
            pass

        def shutdown(self):
            gone.set()

    service = types.SimpleNamespace(shutdown=lambda: None)
    monkeypatch.setattr(processes, "_link", Link())
    monkeypatch.setattr(processes, "_service", service)
    monkeypatch.setattr(processes, "_count", 2)
    monkeypatch.setattr(processes, "_shutdown_s", 20)
    monkeypatch.setattr(processes, "_index", 0)
    before = set(threading.enumerate())
    processes.leave()
    assert asked.is_set() and set(threading.enumerate()) <= before


SILENT = """
    import os, signal, sys
    import numpy as np
    import xlab
    from xlab import lax
    from xlab.backend.processes import coordination
    from xlab.sharding import NamedSharding, P

    address, index, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    xlab.distributed.initialize(address, 2, index, initialization_timeout=60, heartbeat_timeout_seconds=5, shutdown_timeout_seconds=3,
                                collective_timeout_seconds=2)
    link = coordination()[0]
    mesh = xlab.make_mesh((4,), ("x",))
    x = xlab.make_array_from_callback((4,), NamedSharding(mesh, P("x")), lambda at: np.arange(4, dtype=np.float32)[at])
    total = xlab.jit(xlab.shard_map(lambda v: lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
    assert float(total(x)[0]) == 6.0
    if index == 1:
        link.key_value_set("pid", str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP if how == "stops" else signal.SIGKILL)
    pid = int(link.blocking_key_value_get("pid", 60000))
    for _ in range(2 if how == "dies" else 1):
        try:
            print(float(total(x)[0]))
        except xlab.errors.JaxRuntimeError as e:
            assert "Gloo all-reduce failed" in str(e), e
    near = xlab.make_mesh((2,), ("x",), devices=xlab.local_devices())
    print(float(xlab.jit(lambda v: v.sum())(xlab.device_put(np.arange(2, dtype=np.float32), NamedSharding(near, P("x"))))))
    if how == "stops":
        os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stops", "dies"])
def test_a_collective_without_the_other_ends_and_the_process_lives_on(how):
    (code, said), (killed, _) = start_two(SILENT, how)
    assert code == 0 and said.strip().splitlines()[-1] == "1.0", said
    assert killed == -9


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


NOTEBOOK = """
    import sys, warnings
    import xlab

    class Shell:
        kernel = object()

    class IPython:
        get_ipython = Shell

    sys.modules["IPython"] = IPython
    warnings.simplefilter("error")
    try:
        xlab.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
    except UserWarning as told:
        assert "%xprocesses" in str(told)
        print("done")
"""


@pytest.mark.slow
def test_a_kernel_is_warned_before_it_joins():
    run_two(NOTEBOOK)
