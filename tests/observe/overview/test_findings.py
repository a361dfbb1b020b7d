"""What a program does that need not be so: found where it is, ranked, and told with its change once that was compiled."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import observe
from xlab.backend import compiling
from xlab.notebook.views.draw import html
from xlab.notebook.views.report import ReportView
from xlab.observe.overview.findings import proved
from xlab.observe.programs.stages import program_stages
from xlab.observe.records.text import text
from xlab.observe.timing.warm_runs import warm_us

X = np.ones((8, 16), np.float32)
BIG = np.ones((128, 256), np.float32)


def kinds(f, *args):
    return [f.kind for f in observe.findings(f, *args)]


def test_constants_that_are_captured():
    table = jnp.asarray(BIG)
    (found,) = observe.findings(lambda i: table[i], 3)
    assert (found.kind, found.nbytes) == ("captured constant", BIG.nbytes)
    assert "f32[128,256]" in found.text and "as an argument" in found.change
    assert "table[i]" in found.source.text
    small = jnp.asarray(X)
    assert kinds(lambda x: x * small, X) == []
    assert kinds(lambda t, i: t[i], BIG, 3) == []
    (untried,) = observe.findings(lambda i: table[i], 3, tries=0)
    assert (untried.text, untried.change, untried.provable) == (found.text, "", True)


def test_a_constant_on_several_devices_stays_where_it_lies_as_an_argument(put):
    table = put(BIG, "data")
    (found,) = observe.findings(lambda x: x + table, put(BIG, "data"))
    (held, peak) = found.outcome
    assert (held.before, held.after) == (BIG.nbytes // 4, 0) and peak.before == peak.after
    given = xlab.jit(lambda x, table: x + table).lower(put(BIG, "data"), table).compile()
    assert observe.memory(given).peak == peak.after


def test_arguments_that_nothing_reads_and_that_come_back():
    assert kinds(lambda x, rng: x * 2, X, X) == ["unused argument"]
    (found,) = observe.findings(lambda p, x: (p, x["a"] * 2), X, {"a": X})
    assert (found.kind, found.text) == ("returned argument", "`p` comes back as it was given")
    assert kinds(lambda x, y: x + y, X, X) == []


def test_arrays_of_one_argument_are_one_finding():
    state = {"m": X, "v": X, "n": BIG}
    (found,) = observe.findings(lambda x, s: x * 2, X, state)
    assert found.text == "`s`, 3 arrays, is given and not used"
    assert found.nbytes == 2 * X.nbytes + BIG.nbytes and found.change == "leave it out of the call"
    (some,) = observe.findings(lambda x, s: x * s["v"], X, state)
    assert some.text == "`s['m']`, `s['n']` are given and not used"
    assert some.change == "leave them out of the call"
    (back,) = observe.findings(lambda x, s: (x * 2, s), X, state)
    assert back.text == "`s`, 3 arrays, comes back as it was given"
    assert back.change == "do not return it: the caller has it"


def test_what_was_donated_is_neither_given_nor_returned():
    f = xlab.jit(lambda p, x: (p, x * 2), donate_argnums=0)
    (found,) = [x for x in observe.findings(f, BIG, X) if x.kind == "returned argument"]
    assert found.change == "neither give nor return it: the caller keeps it"
    after = xlab.jit(lambda x: x * 2).lower(X).compile().memory_analysis()
    assert found.outcome[0].after == after.output_size_in_bytes


def test_an_unused_argument_that_is_kept_is_less_for_the_compiled_program():
    f = lambda x, y: x * 2
    (kept,) = observe.findings(xlab.jit(f, keep_unused=True), X, BIG)
    (dropped,) = observe.findings(xlab.jit(f), X, BIG)
    assert "is the same" in dropped.proof
    assert [a.name for a in dropped.outcome] == ["given at a call"]
    given = X.nbytes + BIG.nbytes
    assert [(a.name, a.before, a.after) for a in kept.outcome[:2]] == [
        ("given at a call", given, X.nbytes), ("arguments per device", given, X.nbytes)
    ]  # fmt: skip


def test_what_leaves_the_compiled_program_as_it_is_is_lowered_and_not_compiled(monkeypatch):
    """Where it may not even be lowered, nothing is offered."""

    def f(x, spare):
        norm = jnp.exp(x @ x)
        del norm
        return x * 2

    given = np.ones((256, 256), np.float32), X
    stages = program_stages(xlab.jit(f), given)
    stages.executable
    monkeypatch.setattr(compiling, "compile_text", lambda *a, **k: pytest.fail("compiled"))
    found = observe.findings(stages, tries=1)
    assert sorted((x.kind, bool(x.proof)) for x in found) == [
        ("unused argument", True), ("unused result", True)
    ]  # fmt: skip
    assert all("is the same" in x.proof for x in found)
    assert not any(x.change for x in observe.findings(stages, tries=0))


def test_what_a_compile_only_confirms_waits_for_what_it_may_win():
    """A report compiles few changes: a donation is before a constant."""
    table = jnp.asarray(BIG)
    f = xlab.jit(lambda x, y: (x.at[0].set(table[0]), y))
    found = observe.findings(f, BIG, X, tries=1)
    proved_here = {x.kind: bool(x.proof) for x in found}
    assert proved_here["missed donation"] and not proved_here["captured constant"]
    assert not proved_here["returned argument"]


def test_what_is_the_case_at_many_equations_of_a_line_is_one_finding(put):
    """Layers that Python unrolls, forwards and backwards; amounts are of all, and so they are once a change of one is asked for."""

    def net(w, x):
        for _ in range(5):
            x = jnp.tanh(x @ w)
        return x.sum()

    w, x = put(np.ones((16, 16), np.float32), None, "model"), put(X, "data")
    stages = program_stages(xlab.jit(xlab.grad(net)), (w, x))
    found = observe.findings(stages, tries=0)
    said = [(f.kind, f.text, f.source.line if f.source else 0) for f in found]
    assert len(set(said)) == len(said) < found.surprises
    assert sum(f.collectives for f in found) == found.surprises
    most = max(found, key=lambda f: f.times)
    assert most.times >= 4 and most.collectives == most.times and most.us > 0
    assert f"{most.collectives} collectives" in most.amount
    again = proved(stages, most)
    assert (again.times, again.us, again.collectives) == (most.times, most.us, most.collectives)


def test_a_collective_that_another_sharding_removes_was_tried(put):
    x, w = put(X, "data", "model"), put(np.ones((16, 4), np.float32), None, "model")
    (found,) = observe.findings(xlab.jit(lambda x, w: x @ w), x, w)
    assert found.kind == "removable collective" and "it is gone" in found.proof
    assert "give `w` the sharding P('model', None)" in found.change
    assert found.us > 0 and found.nbytes > 0 and found.tab == "collectives"
    # What was not tried is told without a change.
    (untried,) = observe.findings(xlab.jit(lambda x, w: x @ w), x, w, tries=0)
    assert (untried.kind, untried.change, untried.collectives) == ("resharding", "", 1)
    assert (untried.nbytes, untried.us) == (found.nbytes, found.us)


def test_a_change_that_was_compiled_is_run_where_that_is_asked_for(put):
    x, w = put(X, "data", "model"), put(np.ones((16, 4), np.float32), None, "model")
    f = xlab.jit(lambda x, w: x @ w)
    (found,) = observe.findings(f, x, w, measure=True)
    before, after = found.measured_us
    assert before > 0 and after > 0 and found.measured.startswith("measured a run: ")
    assert f"; {found.measured}]" in text(found)
    (quiet,) = observe.findings(f, x, w)
    assert quiet.measured_us == () and quiet.proof == found.proof and "measured" not in text(quiet)


def test_the_text_of_findings_has_what_the_findings_themselves_show(put):
    nothing = observe.findings(lambda x: x + 1, X)
    assert text(nothing) == repr(nothing) == "no findings"

    def rows(x):
        return xlab.lax.psum(xlab.lax.all_gather(x, "data").sum(), "data")

    mesh = put(BIG, "data").sharding.mesh
    f = xlab.jit(xlab.shard_map(rows, mesh=mesh, in_specs=xlab.P("data"), out_specs=xlab.P()))
    found = observe.findings(f, put(BIG, "data"))
    assert found.collectives and repr(found).split("\n")[-1] == text(found).split("\n")[-1]
    one = observe.findings(lambda x, scale: x * 2, X, X)
    assert text(one) == repr(one)


def test_what_goes_through_the_host_once_is_said_to_go_once():
    def printed(x):
        xlab.debug.print("{}", x.sum())
        return xlab.lax.fori_loop(0, 3, twice, x)

    def twice(i, x):
        xlab.debug.print("{}", i)
        return x * 2

    said = [f.text for f in observe.findings(printed, X)]
    assert "calls Python once a step" in said[1] and "calls Python 3 times a step" in said[0]


def test_what_a_run_takes_is_not_measured_where_it_would_do_something_or_might_not_end():
    def timed(f, *args):
        return warm_us(program_stages(xlab.jit(f), args))

    ends = lambda x: xlab.lax.fori_loop(0, 3, lambda i, x: x * 2, x)
    doubled = lambda x: xlab.lax.while_loop(lambda x: x.sum() < 9, lambda x: x * 2, x)
    types = xlab.ShapeDtypeStruct(X.shape, X.dtype)
    assert timed(ends, types) > 0
    assert timed(doubled, types) is None

    def printed(x):
        xlab.debug.print("{}", x)
        return x

    assert timed(printed, X) is None
    stages = program_stages(xlab.jit(doubled, donate_argnums=0), (X,))
    mine = X.copy()
    assert warm_us(stages, (mine,)) > 0 and (mine == X).all(), "donated is a copy"


def test_an_array_that_every_device_rebuilds_is_found(put):
    x, y = put(np.ones((16, 32), np.float32), "data"), put(np.ones((16, 32), np.float32), "model")
    found = observe.findings(xlab.jit(lambda x, y: x + y), x, y)
    (one,) = found  # one change takes both of its collectives away
    assert one.kind == "full rematerialization" and one.nbytes == 1024 + 1536
    assert one.change == "give `y` the sharding P('data', None) where it is made" and one.proof


def test_a_program_without_fault_has_none():
    def step(w, x):
        return w - 0.1 * xlab.grad(lambda w: jnp.sum((x @ w) ** 2))(w)

    assert observe.findings(step, np.ones((16, 4), np.float32), X) == ()


def test_a_program_that_must_stay_without_findings():
    observe.assert_no_findings(lambda x: x * 2, X)
    with pytest.raises(AssertionError, match="unused argument: `y` is given and not used"):
        observe.assert_no_findings(lambda x, y: x * 2, X, X)
    observe.assert_no_findings(lambda x, y: x * 2, X, X, allow=["unused argument"])
    with pytest.raises(AssertionError, match=r"given at a call 1\.02 KB → 512 B"):
        observe.assert_no_findings(lambda x, y: x * 2, X, X)
    with pytest.raises(ValueError, match="there are .*widened type"):
        observe.assert_no_findings(lambda x: x, X, allow=["nonsense"])


def block(w, x):
    return jnp.tanh(x @ w[0]) @ w[1]


def blocks(ws, x):
    for w in ws:
        x = block(w, x)
    return x


def test_one_weight_that_lies_wrong_is_one_surprise(put):
    """In a step that is divided over both axes, whose other collectives have their names."""

    def step(ws, x):
        slopes = xlab.grad(lambda ws: (blocks(ws, x) ** 2).mean())(ws)
        return xlab.tree.map(lambda w, g: w - 0.1 * g, ws, slopes)

    w = np.ones((16, 16), np.float32)
    right = put(w, None, "model"), put(w, "model", None)
    wrong = right[0], put(w, None, "model")
    with observe.record() as session:
        xlab.jit(step)([right, wrong], put(X, "data"))
    report = observe.report(session)
    found = observe.findings(xlab.jit(step), [right, wrong], put(X, "data"), tries=0)
    assert (found.collectives, found.surprises) == (len(report.transfers), 1)
    assert {p.name for p in found.patterns} == {
        "data-parallel gradient sum", "row-parallel product", "column-parallel product, backward"
    }  # fmt: skip
    said = f"1 of {found.collectives} collectives is a surprise"
    assert said in text(report, times=True)
    assert said in re.sub("<[^>]+>", "", html(ReportView().tree(report)))


def test_findings_are_ranked_by_what_they_cost_and_name_their_layer(put):
    def step(x, w, spare, more):
        return block((w, np.ones((4, 4), np.float32)), x) * 2

    x, w = put(X, "data", "model"), put(np.ones((16, 4), np.float32), None, "model")
    found = observe.findings(step, x, w, X, BIG)
    assert [(f.kind, f.layer) for f in found] == [
        ("removable collective", "block"), ("unused argument", ""), ("unused argument", "")
    ]  # fmt: skip
    assert found[0].us > found[1].us == found[2].us == 0
    assert [f.nbytes for f in found[1:]] == [BIG.nbytes, X.nbytes]
    assert re.search(r"test_findings\.py:\d+ in block\n  change: give `w`", text(found[0]))


def test_a_report_says_how_many_collectives_surprise(put):
    x, w = put(X, None, "model"), put(np.ones((16, 4), np.float32), "model", None)
    with observe.record() as session:
        xlab.jit(lambda x, w: x @ w)(x, w)
    report = observe.report(session)
    assert [t.pattern for t in report.transfers] == ["row-parallel product"]
    assert "no surprise: 1 collective" in text(report, times=True)
