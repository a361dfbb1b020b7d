"""A start and its wait are one transfer, with what is computed in between."""

from __future__ import annotations

import importlib.util
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import xlab
import xlab.numpy as jnp
from xlab import lax, observe
from xlab.errors import PendingValueWarning
from xlab.interpreters.communication_costs import Interconnect
from xlab.observe.figures.graph import to_graphviz, to_svg
from xlab.observe.records import Record, Transfer
from xlab.observe.records.overlap import Between, Overlap
from xlab.observe.records.text import text
from xlab.observe.sharding.overlap import MACHINES
from xlab.sharding import AxisType, P, make_mesh

X = np.arange(64, dtype=np.float32).reshape(8, 8)
W = np.ones((8, 8), np.float32)


def overlapping(x, w):
    total = lax.psum_start(x, "i")
    every = lax.all_gather_start(x, "i", tiled=True)
    y = jnp.sin(x) @ w
    z = total.done() + lax.ppermute(y, "i", [(0, 1)])
    return z * 2 + every.done().sum(0)


def on_mesh(f, ins=(P("i"), P()), out=P("i")):
    mesh = make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    return xlab.shard_map(f, mesh=mesh, in_specs=ins, out_specs=out)


@pytest.fixture(scope="module")
def found():
    return observe.transfers(on_mesh(overlapping), X, W)


def by_call(found):
    return {t.call: t for t in found}


def line(marker):
    code = overlapping.__code__
    with open(code.co_filename, encoding="utf-8") as file:
        rows = file.read().split("\n")
    return next(n for n, row in enumerate(rows, 1) if marker in row and n > code.co_firstlineno)


def test_a_start_and_its_wait_are_one_transfer(found):
    """C103: two nodes joined by a pending value, the equations between them, and the ideal of both at once."""
    assert sorted(t.call for t in found) == ["all_gather_start", "ppermute", "psum_start"]
    moved = by_call(found)
    assert moved["ppermute"].overlap is None
    o = moved["psum_start"].overlap
    assert o.type == "Todo{f32[1,8]}" and o.start == moved["psum_start"].equation < o.done
    assert (o.start_source.line, o.done_source.line) == (line("psum_start"), line("total.done()"))
    assert [b.primitive for b in o.between if b.primitive != "pvary"] == ["sin", "dot_general"]
    later = moved["all_gather_start"].overlap
    assert later.done_source.line == line("every.done()")
    assert {b.primitive for b in later.between} >= {"sin", "dot_general", "add", "mul"}
    assert not {b.primitive for b in later.between} & {"psum_done", "ppermute"}


def test_what_it_could_hide_and_what_it_did(found):
    """C102: on CPU measured overlap is zero and the span is logical; estimates say what they assume."""
    t = by_call(found)["psum_start"]
    o = t.overlap
    assert o.sent_us == t.predicted_us and (o.sent_clock, o.computed_clock) == (
        "predicted",
        "estimated",
    )
    flops, bandwidth = MACHINES["cpu"]
    work, moved = 2 * 8 * 8, (8 + 64 + 8) * 4
    product = next(b.us for b in o.between if b.primitive == "dot_general")
    assert product == pytest.approx(1e6 * max(work / flops, moved / bandwidth))
    assert o.computed_us == sum(b.us for b in o.between)
    assert o.ideal_us == max(o.sent_us, o.computed_us) < o.serial_us
    assert o.overlapped_us == 0 and o.logical and o.platform == "cpu"
    assert "round numbers" in o.machine


def test_text(found):
    t = by_call(found)["psum_start"]
    words = repr(t)
    assert f"test_overlap.py:{line('psum_start')} to" in words and "3 equations in between" in words
    assert "(sin, pvary, dot_general)" in words
    assert "at best max = 28.0 µs" in words and "On cpu nothing overlaps" in words
    assert "pending from" in text(found) if isinstance(found, Record) else True
    assert Record.from_json(t.to_json()) == t


def test_a_profile_is_the_clock_where_there_is_one():
    o = Overlap("Todo{f32[]}", 1, 5, between=(Between(2, "sin", 0.5), Between(3, "dot_general", 1.0)), sent_us=28.0, machine="estimated")  # fmt: skip
    made = o.measured(40.0, {3: 9.0})
    assert (made.sent_clock, made.computed_clock, made.machine) == ("profile", "profile", "")
    assert [b.us for b in made.between] == [0.0, 9.0] and made.ideal_us == 40.0
    assert o.measured(None, {}) == o
    assert "How much overlaps was not measured" in repr(o)
    assert "Measured: 3.00 µs at once" in repr(o.replace(overlapped_us=3.0))
    f = xlab.jit(on_mesh(overlapping))
    with observe.record() as session, observe.profiled(session):
        f(X, W).block_until_ready()
    moved = by_call(observe.report(session).transfers)
    assert moved["psum_start"].overlap.sent_clock == "profile"
    assert moved["psum_start"].overlap.sent_us == moved["psum_start"].measured_us


def test_the_derivative_has_pairs_of_its_own():
    whole = on_mesh(lambda x: jnp.sin(lax.all_gather_start(x, "i").done()).sum()[None], ins=P("i"))
    found = observe.transfers(xlab.grad(lambda x: whole(x).sum()), X)
    spans = {t.call: t.overlap for t in found if t.overlap is not None}
    assert set(spans) == {"all_gather_start", "psum_scatter_start"}
    assert all(o.done > o.start for o in spans.values())


def test_never_awaited():
    with pytest.warns(PendingValueWarning, match="nobody waits"):
        found = observe.transfers(on_mesh(lambda x: (lax.psum_start(x, "i"), x)[1], ins=P("i")), X)
    (t,) = found
    assert t.times == 0 and t.overlap.done == -1
    assert "never awaited: the compiler leaves it out" in repr(t)


def test_other_machines_and_no_machine():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast = by_call(observe.transfers(on_mesh(overlapping), X, W, link="ici", compile=False))
        own = Interconnect("own", 1.0, 1000.0)
        mine = by_call(observe.transfers(on_mesh(overlapping), X, W, link=own, compile=False))
    slow = by_call(observe.transfers(on_mesh(overlapping), X, W, compile=False))
    assert fast["psum_start"].overlap.computed_us < slow["psum_start"].overlap.computed_us
    assert mine["psum_start"].overlap.computed_us == slow["psum_start"].overlap.computed_us
    assert Transfer("all_reduce").overlap is None


def test_the_graph_of_a_program_has_dashed_edges_and_tinted_boxes():
    """C103: the edge from a start to its wait is labelled T, and the equations between are marked."""
    program = observe.program(on_mesh(overlapping), X, W)
    drawn = to_svg(program, depth=3)
    assert drawn.count('stroke-dasharray="5 4"') == drawn.count(">T</text>") == 2
    boxes = re.findall(
        r'fill="(#\w+)" stroke="#\w+"(?: stroke-dasharray="3 2")?/><text[^>]*>(\w+)', drawn
    )
    tinted = {label for fill, label in boxes if fill == "#e3f2ec"}
    assert {"sin", "dot_general", "mul"} <= tinted
    assert not {"psum_invariant_start", "psum_done", "ppermute", "reduce_sum"} & tinted
    if importlib.util.find_spec("graphviz"):
        assert (
            to_graphviz(program).source.count("style=dashed label=T")
            + to_graphviz(program).source.count("label=T style=dashed")
            == 2
        )


def test_the_stepper_goes_through_a_start_and_its_wait():
    """A step runs a collective to its end: its result is seen where it is started."""
    run = observe.Stepper(on_mesh(overlapping), X, W)
    steps = []
    while not run.finished:
        steps.append(repr(run.next()).split(" = ")[1].split("[")[0].split(" ")[0])
    starts = [name for name in steps if name.endswith(("_start", "_done"))]
    assert starts == ["psum_invariant_start", "all_gather_start", "psum_done", "all_gather_done"]
    assert_allclose(np.asarray(run.result()), np.asarray(on_mesh(overlapping)(X, W)), rtol=1e-5)
