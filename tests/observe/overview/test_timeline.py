"""What devices did during a step: operations that meet in collectives, shares of the time, lanes, and the trace that Perfetto opens."""

import functools
import itertools

import numpy as np
import pytest

import xlab
from xlab import lax, observe
from xlab.observe.overview import timeline as timing
from xlab.observe.records import Record
from xlab.observe.records.timeline import Operation, Timeline
from xlab.sharding import AxisType
from xlab.sharding import PartitionSpec as P

DEVICES = 4


@functools.cache
def measured():
    """A step with a loop, a sum over groups of two devices in it, and its program."""
    mesh = xlab.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)

    def body(x):
        x = lax.fori_loop(0, 3, lambda i, c: lax.psum(lax.sin(c), "b") / 2, x)
        return lax.mul(lax.psum(x, ("a", "b")), np.float32(2))

    f = xlab.jit(xlab.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P(), check_vma=False))
    x = np.ones((8, 64), np.float32)
    with observe.record() as session:
        f(x)
        session.profile = observe.profile(f, x, repeat=3)
    return observe.report(session, parts=("programs", "phases"))


def test_every_device_has_the_operations_of_one_step():
    line = measured().timelines[0]
    assert line.devices == tuple(range(DEVICES)) and line.steps == 3 and not line.dropped
    names = [sorted(o.instruction for o in line.operations if o.device == d) for d in line.devices]
    assert names[0] and all(n == names[0] for n in names)
    assert all(o.start_us >= 0 and o.end_us <= line.duration_us + 0.01 for o in line.operations)
    assert {o.kind for o in line.operations} == {"compute", "collective", "loop"}
    assert Record.from_json(line.to_json()) == line
    assert "4 devices" in observe.text(line) and "device 3" in observe.text(line, times=True)


def test_executions_of_a_collective_meet_within_their_group():
    line = measured().timelines[0]
    meetings = {}
    for o in line.operations:
        if o.kind == "collective":
            meetings.setdefault(o.meeting, []).append(o)
    groups = sorted(tuple(sorted(o.device for o in m)) for m in meetings.values())
    assert groups == [(0, 1)] * 3 + [(0, 1, 2, 3)] + [(2, 3)] * 3
    for members in meetings.values():
        last = max(members, key=lambda o: o.start_us)
        assert {o.late for o in members} == {last.device}
        assert all(o.start_us <= a <= b <= o.end_us + 0.01 for o in members for a, b in o.waits)


def test_operations_are_joined_to_equations_and_lines():
    report = measured()
    line = report.timelines[0]
    primitives = {e.id: e for e, _ in report.programs[0].walk()}
    sums = [o for o in line.operations if o.kind == "collective"]
    assert {primitives[o.equation].primitive for o in sums} == {"psum"}
    for o in sums:
        source = primitives[o.equation].source
        assert o.where == f"{source.file}:{source.line}"


def test_shares_of_a_device_are_its_step():
    line = measured().timelines[0]
    for s in line.shares:
        whole = s.compute_us + s.communication_us + s.waiting_us + s.idle_us
        assert whole == pytest.approx(line.duration_us, abs=0.5)


def test_what_computing_hides_of_a_collective_is_no_communication():
    operations = (
        Operation("all-reduce.1", 0, 0.0, 10.0, "collective", ((2.0, 6.0),)),
        Operation("fusion.1", 0, 1.0, 4.0),
        Operation("while.1", 0, 0.0, 20.0, "loop"),
        Operation("fusion.2", 0, 12.0, 3.0),
    )
    found = timing._shares(0, operations, 20.0)
    assert (found.compute_us, found.hidden_us, found.waiting_us, found.communication_us) == (
        7,
        4,
        1,
        5,
    )
    assert found.idle_us == 7
    assert "40 %" in observe.text(Timeline("f", 20.0, (0,), shares=(found,)), times=True)


def test_what_runs_at_the_same_time_has_lanes_and_a_loop_encloses():
    operations = [
        Operation("while.1", 0, 0.0, 10.0, "loop"),
        Operation("a", 0, 1.0, 4.0),
        Operation("b", 0, 2.0, 1.0),
        Operation("a", 1, 2.0, 1.0),
        Operation("c", 0, 6.0, 9.0),
        Operation("d", 0, 11.0, 1.0),
    ]
    assert [o.lane for o in timing._in_lanes(operations)] == [0, 0, 1, 0, 1, 0]


def test_memory_is_what_the_plan_keeps_at_each_operation():
    report = measured()
    f = report.timelines[0]
    assert [d for d, _ in f.memory] == list(f.devices)
    for _, points in f.memory:
        assert points and all(a[0] <= b[0] and a[1] != b[1] for a, b in itertools.pairwise(points))


def test_the_trace_has_rows_arrows_and_counters(tmp_path):
    report = measured()
    line = report.timelines[0]
    made = observe.chrome_trace(report, tmp_path / "trace.json")["traceEvents"]
    own = [e for e in made if e["pid"] == 2]
    names = [e["args"]["name"] for e in own if e["ph"] == "M"]
    assert names == [f"devices of {line.function}", *(f"device {d}" for d in line.devices)]
    slices = [e for e in own if e["ph"] == "X" and e["cat"] != "wait"]
    assert len(slices) == len(line.operations)
    behind = max(p.start_us + p.duration_us for p in report.phases)
    assert all(e["ts"] >= round(behind, 3) for e in own if e["ph"] != "M")
    begins, ends = ([e for e in own if e["ph"] == p] for p in "sf")
    assert [e["id"] for e in begins] == [e["id"] for e in ends]
    assert len({e["id"] for e in begins}) == len(begins)
    around = lambda e: any(
        s["tid"] == e["tid"] and s["ts"] <= e["ts"] <= s["ts"] + s["dur"] + 0.002
        and s["name"] == e["name"]
        for s in slices
    )  # fmt: skip
    assert begins and all(map(around, [*begins, *ends]))
    assert {e["name"] for e in own if e["ph"] == "C"} == {
        f"memory of device {d}" for d in line.devices
    }
    assert observe.chrome_trace(line)["traceEvents"]


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(TypeError, match="a function and its arguments"):
        observe.timeline(3)
    with pytest.raises(ValueError, match="repeat=0"):
        observe.timeline(lax.sin, np.ones(2, np.float32), repeat=0)
