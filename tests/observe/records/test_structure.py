"""The calls of a program as headings over its equations: the same tree as the overview's, and every equation in one place of it."""

from __future__ import annotations

import functools
import itertools

import pytest

import xlab
from tests.observe import structured_programs as programs
from xlab import observe
from xlab.notebook.views import collective_rows, peak_calls
from xlab.notebook.views.draw import html
from xlab.notebook.views.program import columns
from xlab.notebook.views.report import ReportView
from xlab.observe import records as r
from xlab.observe.figures.graph import graph
from xlab.observe.records import Equation, Program
from xlab.observe.records.buffers import alive_at
from xlab.observe.records.call_tree import Call
from xlab.observe.records.peak import RESIDUALS, at_peak, sizes_by_word
from xlab.observe.records.structure import Place, Structure, headings, structure_of
from xlab.observe.records.units import size_text


@functools.cache
def report(name):
    f, args = programs.PROGRAMS[name]()
    with observe.record() as session:
        xlab.jit(f)(*args)
    return observe.report(session)


every = pytest.mark.parametrize("name", programs.PROGRAMS)


def made(name):
    (program,) = report(name).programs
    s = structure_of(program)
    assert s is not None
    return program, s


@every
def test_every_equation_is_in_one_call_and_one_pass(name):
    program, s = made(name)
    counted: dict[Place, int] = {}

    def visit(p, around):
        for e in p.equations:
            place = s.at(e.id, around)
            counted[place] = counted.get(place, 0) + 1
            for inner in e.nested:
                visit(inner, place)

    visit(program, Place(0, False))
    assert sum(counted.values()) == sum(1 for _ in program.walk())
    own = [set(c.equations) for c in s.calls]
    assert all(not a & b for a, b in itertools.combinations(own, 2))
    assert all(set(c.backward) <= set(c.equations) for c in s.calls)
    for place, n in counted.items():
        call = s.calls[place.call]
        of = len(call.backward) if place.backward else len(call.equations) - len(call.backward)
        assert n >= of  # those of a reduction's own program stand with it


@every
def test_the_tree_of_the_jaxpr_is_that_of_the_overview(name):
    program, s = made(name)
    (cost,) = report(name).costs
    assert s.calls == [c for c, _ in cost.tree.walk()]
    shown = set()

    def visit(p, around):
        top = headings(p, s, around)
        for h in top.walk():
            for outer, inner in itertools.pairwise(h.calls):
                assert s.parents[inner] == outer
            shown.update((c, h.place.backward) for c in h.calls)
            for part in h.parts:
                assert h.start <= part.start < part.end <= h.end
                assert s.parents[part.calls[0]] == (h.calls[-1] if h.calls else around.call)
        for e in p.equations:
            for inner in e.nested:
                visit(inner, s.at(e.id, around))

    visit(program, Place(0, False))
    has = {
        (n, back)
        for n, c in enumerate(s.calls)
        for back in (False, True)
        if n and any(bool(set(x.equations) & set(x.backward) if back else set(x.equations) - set(x.backward)) for x, _ in c.walk())
    }  # fmt: skip
    assert shown == has


@every
def test_counts_of_headings_sum_to_the_whole(name):
    program, s = made(name)
    data = columns(program)
    eqs, heads = data["eqs"], data["heads"]
    own = dict.fromkeys(eqs["id"], ())
    for row, calls, backward, first, last in heads:
        for number in eqs["id"][first:last]:
            own[number] = (calls[-1], bool(backward))  # the innermost comes last
        assert data["rows"]["fold"][row] >= last - first
    for n, call in enumerate(s.calls[1:], 1):
        assert {e for e, at in own.items() if at and at[0] == n} >= set(call.equations)
        for e in call.equations:
            assert own[e] == (n, e in call.backward)
    assert {e for e, at in own.items() if not at} == set(s.calls[0].equations)


def test_forward_and_backward_are_told_apart_by_a_word():
    text = columns(report("transformer").programs[0])["rows"]["text"]
    shown = [t for t in text if t.endswith("ward")]
    assert shown[:2] == ["loss   forward", "tower ▸ block ×6   forward"]
    assert "tower ▸ block ×6   backward" in shown
    assert [t for t in text if t.startswith("update ▸")] == ["update ▸ a lambda ×38"]
    assert [t for t in text if "more like" in t] == [
        "5 more like these 81 equations",
        "5 more like these 91 equations",
    ]


def test_layers_that_are_scanned_stand_in_the_loop():
    rows = columns(report("scanned transformer").programs[0])["rows"]
    (at, back) = (i for i, t in enumerate(rows["text"]) if t.startswith("a lambda ×6 ▸ block   "))
    assert rows["text"][at].endswith("forward") and rows["text"][back].endswith("backward")
    assert rows["text"][at - 1].startswith("body") and "scan[" in rows["text"][at - 2]


def test_the_last_layer_may_be_shorter():
    """No gradient goes on from the first convolution: its equations stand behind the layers, under the same heading."""
    data = columns(report("convolutions").programs[0])
    (back,) = (h for h in data["heads"] if h[2] and data["rows"]["text"][h[0]].startswith("conv_block ×4"))  # fmt: skip
    assert [t for t in data["rows"]["text"] if "more like" in t] == [
        "3 more like these 4 equations",
        "2 more like these 5 equations",
    ]
    assert back[4] - back[3] == 3 * 5 + 3


def test_layers_begin_where_their_call_does():
    """Before the first layer stands what every layer ends with."""
    layer = ("dot", "add", "tanh", "mul")
    equations = tuple(Equation(i, op) for i, op in enumerate((layer[-1], *layer * 3)))
    block = Call("block", 3, 3, equations=tuple(range(1, 13)))
    calls = Call("f", equations=(0,), children=(block,))
    top = headings(Program("f", equations=equations, calls=calls), Structure(calls))
    assert [(h.title, h.start, h.end, [(r.start, r.times) for r in h.layers]) for h in top.walk()] == [
        ("", 0, 13, []), ("block ×3", 1, 13, [(1, 3)]),
    ]  # fmt: skip


def test_small_programs_have_no_headings():
    def g(x):
        return x + 1

    with observe.record() as session:
        xlab.jit(lambda x: g(x) * 2)(1.0)
    (program,) = observe.report(session).programs
    assert program.calls is not None and structure_of(program) is None
    assert "heads" not in columns(program) and "deep" not in columns(program)["eqs"]


def test_a_program_that_two_functions_call_stands_where_it_is_called():
    inner = Program("inner", equations=(Equation(5, "sin"),))
    calls = Call("f", children=(
        Call("first", equations=(0,), children=(Call("inner", equations=(5,)),)),
        Call("second", equations=(1,), children=(Call("inner", equations=(5,)),)),
    ))  # fmt: skip
    s = Structure(calls)
    assert s.at(5, Place(1, False)) == Place(2, False)
    assert s.at(5, Place(3, True)) == Place(4, True)
    assert s.at(99, Place(3, True)) == Place(3, True)
    assert headings(inner, s, Place(3, False)).title == "inner"


def test_collectives_stand_under_the_calls_of_the_program():
    """Each once, in the call and the pass of its equation; sums of headings are those of the whole."""
    for name in ("transformer", "scanned transformer"):
        found = report(name).transfers
        s = made(name)[1]
        lines = collective_rows.lines_of(found, {0: s})
        assert sorted(x.transfer for x in lines if x.heading is None) == list(range(len(found)))
        open_: list = []
        for x in lines:
            open_ = [h for h in open_ if h.depth < x.depth]
            if x.heading is not None:
                assert [*(c for h in open_ for c in h.heading.calls), *x.heading.calls] == list(
                    s.chain(x.heading.calls[-1])
                )
                open_.append(x)
                continue
            place = s.at(found[x.transfer].equation)
            assert (open_[-1].heading.calls[-1] if open_ else 0) == place.call
            assert not open_ or open_[-1].heading.word == s.words(place)
        tops = [x for x in lines if x.depth == 0]
        held = [n for x in tops for n in (x.heading.items if x.heading else (x.transfer,))]
        assert sorted(held) == list(range(len(found)))
        costs = [
            sum(r.transfers.transfer_cost(found[n]) for n in x.heading.items)
            for x in tops
            if x.heading
        ]
        assert len(costs) > 1 and costs == sorted(costs, reverse=True)
        drawn = html(
            collective_rows.heading_row(
                [found[n] for n in tops[-1].heading.items], tops[-1], s, False
            )
        )
        assert (
            size_text(sum(found[n].sent_in_run for n in tops[-1].heading.items)) + " sent" in drawn
        )
        assert f"data-call='0:{tops[-1].heading.calls[-1]}" in drawn


def test_few_collectives_have_no_headings():
    found = report("transformer").transfers[:3]
    assert not any(x.heading for x in collective_rows.lines_of(found, {0: made("transformer")[1]}))


@every
def test_memory_at_the_peak_by_calls_sums_to_the_whole(name):
    """Bytes of groups are those of what they hold, each buffer once; in the call and the pass of its equation."""
    (m,) = report(name).memory
    s = made(name)[1]
    alive = at_peak(m, s)
    whole = sum(size for _, size in alive_at(m.buffers, m.peak_step))
    assert sum(a.size for a in alive) == sum(sizes_by_word(alive).values()) == whole > 0
    items, groups = peak_calls.held_by_calls(alive, s)
    assert sum(g.total for g in groups) == sum(x.size for x in items) == whole
    assert [g.total for g in groups] == sorted((g.total for g in groups), reverse=True)
    held = [id(b) for g in groups for n in g.all_items for b in items[n].group.members]
    assert sorted(held) == sorted(id(a.buffer) for a in alive if a.size)
    for top in groups:
        if not top.calls:
            assert {items[n].place.call for n in top.items} == {0}
            continue
        for g, _ in top.walk():
            assert s.chain(g.calls[-1])[-len(g.calls) :] == g.calls
            for n in g.items:
                assert items[n].place.call == g.calls[-1] and items[n].word == g.word
                assert "backward" not in g.word or items[n].place.backward


def test_residuals_of_the_forward_pass_are_told_apart_from_temporaries():
    """What each block keeps is alive from its forward to its backward equations; and most of what is alive when the loss is known."""
    (m,) = report("transformer").memory
    s = made("transformer")[1]
    alive = at_peak(m, s)
    kept = [a for a in alive if a.word == RESIDUALS]
    assert kept and not any(a.place.backward for a in kept)
    began = min(b.start for b in m.buffers if b.kind == "temporary" and b.equation >= 0 and s.at(b.equation).backward)  # fmt: skip
    assert all(a.buffer.end > began - 1 for a in kept)
    page = html(peak_calls.peak_by_calls(m, s))
    assert "forward residuals" in page and "kept until the backward pass reads them" in page
    assert "<b>arguments</b>" in page and "block ×6</a>" in page
    assert sizes_by_word(alive)[RESIDUALS] > 0.3 * m.peak


def test_hostile_names_of_functions_stay_text():
    name = "<script>alert(1)</script>"
    calls = Call("f", children=(Call(name, 2, 2, equations=tuple(range(30)), backward=tuple(range(20, 30))),))  # fmt: skip
    program = Program("f", equations=tuple(Equation(i, "sin") for i in range(30)), calls=calls)
    moved = tuple(r.Transfer("all_gather", equation=n, bytes_in=n + 1) for n in range(5, 30, 5))
    buffers = tuple(r.Buffer(f"b{n}", 8, end=40, equation=n) for n in (1, 25))
    used = r.Memory("f", peak=16, peak_step=25, buffers=buffers)
    whole = r.Report("f", (program,), transfers=moved, memory=(used,))
    drawn = html(ReportView().tree(whole))
    assert drawn.count("&lt;script>alert(1)&lt;/script>") >= 5 and "<script" not in drawn


@every
def test_boxes_of_the_graph_are_nested_as_the_calls_are(name):
    program, s = made(name)
    found = []

    def visit(g, around):
        for box in g.boxes:
            inner = around
            label, _, side = box.label.partition(" · ")
            layers = box.type.endswith("each") and not side
            if box.kind == "scope" and not layers:
                inner = (*around, *(part.split(" ×")[0] for part in label.split(" ▸ ")))
                found.append((inner, side))
            if box.inside is not None:
                visit(box.inside, inner)

    visit(graph(program, 9), ())
    names = lambda n: tuple(s.calls[c].name for c in s.chain(n))
    calls = {names(n) for n in range(1, len(s.calls))}
    drawn = {path[:k] for path, _ in found for k in range(1, len(path) + 1)}
    assert drawn <= calls
    large = {
        names(n) for n, c in enumerate(s.calls) if n and len(c.equations) - len(c.backward) > 1
    }
    assert large <= drawn
    sides = {side for _, side in found}
    assert {"forward", "backward"} <= sides
    tops = [b for b in graph(program, 0).boxes if b.kind == "scope"]
    counts = [b.type for b in tops]
    loose = sum(b.kind == "equation" for b in graph(program, 0).boxes)
    assert sum(int(c.split()[0].replace(",", "")) for c in counts) + loose == len(program.equations)


def test_the_graph_of_many_layers_has_one_box_for_them():
    program, _ = made("transformer")
    page = program.to_svg(3)
    assert page.count("tower ▸ block ×6 · forward") == page.count("×6 · backward") == 1
    given = len(program.inputs) - len(program.unused)
    assert f"{given} inputs" in page and f"{len(program.outputs)} results" in page
    assert "91 equations each" in program.to_svg(1)
