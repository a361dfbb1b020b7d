"""Programs compiled for machines that are not there; what needs the TPU compiler runs where the extra `tpu` is installed."""

import json
import re

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import observe
from xlab.backend import tpu_target
from xlab.observe.comparison.targets import topology
from xlab.observe.records import Record
from xlab.observe.records.units import size_text


def test_names_of_targets():
    assert topology("tpu:v4:2x2x4") == "v4:2x2x4"
    for wrong in ("tpu", "tpu:v5e", "gpu:h100:8", "v5e:4x4"):
        with pytest.raises(ValueError, match="a target is tpu:generation:shape"):
            topology(wrong)


def test_without_the_extra_the_message_has_the_command(monkeypatch):
    monkeypatch.setattr(tpu_target, "library", lambda: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'xlab\[tpu\]'"):
        observe.target("tpu:v5e:2x4", programs.dense, *programs.sharded_operands())


HLO = """HloModule jit_dense, is_scheduled=true, num_partitions=8

%fused (p.1: f32[2,4]) -> (f32[2,4], f32[8,4], u32[]) {
  %p.1 = f32[2,4]{1,0} parameter(0)
  %gather.1 = f32[8,4]{1,0} all-gather(%p.1), channel_id=7, replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}, use_global_device_ids=true
  ROOT %call.1 = (f32[2,4]{1,0}, f32[8,4]{1,0}, u32[]) custom-call(%p.1, %gather.1), custom_call_target="x"
}

%fused.2 (p.2: f32[8,4]) -> f32[8,4] {
  %p.2 = f32[8,4]{1,0} parameter(0)
  %gather.2 = f32[8,4]{1,0} all-gather(%p.2), channel_id=7, replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}, use_global_device_ids=true
  ROOT %call.2 = f32[8,4]{1,0} custom-call(%gather.2), custom_call_target="x"
}

ENTRY %main (x: f32[2,8], w: f32[8,4]) -> f32[2,4] {
  %x = f32[2,8]{1,0:T(2,128)} parameter(0)
  %w = f32[8,4]{1,0:T(8,128)} parameter(1)
  %copy-start = (f32[8,4]{1,0:T(8,128)S(1)}, f32[8,4]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%w)
  %tanh.1 = f32[2,8]{1,0:T(2,128)} tanh(%x), metadata={op_name="jit(dense)/tanh;e1"}
  %copy-done = f32[8,4]{1,0:T(8,128)S(1)} copy-done(%copy-start)
  %dot.1 = f32[2,4]{1,0:T(2,128)} dot(%tanh.1, %copy-done), metadata={op_name="jit(dense)/dot_general;e0"}
  %async-collective-start = (f32[2,4]{1,0}, f32[8,4]{1,0}, u32[]) fusion(%dot.1), kind=kCustom, calls=%fused, metadata={op_name="jit(dense)/tanh;e1"}
  %gte = f32[8,4]{1,0} get-tuple-element(%async-collective-start), index=1
  %neg.1 = f32[2,8]{1,0} negate(%tanh.1)
  %exp.1 = f32[2,8]{1,0} exponential(%neg.1)
  %async-collective-done = f32[8,4]{1,0} fusion(%gte), kind=kCustom, calls=%fused.2
  ROOT %out = f32[2,4]{1,0} slice(%async-collective-done), slice={[0:2], [0:4]}
}
"""


@pytest.fixture
def made(monkeypatch):
    """What a TPU compiler might answer, to be changed by a test."""
    answer = {
        "hlo": HLO,
        "kind": "TPU v9",
        "devices": list(range(8)),
        "cost": {"flops": 4096.0, "bytes accessed": 2e6, "optimal_seconds": 3e-6},
        "memory": {
            "argument_size_in_bytes": 192,
            "output_size_in_bytes": 32,
            "alias_size_in_bytes": 0,
            "temp_size_in_bytes": 64,
            "peak_memory_in_bytes": 200,
            "generated_code_size_in_bytes": 1000,
        },
    }
    monkeypatch.setattr(tpu_target, "compile_for", lambda *given: answer)
    return answer


def figures(found):
    return {(f.group, f.what): (f.left, f.right) for f in found.figures}


def test_a_schedule_beside_this_machines(made):
    found = observe.scheduled("tpu:v9:2x4", programs.dense, *programs.sharded_operands())
    assert [(f.kind, f.start, f.done, f.between) for f in found.async_operations] == [
        ("copy", "copy-start", "copy-done", 1),
        ("all_gather", "async-collective-start", "async-collective-done", 2),
    ]
    assert {f.kind: f.equation for f in found.async_operations}["all_gather"] == 1
    numbers = figures(found)
    assert (
        numbers["memory", "arguments"] == ("192 B", "192 B")
        and numbers["memory", "peak"][1] == "200 B"
    )
    assert numbers["memory", "code"][0] == ""  # not known here, and not said to be nothing
    assert numbers["cost", "flops"][1] == "4.10 k" and numbers[
        "cost", "best time, by its compiler's model"
    ] == ("", "3 µs")
    assert found.doubts == () and found.devices == 8
    assert ((1,) in [ids for _, ids in found.level.links]) and found.level.name == "tpu:v9:2x4"


def test_a_collective_fused_with_work_is_one(made):
    found = observe.scheduled("tpu:v9:2x4", programs.dense, *programs.sharded_operands())
    assert [t.kind for t in found.transfers] == ["all_gather"] and found.transfers[0].times == 1


@pytest.mark.parametrize("known", [True, False], ids=["in the module", "of the program"])
def test_a_collective_in_a_loop_counts_as_often_as_it_runs_on_both_sides(made, known):
    """Whether or not the target's compiler writes down how often the loop turns."""

    def layers(ws, x):
        return xlab.lax.scan(lambda h, w: (xlab.numpy.tanh(h @ w), None), x, ws)[0]

    args = programs.put(np.ones((5, 16, 16)), None, "data"), programs.put(np.ones((64, 16)), "data")
    module = xlab.jit(layers).lower(*args).compile().as_text()
    assert "known_trip_count" in module
    made["hlo"] = module if known else re.sub(r'"known_trip_count":\{[^}]*\},?', "", module)
    found = observe.scheduled("tpu:v9:2x4", layers, *args)
    (here,), (there,) = observe.transfers(layers, *args, tries=0), found.transfers
    assert here.times == there.times == 5
    assert here.sent_in_run == there.sent_in_run == round(5 * there.sent) > 0
    said = f"1, {size_text(here.sent_in_run)} sent"
    assert figures(found)["collectives", here.kind] == (said, said)


def test_what_does_not_add_up_is_no_fact(made):
    made["memory"]["peak_memory_in_bytes"] = 10_000
    made["cost"]["optimal_seconds"] = -0.99
    found = observe.scheduled("tpu:v9:2x4", programs.dense, *programs.sharded_operands())
    assert ("memory", "peak") not in figures(found) and not any(
        "best time" in f.what for f in found.figures
    )
    assert (
        "a peak of 10 KB, more than" in found.doubts[0]
        and "no model of this target" in found.doubts[1]
    )
    report = observe.target("tpu:v9:2x4", programs.dense, *programs.sharded_operands())
    assert "peak" not in observe.text(report).splitlines()[1] and "peak not known" in observe.text(
        report
    )
    assert sum("not shown as fact" in n.text for n in report.notices) == 2


def test_costs_are_not_shown_where_loops_are_counted_once(made):
    made["hlo"] = HLO.replace(
        "%exp.1 = f32[2,8]{1,0} exponential(%neg.1)",
        "%exp.1 = f32[2,8]{1,0} while(%neg.1), condition=%a, body=%b",
    )
    found = observe.scheduled("tpu:v9:2x4", programs.dense, *programs.sharded_operands())
    assert not any(f.group == "cost" for f in found.figures)
    assert "counted once, however often it runs" in found.doubts[-1]


def test_text_wire_and_report(made):
    found = observe.scheduled("tpu:v9:2x4", programs.dense, *programs.sharded_operands())
    assert Record.from_json(json.loads(json.dumps(found.to_json()))) == found
    lines = observe.text(found).splitlines()
    assert (
        lines[0] == "dense on tpu:v9:2x4 (TPU v9, 8 devices), compiled ahead of time; nothing ran"
    )
    assert any("async-collective-start" in line for line in lines)
    with observe.record() as session:
        xlab.jit(programs.dense)(*programs.sharded_operands())
    session.targets = (found,)
    report = observe.report(session)
    assert report.programs[0].levels[-1].name == "tpu:v9:2x4" and report.targets == (found,)
    assert "Targets" in observe.text(report)


def test_a_layout_on_a_target(monkeypatch):
    monkeypatch.setattr(
        tpu_target,
        "topology_devices",
        lambda name: {
            "devices": [0, 1, 4, 5, 2, 3, 6, 7],
            "hosts": [0, 0, 0, 0, 1, 1, 1, 1],
            "kind": "TPU v9",
            "coordinates": [],
        },
    )
    found = observe.on_target("tpu:v9:2x4", programs.put(np.ones((8, 4)), "data").sharding, (8, 4))
    assert found.mesh.device_ids == (0, 1, 4, 5, 2, 3, 6, 7) and found.mesh.hosts[-1] == 1
    assert [b.device for b in found.blocks] == [
        0,
        1,
        4,
        5,
        2,
        3,
        6,
        7,
    ] and found.name == "tpu:v9:2x4"
    with pytest.raises(ValueError, match="has 8 devices and the mesh has 1"):
        observe.on_target("tpu:v9:2x4", xlab.numpy.ones(4).sharding, (4,))


@pytest.mark.skipif(
    tpu_target.library() is None, reason="needs the extra tpu: pip install 'xlab[tpu]'"
)
def test_a_sharded_program_for_a_tpu_slice():
    found = observe.target("tpu:v5e:2x4", programs.dense, *programs.sharded_operands())
    assert {t.kind for t in found.transfers} == {"all_reduce"} and all(
        t.origin == "partitioner" for t in found.transfers
    )
    assert any("split over model" in t.reason for t in found.transfers)
    assert "T(2,128)" in found.programs[0].levels[-1].text and found.memory[0].peak > 0
    assert "compiled for tpu:v5e:2x4" in found.notices[0].text
    beside = observe.scheduled("tpu:v5e:2x4", programs.dense, *programs.sharded_operands())
    assert (
        beside.kind == "TPU v5 lite"
        and beside.devices == 8
        and beside.figures
        and beside.level.links
    )
    assert (
        observe.on_target("tpu:v5e:2x4", programs.sharded_operands()[0].sharding, (8, 16)).mesh.size
        == 8
    )
    one = observe.target("tpu:v5e:2x4", lambda x: xlab.lax.sin(x), np.ones(8, np.float32))
    assert one.transfers == ()
    with pytest.raises(ValueError, match="has 16 devices and the program is for 8"):
        observe.target("tpu:v5e:4x4", programs.dense, *programs.sharded_operands())
    with pytest.raises(ValueError, match="no TPU topology"):
        observe.target("tpu:v99:4x4", programs.dense, *programs.sharded_operands())
