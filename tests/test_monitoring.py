"""Monitoring: what is recorded, for whom, and that calls stay fast while somebody listens."""

from __future__ import annotations

import logging
import re
import threading

import numpy as np
import pytest

import xlab
from xlab import events, monitoring
from xlab.backend import compiling


@pytest.fixture
def heard():
    """Everything recorded, as (channel, event, arguments)."""
    log: list = []
    monitoring.register_event_listener(lambda e, **kw: log.append(("event", e, kw)))
    monitoring.register_event_duration_secs_listener(
        lambda e, s, **kw: log.append(("duration", e, s, kw))
    )
    monitoring.register_event_time_span_listener(
        lambda e, a, b, **kw: log.append(("span", e, a, b, kw))
    )
    monitoring.register_scalar_listener(lambda e, v, **kw: log.append(("scalar", e, v, kw)))
    yield log
    monitoring.clear_event_listeners()


def stages(log):
    short = {
        monitoring.JAXPR_TRACE_EVENT: "T",
        monitoring.JAXPR_TO_MLIR_MODULE_EVENT: "L",
        monitoring.BACKEND_COMPILE_EVENT: "C",
    }
    return [(short[r[1]], r[-1]["fun_name"]) for r in log if r[0] == "span"]


def test_channels(heard):
    monitoring.record_event("/a", word="x")
    monitoring.record_event_duration_secs("/b", 1.5, n=2)
    monitoring.record_event_time_span("/c", 1.0, 2.0)
    monitoring.record_scalar("/d", 7)
    assert heard == [
        ("event", "/a", {"word": "x"}),
        ("duration", "/b", 1.5, {"n": 2}),
        ("span", "/c", 1.0, 2.0, {}),
        ("scalar", "/d", 7, {}),
    ]


@pytest.mark.parametrize(
    ("register", "unregister", "listed", "record"),
    [
        (
            monitoring.register_event_listener,
            monitoring.unregister_event_listener,
            monitoring.get_event_listeners,
            lambda: monitoring.record_event("/a"),
        ),
        (
            monitoring.register_event_duration_secs_listener,
            monitoring.unregister_event_duration_listener,
            monitoring.get_event_duration_listeners,
            lambda: monitoring.record_event_duration_secs("/a", 1.0),
        ),
        (
            monitoring.register_event_time_span_listener,
            monitoring.unregister_event_time_span_listener,
            monitoring.get_event_time_span_listeners,
            lambda: monitoring.record_event_time_span("/a", 1.0, 2.0),
        ),
        (
            monitoring.register_scalar_listener,
            monitoring.unregister_scalar_listener,
            monitoring.get_scalar_listeners,
            lambda: monitoring.record_scalar("/a", 1.0),
        ),
    ],
)
def test_registering(register, unregister, listed, record):
    order: list = []
    first, second = (lambda *a, **k: order.append(1)), (lambda *a, **k: order.append(2))
    register(first)
    register(second)
    record()
    assert order == [1, 2] and listed()[-2:] == [first, second]
    unregister(first)
    record()
    assert order == [1, 2, 2]
    with pytest.raises(ValueError, match="not registered"):
        unregister(first)
    with pytest.raises(TypeError):
        register(3)
    monitoring.clear_event_listeners()
    record()
    assert order == [1, 2, 2] and listed() == []


def test_stages_of_a_function(heard):
    def f(x):
        return x * 2 + 1

    jitted = xlab.jit(f)
    x = np.ones(3, np.float32)
    jitted(x)
    assert stages(heard) == [("T", "f"), ("L", "jit(f)"), ("C", "jit(f)")]
    assert [r[0] for r in heard[:3]] == ["scalar", "duration", "span"]
    start, duration, span = heard[:3]
    assert start[2] == span[2] <= span[3] and duration[2] >= 0
    heard.clear()
    jitted(x)
    assert heard == []
    jitted(np.ones(4, np.float32))
    assert stages(heard) == [("T", "f"), ("L", "jit(f)"), ("C", "jit(f)")]


def test_stages_one_by_one(heard):
    traced = xlab.jit(lambda x: x + 1).trace(1.0)
    assert stages(heard) == [("T", "<lambda>")]
    lowered = traced.lower()
    assert stages(heard)[1:] == [("L", "jit(<lambda>)")]
    lowered.compile()
    lowered.compile()
    assert stages(heard)[2:] == [("C", "jit(<lambda>)")]
    heard.clear()
    xlab.make_jaxpr(lambda x: x + 1)(1.0)
    xlab.eval_shape(lambda x: x + 2, 1.0)
    assert [s for s, _ in stages(heard)] == ["T", "T"]
    heard.clear()
    xlab.jit(lambda x: xlab.jit(lambda y: y * 3)(x) + 1)(1.0)
    assert [s for s, _ in stages(heard)] == ["T", "L", "C"]


def test_a_tracing_that_fails_is_a_stage(heard):
    with pytest.raises(ZeroDivisionError):
        xlab.jit(lambda x: 1 // 0)(1.0)
    assert stages(heard) == [("T", "<lambda>")]


def test_listening_leaves_calls_on_the_native_path(heard, empty_native_cache):
    f = xlab.jit(lambda x: x + 1)
    x = xlab.numpy.ones(3)
    f(x)
    assert f._cache_size() == 1


def test_threads_lose_nothing(heard):
    threads = [
        threading.Thread(target=lambda: [monitoring.record_event("/t") for _ in range(500)])
        for _ in range(8)
    ]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len([r for r in heard if r[1] == "/t"]) == 4000


def test_d38_an_error_of_a_listener_arrives_and_later_calls_are_unharmed():
    def fails(event, seconds, **kw):
        raise ZeroDivisionError("mine")

    f = xlab.jit(lambda x: x * 43)
    monitoring.register_event_duration_secs_listener(fails)
    try:
        with pytest.raises(ZeroDivisionError, match="mine"):
            f(2.0)
    finally:
        monitoring.clear_event_listeners()
    assert f(2.0) == 86 and f(np.ones(2)).sum() == 86


def test_d36_a_timer_reports_begin_line_duration_and_span_in_this_order(heard, caplog):
    class Order(logging.Handler):
        def emit(self, record):
            heard.append(("log", record.getMessage(), record.levelname))

    handler = Order()
    logger = logging.getLogger("xlab")
    logger.addHandler(handler)
    try:
        with (
            xlab.log_compiles(True),
            pytest.raises(ZeroDivisionError),
            monitoring.log_elapsed_time("{fun_name} took {elapsed_time:.1f} s", "rest", "/e") as t,
        ):
            assert t is None
            raise ZeroDivisionError
        (_, e, start, _), (_, line, level), (_, _, seconds, _), (_, _, a, b, kw) = heard
        assert [r[0] for r in heard] == ["scalar", "log", "duration", "span"]
        assert (
            e == "/e"
            and kw == {"fun_name": "rest"}
            and (line, level) == ("rest took 0.0 s", "WARNING")
        )
        assert start == a and seconds == b - a >= 0
        heard.clear()
        with xlab.log_compiles(True), monitoring.log_elapsed_time("{fun_name}", "quiet"):
            pass
        assert heard == [("log", "quiet", "WARNING")]
        heard.clear()
        with monitoring.log_elapsed_time("{nothing}", "never formatted", "/e"):
            pass
        assert [r[0] for r in heard] == ["scalar", "duration", "span"]
    finally:
        logger.removeHandler(handler)
    assert not hasattr(monitoring.log_elapsed_time("", ""), "__dict__")


def test_d3_nothing_is_reported_while_the_interpreter_ends(heard, monkeypatch, caplog):
    seen = []
    events.add(seen.append)
    monkeypatch.setattr(events, "exiting", True)
    try:
        with xlab.log_compiles(True):
            assert xlab.jit(lambda x: x * 5)(3.0) == 15
    finally:
        events.remove(seen.append)
    assert {"scalar"} <= {r[0] for r in heard} <= {"scalar", "event"}
    assert not seen and not caplog.records


def test_d39_each_stage_has_its_line_before_its_span(heard, caplog):
    f = xlab.jit(lambda x: x * 6, name="six")
    with xlab.log_compiles(True):
        f(3.0)
        lines = [r.getMessage() for r in caplog.records]
        f(4.0)
    number = r"\d+\.\d+ sec"
    for line, form in zip(
        lines,
        (
            rf"Finished tracing six for jit in {number}",
            r"Compiling jit\(six\) with global shapes and types \(~float32\[\]\). Argument mapping: .*",
            rf"Finished jaxpr to MLIR module conversion jit\(six\) in {number}",
            rf"Finished XLA compilation of jit\(six\) in {number}",
        ),
        strict=True,
    ):
        assert re.fullmatch(form, line)
    assert len(caplog.records) == 4 and {r.levelname for r in caplog.records} == {"WARNING"}


def test_d41_what_happens_often_is_counted(tmp_path):
    x = np.ones(3, np.float32)
    xlab.clear_caches()
    with events.tally() as counts:
        xlab.lax.sin(x)
        xlab.lax.sin(x[:2])
        xlab.lax.sin(x)
        assert counts == {"eager_cache_miss": 1, "trace_cache_miss": 2}
        f = xlab.jit(lambda v: v * 7)
        xlab.config.update("compilation_cache_dir", str(tmp_path))
        try:
            f(x)
        finally:
            xlab.config.update("compilation_cache_dir", None)
    assert counts["compile_after_disk_cache_miss"] == 1 and counts["trace_cache_miss"] == 3
    xlab.jit(lambda v: v * 8)(x)
    assert counts["trace_cache_miss"] == 3


def test_d29_a_handler_gives_errors_of_the_compiler_a_better_form():
    class Better(Exception):
        pass

    asked = []
    first = compiling.register_compile_error_handler(lambda e: asked.append(e))
    second = compiling.register_compile_error_handler(lambda e: Better("use another"))
    lowered = xlab.jit(lambda v: v * 9).lower(1.0)
    try:
        with pytest.raises(Better, match="use another") as caught:
            lowered.compile({"xla_bogus": True})
        assert "xla_bogus" in str(caught.value.__cause__) and asked == [caught.value.__cause__]
    finally:
        first()
        second()
    with pytest.raises(xlab.errors.JaxRuntimeError, match="xla_bogus"):
        lowered.compile({"xla_bogus": True})
