"""The first tab of a report: parts of the step, the tree of calls, lines, memory, findings; measured or predicted, and links that lead somewhere."""

import re

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.notebook.views import sample
from tests.notebook.views.test_browser import visit
from xlab import observe
from xlab.notebook.export import write_html
from xlab.notebook.views.draw import html
from xlab.notebook.views.overview import bar_node, overview_panel, parts_of, tree_node
from xlab.notebook.views.report import ReportView
from xlab.observe.records.call_tree import Call
from xlab.observe.records.text import text
from xlab.observe.records.units import time_text

PLAIN = sample.report()
COST = sample.step_cost(PLAIN)
REPORT = PLAIN.replace(costs=(COST,), findings=sample.findings(), patterns=sample.patterns())


def words(node):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html(node)))


def test_it_is_the_first_tab_and_there_only_where_costs_are_known():
    tabs = re.findall("data-tab='(\\w+)'", html(ReportView().tree(REPORT)))
    assert tabs[:2] == ["overview", "program"]
    assert overview_panel(PLAIN) is None
    assert "data-tab='overview'" not in html(ReportView().tree(PLAIN))


def test_it_says_what_is_predicted_and_by_what_it_is_bound():
    said = words(overview_panel(REPORT))
    assert "2.00 ms predicted on 8 devices of cpu, bound by arithmetic 3.10 ms measured" in said
    assert (
        "the bar is measured; the prediction counts with: round numbers of a small CPU, not measured; loops of unknown length count once"
        in said
    )
    assert "memory 3.4 MB of 2 GB per device" in said


def test_parts_are_predicted_until_they_are_measured():
    program = PLAIN.programs[0]
    parts, origin = parts_of(COST, program.replace(heat=()), (), 3100.0)
    assert origin == "predicted"
    assert parts == {"compute": 1400.0, "communication": 500.0, "waiting": 0.0, "dispatch": 100.0}
    sent = PLAIN.transfers[0].replace(
        instruction="all-reduce.1", equation=7, measured_us=30.0, wait_us=10.0, runs=2
    )
    parts, origin = parts_of(COST, program.replace(heat=((1, 5.0), (7, 60.0))), (sent,), 100.0)
    assert origin == "measured"
    assert parts == {"compute": 5.0, "communication": 40.0, "waiting": 20.0, "dispatch": 35.0}
    cold = tuple(p.replace(heat=()) for p in PLAIN.programs)
    said = words(overview_panel(REPORT.replace(programs=cold)))
    assert "predicted, counting with: round numbers" in said and "is measured" not in said


def test_what_was_measured_here_is_not_the_bar_of_another_machine():
    there = COST.replace(machine=observe.machine("tpu:v5e"))
    line = sample.timeline(PLAIN)
    program = PLAIN.programs[0].replace(heat=((1, 5.0),))
    parts, origin = parts_of(there, program, PLAIN.transfers, 3100.0, line)
    assert origin == "predicted" and sum(parts.values()) == COST.us
    said = words(overview_panel(REPORT.replace(costs=(there,), timelines=(line,))))
    assert "of tpu:v5e" in said and "measured on this machine" in said
    assert f"predicted, counting with: {there.machine.note}" in said


def test_measured_parts_add_up_to_the_step_that_was_measured():
    """Times of every device's slowest collectives would add up to more than the step has."""
    line = sample.timeline(PLAIN)
    parts, origin = parts_of(COST, PLAIN.programs[0], PLAIN.transfers, 3100.0, line)
    assert origin == "measured"
    assert abs(sum(parts.values()) - line.duration_us) < 0.01 * line.duration_us
    said = words(overview_panel(REPORT.replace(timelines=(line,))))
    assert f"a step of {time_text(line.duration_us)} under the profiler" in said


def test_parts_of_the_bar_lead_to_their_tabs():
    bar = html(bar_node({"compute": 6.0, "communication": 3.0, "dispatch": 1.0}, "predicted"))
    assert re.findall("data-go='(\\w+)'", bar) == ["program", "collectives", "timings"]
    assert "compute 60 %" in bar and "predicted" in bar


def test_calls_stand_under_their_callers_with_how_often():
    tree = html(tree_node(COST))
    assert [int(n) for n in re.findall(r"padding-left:(\d+)px", tree)] == [8, 20, 32]
    said = words(tree_node(COST))
    assert "▸ block ×6" in said and "79 %" in said and "strong: forward, faint: backward" in said
    assert "data-key='0:2'" in tree
    many = Call("f", us=40.0, children=tuple(Call(f"g{i}", us=2.0) for i in range(20)))
    assert "13 smaller calls not listed" in words(tree_node(COST.replace(tree=many)))


def test_findings_say_what_changed_and_patterns_are_none():
    said = words(overview_panel(REPORT))
    assert "2 findings" in said and "31.0 µs, 786 KB line 3 in attention" in said
    assert "Change: give w P('model', None) 25 → 24 collectives" in said
    assert "✓ data-parallel gradient sum over data: 12 collectives, 1.2 MB sent" in said
    assert "finding" not in words(overview_panel(REPORT.replace(findings=())))


def test_how_many_collectives_surprise_is_said_in_page_and_text():
    named = tuple(t.replace(pattern="row-parallel product") for t in REPORT.transfers)
    report = REPORT.replace(transfers=named, counted=True)
    assert f"no surprise: {len(report.transfers)} collective" in words(overview_panel(report))
    of = f"of {len(report.transfers)} collectives"
    for n, said in ((1, f"1 {of} is a surprise"), (2, f"2 {of} are surprises")):
        strange = [t.replace(pattern="", origin="partitioner") for t in report.transfers[:n]]
        some = report.replace(transfers=(*strange, *report.transfers[n:]))
        assert said in words(overview_panel(some)) and said in text(some, times=True)
        alone = some.replace(findings=(), patterns=())
        assert said in words(overview_panel(alone)), "also where nothing else is found"


@pytest.mark.browser
def test_it_has_one_screen_and_its_lines_lead_to_what_they_name(browser, tmp_path):
    calls = tuple(Call(f"g{i}", us=90.0, first=2) for i in range(20))
    tree = COST.tree.replace(children=(*COST.tree.children, *calls))
    full = COST.replace(tree=tree, lines=COST.lines * 5)
    (first, other), (pattern,) = sample.findings(), sample.patterns()
    sent = REPORT.transfers[0].equation
    whole = REPORT.replace(
        costs=(full, COST),
        findings=(first.replace(equation=sent), other) * 4,
        patterns=(pattern.replace(equations=(sent,)),) * 2,
    )
    page = visit(browser, write_html(whole, tmp_path / "r.html"))
    page.wait_for_selector(".xl-live .xl-overview")
    last = page.locator(".xl-overview > :last-child").bounding_box()
    assert last["y"] + last["height"] <= page.locator(".xl-status").bounding_box()["y"]
    links = {
        ".xl-tree a:has-text('attention')": "Program",
        ".xl-lines a >> nth=0": "Program",
        ".xl-findings li a >> nth=0": "Collectives",
        ".xl-findings p a >> nth=0": "Collectives",
    }
    for link, tab in links.items():
        page.locator("[role=tab]:has-text('Overview')").click()
        page.locator(f".xl-overview {link}").first.click()
        assert page.locator("[role=tab][aria-selected=true]").inner_text() == tab, link
        assert page.locator(".xl-panel:visible .xl-sel").count(), link
        page.keyboard.press("Escape")
    assert page.complaints == []
    page.close()


def test_what_a_kernel_could_still_prove_has_its_number():
    tried, unknown = sample.findings()
    sure = unknown.replace(change="drop it")
    measured = tried.replace(measured_us=(2.0, 1.0))
    found = html(overview_panel(REPORT.replace(findings=(sure, tried, measured, unknown))))
    assert re.findall("data-finding='(\\d+)'", found) == ["1", "3"]


def test_several_programs_have_a_line_each():
    other = COST.replace(title="eval_step", us=300.0)
    said = words(overview_panel(REPORT.replace(costs=(other, COST))))
    assert said.index("train_step") < said.index("eval_step 300 µs predicted")
    three = REPORT.replace(costs=(COST,) + (other,) * 8)
    assert "and 3 more programs" in words(overview_panel(three))


def test_text_has_the_same():
    said = text(REPORT, times=True)
    assert "Overview" in said and "block ×6" in said and "Findings" in said
    assert "Overview" not in text(PLAIN, times=True)
    assert text(REPORT) == text(PLAIN), "predictions are times"


def test_a_recorded_step_has_its_overview():
    def layer(x, w):
        return jnp.tanh(x @ w)

    def step(x, w):
        for _ in range(3):
            x = layer(x, w)
        return x

    x = np.ones((4, 4), np.float32)
    with observe.record() as session:
        xlab.jit(step)(x, x)
    report = observe.report(session)
    (cost,) = report.costs
    assert not cost.equations and cost.tree.children[0].label == "layer ×3"
    assert cost.peak == report.memory[0].peak
    assert "layer ×3" in words(overview_panel(report))
    assert not report.findings and not report.patterns
    assert not observe.report(session, parts=("programs",)).costs
