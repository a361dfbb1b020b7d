"""The policy of the runtime's native threads, each test in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not hasattr(os, "SCHED_BATCH"), reason="threads have no policies here"
)

POLICIES = """
import os, threading
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
BEFORE
mine = os.sched_getscheduler(0)
import numpy as np, xlab
before = set(os.listdir("/proc/self/task"))
assert len(xlab.devices()) == DEVICES
of_runtime = {os.sched_getscheduler(int(t)) for t in set(os.listdir("/proc/self/task")) - before}
assert os.sched_getscheduler(0) == mine
found = []
thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
thread.start(); thread.join()
assert found == [mine], "a thread of the user's own"
mesh = xlab.sharding.Mesh(np.array(xlab.devices()), ("i",))
rows = xlab.device_put(np.arange(8.0, dtype=np.float32), xlab.sharding.NamedSharding(mesh, xlab.P("i")))
assert float(xlab.jit(lambda a: (a + 1).sum())(rows)) == 36
assert of_runtime == {WANTED}, of_runtime
"""


@pytest.mark.parametrize(
    ("devices", "before", "wanted"),
    [
        (8, "", "os.SCHED_BATCH"),
        (2, "", "os.SCHED_BATCH"),
        (1, "", "os.SCHED_OTHER"),
        (8, "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))", "os.SCHED_IDLE"),
        (8, "del os.sched_setscheduler", "os.SCHED_OTHER"),
        (
            8,
            "def refused(*a): raise PermissionError(1, 'no')\nos.sched_setscheduler = refused",
            "os.SCHED_OTHER",
        ),
    ],
    ids=["eight", "two", "one", "given", "absent", "refused"],
)
def test_threads_of_a_client_whose_devices_outnumber_the_processors_yield(devices, before, wanted):
    code = POLICIES.replace("BEFORE", before).replace("DEVICES", str(devices))
    done = subprocess.run(
        [sys.executable, "-c", code.replace("WANTED", wanted)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "XLAB_NUM_CPU_DEVICES": str(devices)},
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_nothing_changes_where_each_device_has_a_processor(monkeypatch):
    from xlab.backend import scheduling

    monkeypatch.setattr(scheduling, "processors", lambda: 8)
    with scheduling.in_batches(8):
        assert os.sched_getscheduler(0) == os.SCHED_OTHER
    with scheduling.in_batches(9):
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
