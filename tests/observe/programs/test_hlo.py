"""The parser on text in every form the compiler writes, and on what it writes today."""

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab.observe.programs import hlo

TEXT = """HloModule jit_f, is_scheduled=true, num_partitions=8

%fused (p: f32[2,4]) -> f32[2,4] {
  %p = f32[2,4]{1,0} parameter(0)
  %a = f32[2,4]{1,0} sine(%p), metadata={op_name="jit(f)/sin;e3"}
  ROOT %b = f32[2,4]{1,0} multiply(%a, %a), metadata={op_name="jit(f)/mul;e4" source_line=3}
}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%body (t: (s32[], f32[2,4])) -> (s32[], f32[2,4]) {
  %t = (s32[], /*index=1*/f32[2,4]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %v = f32[2,4]{1,0} get-tuple-element(%t), index=1
  %r = f32[2,4]{1,0} all-reduce(%v), channel_id=1, replica_groups=[4,2]<=[8], use_global_device_ids=true, to_apply=%add
  ROOT %o = (s32[], f32[2,4]{1,0}) tuple(%i, %r)
}

%cond (t: (s32[], f32[2,4])) -> pred[] {
  %t = (s32[], f32[2,4]{1,0}) parameter(0)
  ROOT %c = pred[] constant(true)
}

ENTRY %main (p: f32[2,4]) -> f32[2,4] {
  %p = f32[2,4]{1,0} parameter(0), metadata={op_name="x, \\"quoted\\" (="}
  %z = s32[] constant(0)
  %f = f32[2,4]{1,0} fusion(%p), kind=kLoop, calls=%fused, metadata={op_name="jit(f)/mul;e4"}
  %t = (s32[], f32[2,4]{1,0}) tuple(%z, %f)
  %w = (s32[], f32[2,4]{1,0}) while(%t), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %v = f32[2,4]{1,0} get-tuple-element(%w), index=1
  ROOT %q = f32[2,4]{1,0} collective-permute(%v), channel_id=2, source_target_pairs={{0,1},{1,0}}
}
"""


def test_instructions_fusions_and_loops():
    module = hlo.parse(TEXT)
    assert module.name == "jit_f" and module.partitions == 8
    by_name = module.entry.by_name()
    assert module.equations_of(by_name["f"]) == (4, 3)
    assert by_name["t"].shape == "(s32[], f32[2,4]{1,0})" and by_name["t"].bytes == 36
    assert by_name["w"].trip_count == 5 and by_name["q"].root
    reduce, permute = module.collectives()
    assert (reduce.kind, reduce.reduction, reduce.times, reduce.bytes_in) == (
        "all_reduce",
        "add",
        5,
        32,
    )
    assert reduce.groups == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert (permute.kind, permute.pairs, permute.times) == (
        "collective_permute",
        ((0, 1), (1, 0)),
        1,
    )
    numbers = dict(hlo.links(module))
    line = next(n for n, text in enumerate(TEXT.split("\n"), 1) if " fusion(" in text)
    assert numbers[line] == (4, 3)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{}", ((0, 1, 2, 3),)),
        ("[2,2]<=[4]", ((0, 1), (2, 3))),
        ("[2,2]<=[2,2]T(1,0)", ((0, 2), (1, 3))),
        ("mesh['a'=2,'b'=2] {'a'}", ((0, 2), (1, 3))),
        ("mesh['a'=2,'b'=2] {'a','b'}", ((0, 1, 2, 3),)),
        ("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}", ((0, 2), (1, 3))),
        ("mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'b'}", ((3, 2), (1, 0))),
        ("mesh['a'=4] {'a':(1)2}", ((0, 2), (1, 3))),
        ("mesh['a'=4] {'a':(2)2}", ((0, 1), (2, 3))),
    ],
)
def test_replica_groups_in_every_form(text, groups):
    assert hlo.groups_of(text, 4) == groups


def test_shapes():
    assert hlo.shape_bytes("pred[3]") == 3
    assert hlo.shape_bytes("s4[3]") == 2
    assert hlo.shape_bytes("(f32[<=4,2]{1,0}, token[])") == 32
    assert hlo.shape_bytes("c128[2]") == 32
    assert hlo.shape_bytes("f8e4m3fn[5]") == 5


def test_what_is_not_a_module():
    with pytest.raises(ValueError, match="no ENTRY"):
        hlo.parse("hello")


def test_the_compiler_of_today():
    compiled = xlab.jit(programs.dense).lower(*programs.sharded_operands()).compile()
    module = hlo.parse(compiled.as_text())
    found = module.collectives()
    assert [(c.kind, c.reduction, c.bytes_in) for c in found] == [
        ("all_reduce", "add", 32),
        ("all_reduce", "add", 16),
    ]
    assert found[0].groups == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert {frozenset(g) for g in found[1].groups} == {
        frozenset((0, 2, 4, 6)),
        frozenset((1, 3, 5, 7)),
    }
    readable = hlo.readable(compiled.as_text())
    assert "FileNames" not in readable and "ENTRY" in readable
    assert {i for _, ids in hlo.links(hlo.parse(readable)) for i in ids} == {0, 1, 2}


def test_memory_of_arguments_agrees_with_the_compiler():
    from xlab import observe

    m = observe.memory(programs.dense, np.ones((4, 4), np.float32), np.ones((4, 4), np.float32))
    assert sum(b.size for b in m.buffers if b.kind == "argument") == m.arguments == 128
    outputs = {b.name: b.size for b in m.buffers if b.kind == "output"}
    assert sum(outputs.values()) == m.outputs == 96
    assert outputs.pop("table of the results") == 16
    assert sum(outputs.values()) == 80
    assert m.outputs == 80 + 16  # and the table of two results
    assert all(b.start <= b.end for b in m.buffers) and m.peak_step >= 0
