"""The device timeline in the page: rows, shares and links without a script; with one it zooms, chooses, and is chosen."""

import re

import pytest

from tests.notebook.views import sample
from tests.notebook.views.test_browser import visit
from xlab.notebook.export import write_html
from xlab.notebook.views.draw import decimal, html
from xlab.notebook.views.report import ReportView
from xlab.notebook.views.timeline import (
    longest,
    longest_node,
    rows_of,
    timeline_data,
    timeline_panel,
)
from xlab.observe.records import timeline as r

REPORT = sample.report()
LINE = sample.timeline(REPORT)


def test_the_picture_has_a_row_per_device_and_says_where_its_time_went():
    drawn = html(timeline_panel((LINE,)))
    assert re.findall(r">device (\d)<", drawn) == ["0", "1"]
    words = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", drawn))
    assert (
        "computing 50 %, communicating 18 %, waiting for other devices 8 %, nothing 24 %" in words
    )
    assert "16 % of the time in collectives is hidden behind computing" in words
    assert "2 later operations not kept" in words and "of the compiler" in words
    assert timeline_panel(()) is None


def test_a_long_step_is_drawn_to_its_end():
    """A drawing is as long as it is: cut as text is, it would not be one."""
    many = tuple(r.Operation(f"add.{n}", n % 8, 10.0 * n, 4.0) for n in range(1600))
    drawn = html(timeline_panel((r.Timeline("f", 16_000.0, tuple(range(8)), many),)))
    (path,) = re.findall(r"<path class='xl-tl-compute' d='([^']*)'", drawn)
    assert re.fullmatch(r"(M[\d.]+ [\d.]+h[\d.]+v[\d.]+h-[\d.]+z)+", path)
    assert path.count("M") == 1600 and f"M{decimal(84 + 15_990 * 916 / 16_000)} " in path
    close = tuple(r.Operation(f"add.{n}", 0, 1.0 * n, 0.9) for n in range(16_000))
    drawn = html(timeline_panel((r.Timeline("f", 16_000.0, (0,), close),)))
    assert drawn.count("M84 21h") == 1 and len(drawn) < 20_000, "what touches is one box"


def test_rows_make_room_for_what_runs_beside():
    rows = rows_of(LINE)
    assert [lanes for _, lanes in rows.values()] == [1, 2]


def test_the_longest_instructions_are_those_of_the_slowest_device():
    assert [(o.instruction, n, us, waited) for o, n, us, waited in longest(LINE)] == [
        ("all-reduce.1", 1, 16.0, 6.5),
        ("fusion.1", 1, 14.0, 0.0),
        ("fusion.2", 1, 14.0, 0.0),
        ("copy.3", 1, 4.0, 0.0),
    ]


def test_lines_are_named_without_the_folders_of_their_file():
    far = LINE.operations[1].replace(where="/home/somebody/models/step.py:9")
    drawn = html(longest_node(LINE.replace(operations=(far,))))
    assert ">step.py:9<" in drawn and "title='/home/somebody/models/step.py:9'" in drawn


def test_a_report_has_the_tab_only_where_something_was_measured():
    assert "data-tab='timeline'" not in html(ReportView().tree(REPORT))
    assert "timelines" not in ReportView().data(REPORT)
    data = timeline_data(LINE)
    assert len(data["kinds"]) == 5 and len(data["which"]) == 7


@pytest.mark.browser
def test_operations_and_lines_choose_each_other(browser, tmp_path):
    report = REPORT.replace(timelines=(LINE,), opens="timeline")
    page = visit(browser, write_html(report, tmp_path / "r.html"))
    page.wait_for_selector(".xl-tl-live")
    assert page.locator("[role=tab][aria-selected=true]").inner_text() == "Timeline"
    chart = page.locator(".xl-tl-live")
    box = chart.bounding_box()

    def click(us, row):
        scale = box["width"] / 1000
        y = rows_of(LINE)[row][0] + 7
        left = 1000 - page.evaluate(
            "document.querySelector('.xl-tl-live .xl-time-rule').x1.baseVal.value"
        )
        chart.click(position={"x": (1000 - left + us / 40 * left) * scale, "y": y * scale})

    click(12, 0)
    said = page.locator(".xl-tl-bar output")
    assert "device 0 all-reduce.1 16.0 µs" in re.sub(r"\s+", " ", said.inner_text())
    assert "waiting for device 1, which came last" in said.inner_text()
    assert page.locator(".xl-tl-meet").count() == 1 and page.locator(".xl-tl-lit").count() == 1
    page.keyboard.press("ArrowRight")
    assert "fusion.2" in said.inner_text()
    page.locator(".xl-longest tr[data-eq]", has_text="fusion.1").click()
    assert page.locator(".xl-tl-lit").count() == 1 and page.locator(".xl-tl-meet").count() == 0
    before = page.locator(".xl-tl-live text").all_text_contents()
    page.get_by_role("button", name="come closer").click()
    assert page.locator(".xl-tl-live text").all_text_contents() != before
    page.get_by_role("button", name="the whole step").click()
    assert page.locator(".xl-tl-live text").all_text_contents() == before
    with page.expect_download() as saved:
        page.locator(".xl-timeline select").select_option("Chrome trace (Perfetto)")
    assert "devices of train_step" in saved.value.path().read_text()
    assert page.complaints == []
    page.close()
