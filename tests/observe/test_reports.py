"""Reports: everything of a block in one record that survives JSON, with measured times where asked for."""

import json

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab import numpy as jnp
from xlab.observe.records import Record
from xlab.observe.records.report import Notice, report_header
from xlab.observe.reports import _once
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P


def test_of_a_sharded_program():
    f = xlab.jit(programs.dense, name="dense_report")
    with observe.record() as session:
        f(*programs.sharded_operands())
    report = observe.report(session)
    assert (
        report.title == "dense_report"
        and report.mesh.text == "data=4 model=2"
        and not report.notices
    )
    assert [(x.name, x.role, x.type.text) for x in report.layouts] == [
        ("x", "argument", "f32[8@data,16@model]"),
        ("w", "argument", "f32[16@model,4]"),
        ("hidden", "intermediate", "f32[8@data,4]"),
        ("total", "output", "f32[4]"),
        ("active", "output", "f32[8@data,4]"),
    ] or [x.role for x in report.layouts] == [
        "argument",
        "argument",
        "intermediate",
        "output",
        "output",
    ]
    assert [t.axes for t in report.transfers] == [("model",), ("data",)]
    assert report.memory[0].arguments == 192 and report.memory[0].function == "dense_report"
    assert [e.function for e in report.ledger.entries] == ["dense_report"]
    assert Record.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert "2 added by the partitioner" in observe.text(report)


def test_several_programs_keep_their_index():
    with observe.record("cell 3") as session:
        xlab.jit(lambda x: lax.sin(x), name="first")(np.ones(3, np.float32))
        xlab.jit(programs.dense, name="second")(*programs.sharded_operands())
    report = observe.report(session)
    assert report.title == "cell 3" and [p.name for p in report.programs] == ["first", "second"]
    assert {t.program for t in report.transfers} == {1} == {x.program for x in report.layouts}
    assert [m.program for m in report.memory] == [0, 1]


def test_donations_used_and_refused():
    f = xlab.jit(lambda x: lax.add(x, x), donate_argnums=0, name="gives")
    with observe.record() as session:
        f(xlab.device_put(np.ones(4, np.float32)))
    assert observe.report(session).memory[0].donated == ("x",)
    with pytest.warns(UserWarning, match="not usable"), observe.record() as session:
        xlab.jit(lambda x: lax.reduce_sum(x, (0,)), donate_argnums=0, name="keeps")(
            xlab.device_put(np.ones(4, np.float32))
        )
    report = observe.report(session)
    assert report.memory[0].refused == (("x", "no result has its type, f32[4]"),)
    assert any("donated argument x was not used" in n.text for n in report.notices)


def test_looking_does_not_change_the_program():
    def f(x, w):
        return programs.dense(x, w)

    args = programs.sharded_operands()
    plain = xlab.jit(f).lower(*args).compile().as_text()
    with observe.record() as session:
        xlab.jit(f)(*args)
    observe.report(session)
    (stages,) = session.subjects
    assert stages.hlo.text == plain


def test_measured_times_reach_equations_and_collectives():
    f = xlab.jit(programs.dense, name="measured")
    args = programs.sharded_operands()
    times = observe.profile(f, *args, repeat=3)
    assert set(times.equations) == {0, 1, 2} and all(us > 0 for us in times.equations.values())
    with observe.record() as session:
        f(*args)
        session.profile = observe.profile(f, *args, repeat=2)
    report = observe.report(session)
    assert all(t.measured_us > 0 and t.wait_us is not None for t in report.transfers)
    assert {i for i, _ in report.programs[0].heat} == {0, 1, 2}
    optimized = next(x for x in report.programs[0].levels if x.name == "optimized")
    lines = optimized.text.split("\n")
    assert any("all-reduce" in lines[n - 1] for n, _ in optimized.heat)


def test_a_sum_of_parts_in_a_loop_is_no_warning():
    def f(x, w):
        def turn(c, _):
            return lax.tanh(programs.matmul(c, w)), None

        return lax.scan(turn, x, None, length=4)[0]

    with observe.record() as session:
        xlab.jit(f, name="looped")(
            programs.put(np.ones((8, 8)), "data", None),
            programs.put(np.ones((8, 8)), "model", None),
        )
    report = observe.report(session)
    assert [t.kind for t in report.transfers] == ["all_reduce"] and not report.transfers[0].reshards
    assert not [
        n for n in report.notices if n.tab == "collectives"
    ]  # a sum of parts is part of the work


def test_shardings_that_disagree_are_noticed():
    with observe.record() as session:
        xlab.jit(programs.matmul, name="apart")(
            programs.put(np.ones((8, 8)), "data", "model"),
            programs.put(np.ones((8, 8)), None, "model"),
        )
    report = observe.report(session)
    assert any(t.reshards for t in report.transfers)
    (notice,) = [n for n in report.notices if n.tab == "collectives"]
    assert notice.text.startswith("the partitioner adds an all_gather") and notice.source.line
    assert any("(!)" in n for n in report_header(report)[1])


def test_d44_the_equation_where_a_check_stopped_is_named_and_linked():
    def inner(x):
        return lax.log(x)

    def f(x):
        y = lax.log(x + 3)
        return xlab.jit(inner)(y - 9) * 2

    with (
        pytest.raises(FloatingPointError),
        xlab.debug_nans(True),
        observe.record() as session,
    ):
        xlab.jit(f)(np.zeros(2, np.float32))
    made = observe.report(session)
    assert made.title == "f" and [p.name for p in made.programs] == ["f"]
    (notice,) = [n for n in made.notices if n.severity == "error"]
    (found,) = [e for e, _ in made.programs[notice.program].walk() if e.id == notice.equation]
    assert found.primitive == "log" and found.source.function.endswith("inner")
    assert notice.text == f"equation {found.id} made the value: `log` in f"
    with pytest.raises(ValueError), observe.record() as session:
        xlab.jit(f)(np.zeros(2, np.float32))
        raise ValueError("somebody's own")
    assert not [n for n in observe.report(session).notices if n.severity == "error"]


def test_layers_that_are_alike_are_warned_of_once():
    mesh = xlab.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    rows, columns = (
        xlab.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, s))
        for s in (P("x"), P(None, "x"))
    )

    def layers(v, w):
        for _ in range(3):
            v = jnp.tanh(v + w)
        return v

    with observe.record() as session:
        xlab.jit(layers)(rows, columns)
    texts = [n.text for n in observe.report(session).notices]
    assert len(set(texts)) == len(texts)
    found = _once([Notice("warning", "a"), Notice("warning", "b"), Notice("warning", "a")])
    assert [n.text for n in found] == ["a (2 times)", "b"]


@pytest.mark.parametrize(
    ("maker", "given"),
    [("report", 1), ("phases", 1), ("timings", 1), ("first_difference", 2), ("side_by_side", 2)],
)
def test_what_is_no_recording_is_refused_in_words(maker, given):
    with pytest.raises(TypeError, match=f"{maker} takes .*; given 3 of type int"):
        getattr(observe, maker)(*[3] * given)


def test_a_drawing_says_what_it_is_of():
    pytest.importorskip("matplotlib")
    made = observe.drawing(observe.layout(xlab.numpy.ones(4)))
    assert repr(made).startswith("figure of the ArrayLayout, image/svg")
