"""The Processes tab: lanes on one clock, what was waited, and who is late."""

from __future__ import annotations

import math

from tests.notebook.views import sample
from xlab.notebook.views import view_for
from xlab.notebook.views.draw import html
from xlab.notebook.views.processes import processes_panel
from xlab.observe.records.processes import Processes, ProcessInfo
from xlab.observe.records.text import text

FOUND = sample.processes()


def paths(node, name):
    """What the paths of a class draw."""
    if not isinstance(node, list):
        return []
    own = [node[1]["d"]] if node[0] == "path" and node[1].get("class") == name else []
    return own + [d for child in node[2:] for d in paths(child, name)]


def test_the_sentence_stands_first_and_lanes_below_it():
    panel = processes_panel(FOUND)
    page = html(panel)
    said = "process 1 is late: the other one waited 56.0 of 58.5 µs for it in `psum` (line 4), 2 of 2 times"
    assert said in text(FOUND, times=True)
    assert page.index("process 1 is late") < page.index("<svg") < page.index("<table")
    # Two executions on four devices: all move; all but the last to come wait.
    moving, waiting, late = ("".join(paths(panel, f"xl-ps-{n}")) for n in ("moving", "waiting", "late"))  # fmt: skip
    assert moving.count("z") == 8 and waiting.count("z") == 6 and late.count("v") == 2
    assert len(paths(panel, "xl-ps-gate")) == len(paths(panel, "xl-ps-join")) == 1
    assert "waits until all are at the program" in page and "waits for a later device" in page
    # The processes of each host have an outline.
    assert page.count("xl-ps-host0") == page.count("xl-ps-host1") == 2
    for words in ("train_step1", "4001", "ValueError: train_step", "disk already in 1", "200 MB"):
        assert words in page


def test_a_report_has_the_tab_when_it_has_processes():
    report = sample.report()
    assert "xl-ps-" not in html(view_for(report).tree(report))
    whole = html(view_for(report).tree(report.replace(processes=FOUND)))
    assert whole.count("xl-ps-members") == 1


def test_text_of_the_program_is_no_markup():
    word = "<script>alert(1)</script>"
    assert word not in html(processes_panel(sample.processes(word)))


def test_odd_numbers_are_drawn_or_left_out():
    for odd in (math.nan, math.inf, -1.0, 1e300):
        times = tuple(((0, 0, odd, 3.0), (1, 2, 1.0, odd)) for _ in range(2))
        sums = FOUND.attendance[0].replace(members=(0, 2), times=times)
        info = FOUND.members[0].replace(
            begun_us=odd, phases=(FOUND.members[0].phases[0].replace(start_us=odd),)
        )
        launches = tuple(x.replace(begun_us=odd) for x in FOUND.launches)
        page = html(processes_panel(Processes(2, (info,), launches, (sums,))))
        assert "nan" not in page and "inf" not in page
    many = Processes(40, tuple(ProcessInfo(k, f"h{k}", devices=(k,)) for k in range(40)))
    assert "24 more processes not drawn" in html(processes_panel(many))
