"""The state of the runtime as records: settings, caches, pending effects; where arrays of one device lie; who wants which devices."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import observe
from xlab.compile import disk_cache
from xlab.config import FLAGS
from xlab.observe.records import Failure, Record
from xlab.observe.records.caches import Caches
from xlab.observe.records.effects import PendingEffect, PendingEffects
from xlab.observe.records.settings import Setting, Settings
from xlab.observe.reports import failure
from xlab.sharding import Format, Layout, Mesh, NamedSharding, SingleDeviceSharding
from xlab.sharding import PartitionSpec as P


def setting(name) -> Setting:
    (found,) = observe.settings(name).rows
    return found


def test_a_setting_says_where_its_value_is_from(monkeypatch):
    assert setting("debug_infs").source == "default"
    monkeypatch.setenv("XLAB_NO_TRACING", "0")
    assert setting("no_tracing").source == "env"
    with xlab.debug_infs(True):
        assert setting("debug_infs") == setting("debug_infs").replace(value="True", source="local")
        others = []
        thread = threading.Thread(target=lambda: others.append(setting("debug_infs").source))
        thread.start()
        thread.join()
        assert others == ["default"]
    xlab.config.update("log_checkpoint_residuals", True)
    try:
        assert setting("log_checkpoint_residuals").source == "global"
        changed = {s.name for s in observe.settings(changed=True).rows}
        assert {"log_checkpoint_residuals", "no_tracing"} <= changed
    finally:
        xlab.config.update("log_checkpoint_residuals", False)
    everything = observe.settings()
    assert [s.name for s in everything.rows] == sorted(FLAGS)
    assert everything.more == 0 and all(s.about for s in everything.rows)
    assert repr(observe.settings("debug_infs")).splitlines() == [
        "  debug_infs   False   default",
        f"  … {len(FLAGS) - 1} more: xlab.observe.settings()",
    ]


def test_the_caches_count_what_they_found(tmp_path):
    xlab.clear_caches()
    x = np.ones(3, np.float32)
    for _ in range(3):
        xlab.lax.sin(x)
    found = observe.caches()
    assert (found.eager_hits, found.eager_misses, found.eager_programs) == (2, 1, 1)
    assert not found.disk and "'compilation_cache_dir'" in repr(found)

    folder, before = tmp_path / "programs", (disk_cache.use.hits, disk_cache.use.misses)
    least = xlab.config.persistent_cache_min_compile_time_secs
    xlab.config.update("compilation_cache_dir", str(folder))
    xlab.config.update("persistent_cache_min_compile_time_secs", 0.0)
    try:
        f = xlab.jit(lambda v: v * 23)
        f(x)
        xlab.clear_caches()
        f(x)
        found = observe.caches()
    finally:
        xlab.config.update("compilation_cache_dir", None)
        xlab.config.update("persistent_cache_min_compile_time_secs", least)
    assert (found.disk_hits - before[0], found.disk_misses - before[1]) == (1, 1)
    assert found.disk and found.stored == 1 and found.stored_bytes > 0 and found.reading_us > 0
    assert found.folder == "programs" and str(tmp_path) not in found.to_json()
    assert "1 program in programs" in repr(found) and "saved" not in repr(found)
    assert "saved" in observe.text(found, times=True)


def test_programs_that_were_written_to_files_are_listed_without_their_path(tmp_path):
    xlab.config.update("dump_ir_to", str(tmp_path / "ir"))
    try:
        xlab.jit(lambda v: v * 29, name="written")(np.ones(3, np.float32))
        found = observe.caches()
    finally:
        xlab.config.update("dump_ir_to", "")
    assert found.dump_folder == "ir" and found.dumps[-1].endswith("_jit_written_compile.mlir")
    assert (tmp_path / "ir" / found.dumps[-1]).exists() and str(tmp_path) not in found.to_json()


def test_pending_effects_are_shown_and_not_waited_for():
    xlab.effects_barrier()
    seen = []

    def f(v):
        xlab.debug.callback(seen.append, v, ordered=True)
        return v + 1

    xlab.jit(f)(np.float32(1))
    pending = observe.pending_effects()
    here = threading.current_thread().name
    ordered, unordered = [e for e in pending.effects if e.thread == here]
    assert "in order" in ordered.text and ordered.state in ("pending", "done")
    assert unordered.text == "without an order" and unordered.state == "started"
    assert ordered.devices == unordered.devices == (0,) and "2 tokens" in pending.sentence
    xlab.effects_barrier()
    assert seen == [1.0]
    assert not [e for e in observe.pending_effects().effects if e.thread == here]


def test_arrays_of_one_device_say_which_and_how_they_lie():
    d = xlab.devices()
    there = Format(Layout((1, 0)), SingleDeviceSharding(d[1]))
    host = SingleDeviceSharding(d[2], memory_kind="pinned_host")
    for x, said in (
        (jnp.ones(8), "f32[8] on device 0, 32 B, uncommitted"),
        (xlab.device_put(jnp.ones(8), d[3]), "f32[8] on device 3, 32 B"),
        (xlab.device_put(jnp.ones(8), host), "f32[8] on device 2, 32 B, in pinned_host"),
        (
            xlab.device_put(jnp.ones((3, 4)), there),
            "f32[3,4] on device 1, 48 B, dimensions 0, 1 from minor to major",
        ),
    ):
        assert repr(observe.layout(x)) == said


def test_devices_that_do_not_agree_are_drawn_below_one_another():
    d = xlab.devices()
    mesh = Mesh(np.array(d[:4]), ("x",))
    x = xlab.device_put(jnp.ones(8), NamedSharding(mesh, P("x")))
    with pytest.raises(xlab.errors.IncompatibleDevices) as caught:
        xlab.jit(lambda a, b: a + b)(x, xlab.device_put(jnp.ones(8), d[5]))
    made = failure(caught.value)
    assert [ids for _, ids in made.sides] == [(0, 1, 2, 3), (5,)]
    assert "argument `a`" in made.sides[0][0]
    lines = repr(made).splitlines()[-3:]
    assert lines[0].split() == ["device", "0", "1", "2", "3", "5"]
    assert lines[1].split()[-5:] == ["■"] * 4 + ["·"] and lines[2].split()[-5:] == ["·"] * 4 + ["■"]


def test_inputs_that_a_program_does_not_take_are_marked():
    made = observe.program(lambda a, b, c: a + c, *[np.ones(2, np.float32)] * 3)
    assert len(made.unused) == 1 and f"(not used: {made.unused[0]})" in repr(made)
    assert "not used" not in repr(observe.program(lambda a: a, np.float32(1)))


def test_phases_say_which_thread_they_were_in():
    f = xlab.jit(lambda v: v * 31)
    with observe.record() as session:
        f(np.float32(1))
        thread = threading.Thread(target=lambda: f(np.ones(2, np.float32)))
        thread.start()
        thread.join()
    found = {(p.thread, p.kind) for p in observe.phases(session)}
    assert {(0, "compile"), (1, "trace"), (1, "compile")} <= found


@pytest.mark.parametrize(
    "record",
    [
        Settings((Setting("a", "1", "env", "0", "about"),), 2),
        Caches(1, 2, 3, disk=True, dumps=("a.mlir",)),
        PendingEffects((PendingEffect("print", (0, 1), "MainThread", False),)),
        Failure("E", "m", sides=(("x", (0,)),)),
    ],
)
def test_records_of_the_runtime_travel_as_json(record):
    assert Record.from_json(record.to_json()) == record
