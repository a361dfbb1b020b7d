"""The timings panel: exclusive times, cold and warm apart, passes and transfers as bars, the ledger's table, and what it is saved as."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.notebook.views import sample
from xlab import observe
from xlab.notebook import assets
from xlab.notebook.views.draw import html
from xlab.notebook.views.ledger import ledger_node
from xlab.notebook.views.report import ReportView
from xlab.notebook.views.timeline import timeline_data
from xlab.notebook.views.timings import timings_data, timings_panel, timings_table, waterfall
from xlab.observe import records as r
from xlab.observe.records.ledger import sentence
from xlab.observe.timing.phases import self_times

REPORT = sample.report()
PHASES = sample.phases()


def words(node):
    return re.sub(r"<[^>]+>", " ", html(node))


def test_self_times_leave_out_what_was_called():
    own = self_times(PHASES)
    assert (
        own[0] == 84e3 - 31e3 and own[1] == 31e3 and own[2:] == [p.duration_us for p in PHASES[2:]]
    )


def test_rows_say_cold_self_and_warm_apart():
    page = html(waterfall(PHASES, REPORT.timings))
    row = next(part for part in page.split("<div class='xl-lane'>") if "title='train_step'" in part)
    ends = re.findall(r"<span class='xl-lane-end[^']*'[^>]*>([^<]*)<", row)
    assert ends == ["1.42 s", "1.39 s", "3.10 ms ± 80.0 µs (20 runs)"]
    assert row.count("xl-execute") == 1, "steady runs are no bars"


def test_transfers_and_passes_are_bars():
    page = html(waterfall(PHASES, (), REPORT.passes))
    timed = [p for p in REPORT.passes if p.duration_us]
    assert "xl-bar xl-transfer" in page and 1 < page.count("xl-pass-bar") <= len(timed)
    assert f"{len(timed)} timed, on their own scale" in page
    assert "passes" not in html(waterfall(PHASES, ()))


def test_d39_lines_of_the_log_name_the_bars_they_are_about():
    log = (
        r.LogLine("Finished tracing train_step for jit in 0.084 sec", "WARNING", 84e3, 0),
        r.LogLine("Finished XLA compilation of jit(train_step) in 1.180 sec", "DEBUG", 1285e3, 3),
        r.LogLine("<b>somebody's own</b>", "INFO", 9e6),
    )
    page = html(timings_panel(PHASES, (), None, (), log))
    assert re.findall(r"data-phase='(\d)'", page) == ["0", "3", "0", "3"]  # two bars, two lines
    bar = re.search(r"<span [^>]*data-phase='3'[^>]*>", page)[0]
    assert (
        "xl-cache_miss" not in bar and "xl-compile" in bar and "title='train_step   compile" in bar
    )
    assert "log: 3 lines" in page and "title='debug, 1.28 s after the start'" in page
    assert "&lt;b>somebody" in page and "<b>somebody" not in page
    assert "data-phase" not in html(timings_panel(PHASES, (), None))
    many = html(timings_panel(PHASES, (), None, (), log[:1] * 400))
    assert "100 more lines not drawn" in many


def test_caches_are_told_apart():
    text = words(timings_panel(PHASES, (), None))
    assert "caches: disk 1 hit" in text and "inclusive" in text and "exclusive" in text
    page = html(waterfall(PHASES, ()))
    assert "xl-bar xl-hit" in page and "compile: cache miss (disk)" in page


def test_the_sentence_comes_first():
    entry = REPORT.ledger.entries[1].replace(spent_us=2.36e6)
    assert sentence(entry).startswith(
        "`train_step` compiled again because `x` went from f32[64,64] to f32[61,64]"
    )
    assert sentence(entry).endswith("third compile, 2.36 s so far")


def test_differing_cells_are_marked():
    entry = r.Compilation(
        "f",
        3,
        1.0,
        "`x` grew",
        "pad x",
        key=(("x", "f32[9]"), ("n", "2")),
        earlier=((1, (("x", "f32[8]"), ("n", "2"))), (2, (("x", "f32[9]"), ("n", "1")))),
    )
    page = html(ledger_node(r.Ledger((entry,))))
    rows = re.findall(r"<tr[^>]*>.*?</tr>", page)
    assert [row.count("xl-moved") for row in rows] == [0, 1, 1, 0] and page.count("≠") == 2
    assert page.index("because") < page.index("<table") < page.index("pad x"), (
        "sentence, table, fix"
    )


def test_many_keys_are_cut_and_counted():
    keys = tuple((n, (("x", f"f32[{n}]"),)) for n in range(1, 60))
    page = words(
        ledger_node(
            r.Ledger((r.Compilation("f", 60, 1.0, "x", key=(("x", "f32[60]"),), earlier=keys),))
        )
    )
    assert "39 older keys not drawn" in page


def test_what_a_page_saves_is_small():
    many = tuple(r.Phase("compile", "f", float(i), 1.0) for i in range(6000))
    assert len(timings_data(many, ())["phases"]) == 5000 and timings_data(many, ())["more"] == 1000
    assert timings_data((), ()) is None and ReportView().data(REPORT)["timings"]["more"] == 0


@pytest.mark.skipif(
    shutil.which("node") is None,
    reason="node is not installed; the front end is tested where it is",
)
def test_the_page_writes_the_same_trace_as_python(tmp_path):
    module = tmp_path / "parts.mjs"
    module.write_text(
        f"{assets.body()}\nexport {{ traceEvents, mountTimings }};\n", encoding="utf-8"
    )
    data = tmp_path / "data.json"
    gate = r.Phase("gate", "train_step", 1500e3, 2e3)
    report = REPORT.replace(timelines=(sample.timeline(REPORT),), phases=(*REPORT.phases, gate))
    trace = observe.chrome_trace(report)
    assert [e["dur"] for e in trace["traceEvents"] if e["name"] == "gate train_step"] == [2e3]
    data.write_text(
        json.dumps(
            {
                "title": REPORT.title,
                "data": timings_data(report.phases, REPORT.timings),
                "whole": {"timelines": [timeline_data(t) for t in report.timelines]},
                "trace": trace,
            }
        )
    )
    done = subprocess.run(
        ["node", str(Path(__file__).parent / "timings.test.mjs"), str(module), str(data)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "ok", done.stderr[-3000:]


def test_waiting_for_the_other_processes_is_a_bar_of_its_own():
    phases = (r.Phase("execute", "f", 0.0, 900.0), r.Phase("gate", "f", 0.0, 400.0, 1, parent=0))
    page = html(waterfall(phases, ()))
    assert "xl-bar xl-gate" in page and ">gate 400 µs<" in page
    assert ">500 µs<" in page, "the run itself, without what it waited"


def test_why_a_cold_time_is_missing_stands_in_the_table_alone():
    timing = r.Timing("f", None, 3.0, 1.0, 5, note="compiled before; %xtime --cold measures anew")
    phases = (r.Phase("execute", "f", 0.0, 9.0),)
    assert "compiled before" not in html(
        waterfall(phases, (timing,))
    ) and "compiled before" in html(timings_table((timing,)))
    assert "compiled before" not in html(timings_table((timing.replace(note="", cold_us=4.0),)))


def test_the_head_says_cold_only_where_something_was_compiled():
    """A run that found everything compiled has no cold time: its rows say what they took in all."""
    heads = [
        re.findall(r"<span class='xl-lane-end[^']*'>([^<]+)</span>", html(waterfall(phases, ())))[0]
        for phases in (PHASES, tuple(p for p in PHASES if p.kind != "compile"))
    ]
    assert heads == ["cold", "in all"]
