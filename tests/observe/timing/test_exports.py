"""Phases and memory outside the notebook: traces for Perfetto, and matplotlib figures."""

import json

import numpy as np
import pytest

import xlab
from xlab import lax, observe
from xlab.observe.records import Phase

X = np.ones(5, np.float32)


@pytest.fixture(scope="module")
def session():
    inner = xlab.jit(lambda x: lax.sin(x) + 1, name="traced_inner")
    f = xlab.jit(lambda x: inner(x) * 2, name="traced")
    with observe.record() as made:
        for _ in range(3):
            f(xlab.device_put(X))
    return made


def test_a_trace_has_every_phase_with_its_times(session, tmp_path):
    path = tmp_path / "trace.json"
    made = observe.phases(session).chrome_trace(path)
    assert json.loads(path.read_text()) == made
    shown = [e for e in made["traceEvents"] if e["ph"] in "Xi"]
    assert [(e["ts"], e.get("dur", 0)) for e in shown] == [
        (p.start_us, p.duration_us) for p in observe.phases(session)
    ]
    compiled = next(e for e in shown if e["name"] == "compile traced")
    assert "never seen before" in compiled["args"]["reason"]
    assert [e["args"]["run"] for e in shown if e["name"] == "run traced"] == [
        "first",
        "steady",
        "steady",
    ]


def test_a_recording_and_its_report_give_the_same_trace(session):
    events = observe.chrome_trace(session)["traceEvents"]
    assert observe.chrome_trace(observe.report(session))["traceEvents"][1:] == events[1:]
    with pytest.raises(TypeError, match="given int"):
        observe.chrome_trace(3)


def test_phases_that_overlap_get_rows_of_their_own():
    phases = (
        Phase("trace", "a", 0.0, 10.0),
        Phase("trace", "inside", 2.0, 3.0, 1, 0),
        Phase("trace", "b", 5.0, 10.0),
        Phase("trace", "c", 12.0, 1.0),
    )
    rows = {
        e["name"]: e["tid"] for e in observe.chrome_trace(phases)["traceEvents"] if e["ph"] == "X"
    }
    assert rows == {"trace a": 1, "trace inside": 1, "trace b": 2, "trace c": 1}


def test_phases_are_drawn(session):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    ax = observe.phases(session).plot()
    bars = [p for p in observe.phases(session) if p.duration_us > 0]
    assert len(ax.patches) == len(bars) and ax.get_xlabel() == "ms"
    assert {t.get_text().strip() for t in ax.get_yticklabels()} == {p.function for p in bars}
    _, given = pyplot.subplots()
    assert observe.report(session).plot(ax=given) is given
    pyplot.close("all")


def test_memory_is_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    memory = observe.memory(lambda x: lax.sin(x) @ x, np.ones((8, 8), np.float32))
    ax = memory.plot()
    assert len(ax.patches) == len(memory.buffers) and "peak" in ax.get_title()
    assert sorted(p.get_width() for p in ax.patches) == sorted(
        b.end - b.start + 1 for b in memory.buffers
    )
    with pytest.raises(TypeError, match="given Phase"):
        Phase("trace", "f").plot()
    pyplot.close("all")
