"""Monitoring: what is recorded, for whom, and that calls stay fast while somebody listens."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import xlab
from xlab import monitoring


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
