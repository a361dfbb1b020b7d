import os
import subprocess
import sys
import threading

import pytest

from xlab import events
from xlab.config import (
    FLAGS,
    config,
    debug_nans,
    default_matmul_precision,
    enable_x64,
    flag_context,
    in_notebook,
)


def test_context_managers_nest_and_restore():
    assert config.enable_x64 is False
    with enable_x64(True):
        with enable_x64(False), debug_nans(True):
            assert (config.enable_x64, config.debug_nans) == (False, True)
        assert (config.enable_x64, config.debug_nans) == (True, False)
    assert config.enable_x64 is False
    with pytest.raises(ZeroDivisionError), enable_x64(True):
        raise ZeroDivisionError
    assert config.enable_x64 is False

    @enable_x64(True)
    def recursive(n):
        return config.enable_x64 and (n == 0 or recursive(n - 1))

    assert recursive(3)
    assert config.enable_x64 is False
    with default_matmul_precision("float32"):
        assert config.default_matmul_precision == "float32"


def test_threads_have_their_own_values():
    seen = {}

    def other():
        seen["inside"] = config.enable_x64
        seen["context"] = config.trace_context()

    before = config.trace_context()
    with enable_x64(True):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert config.trace_context() != before
    assert seen == {"inside": False, "context": before}
    assert config.trace_context() == before


def test_global_updates_reach_threads_that_have_values_of_their_own():
    with enable_x64(True):
        before = config.trace_context()
        thread = threading.Thread(target=config.update, args=("debug_infs", True))
        thread.start()
        thread.join()
        try:
            assert config.debug_infs
            assert config.trace_context() != before
        finally:
            config.update("debug_infs", False)
        assert config.trace_context() == before


def test_only_flags_that_matter_change_the_context():
    before = config.trace_context()
    with flag_context("log_compiles", True):
        assert config.trace_context() == before
    for name, flag in FLAGS.items():
        if flag.traced and flag.kind is bool:
            with flag_context(name, not getattr(config, name)):
                assert config.trace_context() != before, name
    hash(before)


def test_extra_context_values():
    previous = config.set_context_value("some_mesh", ("x", 4))
    assert previous is None
    assert config.context_value("some_mesh") == ("x", 4)
    inside = config.trace_context()
    assert config.set_context_value("some_mesh", None) == ("x", 4)
    assert config.trace_context() != inside


def test_prefixes_and_mistakes():
    config.update("jax_debug_nans", True)
    try:
        assert config.xlab_debug_nans
        assert config.jax_debug_nans
        assert config.read("jax_debug_nans")
    finally:
        config.update("xlab_debug_nans", False)
    with pytest.raises(AttributeError, match="Did you mean enable_x64"):
        config.update("enable_x46", True)
    with pytest.raises(ValueError, match="accepts one of 'standard', 'strict'; got 'loose'"):
        config.update("numpy_dtype_promotion", "loose")
    with pytest.raises(ValueError, match="accepts a bool"):
        config.update("enable_x64", "yes")
    with pytest.raises(AttributeError, match=r"config\.update"):
        config.enable_x64 = True


def test_options_without_a_meaning_here_say_so_and_do_not_stop_a_program():
    with pytest.warns(
        UserWarning, match="'jax_enable_pgle' has no effect in xlab: it is about accelerators"
    ):
        config.update("jax_enable_pgle", True)
    with pytest.raises(
        AttributeError, match="There is no option 'jax_explicit_x64_dtypes'"
    ):  # results depend on it
        config.update("jax_explicit_x64_dtypes", "allow")


def test_wide_types_by_the_name_programs_ask_for():
    assert config.x64_enabled is False
    with enable_x64(True):
        assert config.x64_enabled is True


def test_environment(tmp_path):
    code = (
        "from xlab.config import config, cpu_device_count as n;"
        "print(config.enable_x64, config.numpy_rank_promotion, n())"
    )

    def run(**env):
        full = {k: v for k, v in os.environ.items() if not k.startswith(("XLAB_", "XLA_"))} | env
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=full
        )
        return done.stdout.split() or done.stderr

    assert run() == ["False", "allow", "1"]
    assert run(
        XLAB_ENABLE_X64="1", XLAB_NUMPY_RANK_PROMOTION="raise", XLAB_NUM_CPU_DEVICES="3"
    ) == ["True", "raise", "3"]
    assert run(XLA_FLAGS="--xla_force_host_platform_device_count=5")[-1] == "5"
    assert "XLAB_ENABLE_X64 accepts" in run(XLAB_ENABLE_X64="perhaps")


def test_number_of_devices_is_fixed_once_used():
    from xlab.backend import client

    count = client.device_count()
    config.update("num_cpu_devices", count)
    with pytest.raises(RuntimeError, match="already in use"):
        config.update("num_cpu_devices", count + 1)
    with pytest.raises(RuntimeError, match="Unknown backend: 'gpu'"):
        client.devices("gpu")


def test_importing_starts_no_client():
    code = (
        "import xlab.backend, xlab.backend.client as c, xlab.sharding, xlab.tree;"
        "print(c.started()); c.devices(); print(c.started())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"]
    assert done.stderr == ""


def test_spans_nest_and_carry_errors(monkeypatch):
    ticks = iter(range(0, 1000, 10))
    monkeypatch.setattr(events, "clock", lambda: next(ticks))
    seen = []
    with events.span("trace") as attrs:
        attrs["unseen"] = 1  # nobody listens: kept nowhere

    def work():
        with events.span("lower", name="f") as attrs:
            attrs["lines"] = 3
            events.emit("cache_miss", reason="new")
            raise KeyError("x")

    events.add(seen.append)
    try:
        with pytest.raises(KeyError):
            work()
    finally:
        events.remove(seen.append)
    miss, lower = seen
    assert (miss.kind, miss.depth, miss.attrs) == ("cache_miss", 1, {"reason": "new"})
    assert (lower.kind, lower.depth, lower.attrs) == ("lower", 0, {"name": "f", "lines": 3})
    assert lower.duration_ns == 20
    assert isinstance(lower.error, KeyError)
    events.add(seen.append)
    with pytest.raises(ValueError, match="Unknown event kind"):
        events.span("cooking")
    events.remove(seen.append)


def test_every_flag_has_its_words():
    assert all(flag.doc.endswith(".") and flag.env.startswith("XLAB_") for flag in FLAGS.values())
    assert in_notebook() in (True, False)
