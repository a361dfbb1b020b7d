"""Text forms are what terminals, notebooks and most tests read; these are the goldens."""

import pytest

from tests.notebook.views import sample
from xlab.observe import records as r
from xlab.observe.records import base
from xlab.observe.records.diff import Diff, Figure, Pair
from xlab.observe.records.drawing import Drawing
from xlab.observe.records.kernel import KernelMoment
from xlab.observe.records.ladder import Ladder, Rung
from xlab.observe.records.nan_path import NanPath, Series, SeriesPoint
from xlab.observe.records.text import text

REPORT = sample.report()


def test_sharded_layout():
    made = sample.layout("x", (8, 4), (("data",), ("model",)), "")
    assert (
        text(made)
        == """\
x: f32[8@data,4@model] over data=4 model=2: shard f32[2,2], 1 copy, 16 B per device, 128 B in all
  ┌───┬───┐
  │ 0 │ 1 │
  ├───┼───┤
  │ 2 │ 3 │
  ├───┼───┤
  │ 4 │ 5 │
  ├───┼───┤
  │ 6 │ 7 │
  └───┴───┘"""
    )


def test_replicated_layout():
    assert (
        text(sample.layout("w", (4,), ((),), "")).splitlines()[1] == "  whole on each of 8 devices"
    )


def test_three_dimensional_layout_has_one_facet_per_leading_index():
    drawn = text(sample.layout("s", (4, 8, 16), (("data",), ("model",), ()), ""))
    assert [line for line in drawn.splitlines() if line.startswith("  [")] == [
        "  [0:1, …]",
        "  [1:2, …]",
        "  [2:3, …]",
        "  [3:4, …]",
    ]


def test_transfers_table():
    assert (
        text(REPORT.transfers)
        == """\
  op                   over    in → out per device   × times   predicted   origin            line
  all_gather           model     8.19 KB → 16.4 KB        12     18.0 µs   partitioner (!)   <cell 3>:3
  all_reduce add       data      24.6 KB → 24.6 KB         1     31.0 µs   you (psum)        <cell 3>:18
  collective_permute   data        4.1 KB → 4.1 KB         ?           ?   partitioner (!)   <cell 3>:3
  all_gather: `w` arrives as P(None,'model'); dot_general on line 3 needs it whole along its contracting dimension. Remove it: give w P('model', None) (then one all_reduce of 40 KB), or keep x sharded over model.
  collective_permute: The halo of an uneven slice moves to the next shard.
  all_reduce add: pending from <cell 3>:18 to <cell 3>:18, 2 equations in between (dot_general, sin); sent 44.0 µs (profile), computed 12.0 µs (estimated): at best max = 44.0 µs, one after the other 56.0 µs. On cpu nothing overlaps: it runs where it is started, so the span is that of the program.
  in one run: each device sends 41 KB over data, 98.3 KB over model; 247 µs predicted (loops of unknown length counted once)"""
    )


def test_mesh():
    assert text(sample.MESH) == "mesh data=4 model=2   8 cpu devices\n  0 1\n  2 3\n  4 5\n  6 7"


def test_program_lists_nested_equations_under_their_label():
    inner = r.Program(
        "body",
        (r.Variable("a", r.Type("f32")),),
        ("b",),
        (),
        (r.Equation(1, "sin", ("a",), (r.Variable("b", r.Type("f32")),)),),
    )
    outer = r.Program(
        "f",
        (r.Variable("x", r.Type("f32"), "x"),),
        ("y",),
        (),
        (
            r.Equation(
                0,
                "scan",
                ("x",),
                (r.Variable("y", r.Type("f32")),),
                "length=3",
                r.Source("cell", 2),
                nested=(inner,),
                nested_labels=("body",),
            ),
        ),
    )
    assert (
        text(outer)
        == """\
f   2 equations (scan 1, sin 1)
  in  x:f32[]
  0  y:f32[] = scan[length=3] x  cell:2
       body: a:f32[]
  1      b:f32[] = sin a
         → b
  out  y"""
    )


def test_a_cut_says_what_was_cut():
    p = r.Program("f", equations=tuple(r.Equation(i, "sin") for i in range(300)))
    assert "… 100 more lines: text(record, limit=None) shows all" in text(p)
    assert "more" not in text(p, limit=None)


def test_report_is_deterministic_without_times():
    slower = REPORT.replace(
        phases=tuple(p.replace(duration_us=p.duration_us * 3) for p in REPORT.phases),
        timings=(r.Timing("train_step", 1.0, 2.0, 3.0, 4),),
    )
    assert text(slower) == text(REPORT)
    assert text(slower, times=True) != text(REPORT, times=True)


def test_report_header():
    assert text(REPORT).splitlines()[:2] == [
        "train_step   4×2 mesh data·model   70 equations",
        "3 collectives · ≥ 139 KB sent per device · 2 added by the partitioner (!)   peak 3.4 MB per device",
    ]
    assert "cold 1.42 s   warm 3.10 ms ± 80.0 µs (20 runs)" in text(REPORT, times=True)


def test_removed_collectives_are_told_and_not_counted():
    gone = r.Transfer("all_reduce", "add", ("a",), bytes_in=4, bytes_out=4, times=0, predicted_us=0.0, call="psum", reason="not there")  # fmt: skip
    kept = r.Transfer("all_gather", "", ("a",), groups=((0, 1),), bytes_in=4, bytes_out=8, times=1)
    one, both = (r.Report("f", transfers=found, counted=True) for found in ((gone,), (gone, kept)))
    assert text(one).splitlines()[1] == "0 collectives · 1 removed by the compiler"
    assert text(both).splitlines()[1] == "1 collective · 4 B sent per device · 1 removed by the compiler"  # fmt: skip
    row = next(line for line in text(both).splitlines() if "all_reduce add " in line)
    assert "removed" in row
    assert text(gone).startswith("all_reduce add over a: 4 B → 4 B per device, removed, you (psum)")


def test_what_ended_before_it_was_compiled_has_no_number_of_collectives():
    ended = r.Report(
        "f",
        (r.Program("f", equations=(r.Equation(0, "sin"),)),),
        error=r.Failure("ValueError", "no"),
    )
    assert text(ended).splitlines()[:2] == ["f   1 equation", ""]
    assert "collective" not in text(ended.replace(error=None)), "nobody looked"
    assert text(ended.replace(error=None, counted=True)).splitlines()[1] == "0 collectives"


def test_step_and_value():
    v = r.Value("e", "f32[4]", -0.98, 0.99, 0.1, 2, 0, (0.5, 1.0))
    assert text(v) == "e:f32[4]  -0.980 … 0.990  mean 0.100  2 NaN  [0.5, 1, …]"
    step = r.Step(3, 7, (), (v,), ("jit f", "scan 3/12"), ("d",), text="e:f32[4] = tanh d")
    assert text(step).splitlines()[0] == "step 3  e:f32[4] = tanh d  in jit f ▸ scan 3/12"
    assert text(step).splitlines()[-1] == "  last use of d"


def _all_records(value):
    if isinstance(value, r.Record):
        yield value
        for name, _ in base._defaults[type(value).__name__]:
            yield from _all_records(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _all_records(item)


def test_every_kind_of_record_has_a_text_form():
    failing = r.Failure("TypeError", "no", sample.source(3))
    compared = Diff(
        "f", "g", (Figure("memory", "peak", "1 B", "2 B"),), (Pair("changed", "a", "b"),)
    )
    laddered = Ladder("ladder of f", (Rung("f", REPORT.programs[0]),))
    seen = {
        type(x): x
        for x in _all_records(
            (
                REPORT.replace(error=failing, targets=(sample.scheduled(),)),
                compared,
                laddered,
                sample.resharding(REPORT),
                sample.weighed(REPORT),
                sample.ranking(REPORT),
                Drawing("timings"),
                sample.live(REPORT),
                sample.settings(REPORT),
                sample.caches(REPORT),
                sample.effects(REPORT),
                sample.kernel(REPORT),
                sample.replay(REPORT),
                sample.transposed(REPORT),
                sample.step_cost(REPORT),
                sample.timeline(REPORT),
                sample.processes(),
                NanPath("f", REPORT.trace.steps[:1], ("made 1 NaN",), 0, "`x`", "`y`"),
                Series("x", (SeriesPoint(0, ("scan 1/3",), REPORT.trace.inputs[0]),), 1),
                sample.sharding_tree(REPORT),
                *sample.findings(),
                *sample.patterns(),
                KernelMoment(3),
            )
        )
    }
    assert {c.__name__ for c in seen} == set(base._classes)
    for made in seen.values():
        assert text(made)
        assert text(made, times=True)
        assert repr(made) == text(made)


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match=r"a record of xlab\.observe"):
        text(3)
