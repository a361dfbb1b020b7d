"""The calls of a program in a browser: a heading folds, and leads to the same call in every tab."""

import pytest

from tests.notebook.views.test_browser import visit
from tests.notebook.views.test_program_page import SEEK
from tests.observe.records.test_structure import report
from xlab.notebook.export import write_html

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    path = write_html(report("transformer"), tmp_path_factory.mktemp("calls") / "r.html")
    page = visit(browser, path)
    page.locator("[role=tab]", has_text="Overview").wait_for()
    yield page
    assert page.complaints == []
    page.close()


def tab(page, name):
    page.locator("[role=tab]", has_text=name).click()


def status(page):
    return page.locator(".xl-status").inner_text()


def test_a_call_of_the_overview_leads_to_its_heading(opened):
    tab(opened, "Overview")
    opened.locator(".xl-tree a", has_text="attention").click()
    head = opened.locator(".xl-call-row.xl-sel", has_text="attention").first
    head.wait_for()
    assert "attention" in status(opened) and "330 equations" in status(opened)


def test_a_heading_of_the_jaxpr_folds_and_is_chosen(opened):
    tab(opened, "Program")
    column = opened.locator(".xl-column").nth(1)
    column.locator(".xl-rows").evaluate("rows => { rows.scrollTop = 684; }")
    head = column.locator(".xl-call-row", has_text="tower ▸ block ×6").first
    head.wait_for()
    inside = column.locator(".xl-row", has_text="5 more like these 81 equations")
    assert inside.count() == 1
    head.locator(".xl-fold").click()
    head = column.locator(".xl-call-row", has_text="tower ▸ block ×6").first
    assert head.get_attribute("aria-expanded") == "false" and inside.count() == 0
    head.locator(".xl-fold").click()
    assert inside.count() == 1
    column.locator(".xl-call-row", has_text="tower ▸ block ×6").first.locator("b").click()
    assert "xl-sel" in column.locator(".xl-call-row", has_text="tower").first.get_attribute("class")
    assert "block ×6   forward   486 equations" in status(opened)
    for name in ("Overview", "Collectives", "Memory"):
        assert "xl-has" in (
            opened.locator("[role=tab]", has_text=name).get_attribute("class") or ""
        )


@pytest.mark.parametrize("name", ["Collectives", "Memory"])
def test_a_heading_of_a_table_folds_and_leads_to_the_program(opened, name):
    tab(opened, name)
    panel = opened.locator(f".xl-panel.xl-{name.lower()}")
    head = panel.locator("tr.xl-call-row", has_text="block ×6").first
    rows = panel.locator("tbody tr:visible")
    before = rows.count()
    head.locator(".xl-fold").click()
    assert rows.count() < before
    head.locator(".xl-fold").click()
    assert rows.count() == before
    said = head.locator(".xl-way").inner_text().split()[0]
    head.locator("a").click()
    assert opened.locator("[role=tab][aria-selected=true]").inner_text() == "Program"
    opened.locator(".xl-column .xl-call-row.xl-sel", has_text="block ×6").wait_for()
    assert f"block ×6   {said}" in status(opened)
    tab(opened, name)
    assert "xl-sel" in head.get_attribute("class")


def test_collectives_are_listed_flat_where_a_column_sorts_them(opened):
    tab(opened, "Collectives")
    panel = opened.locator(".xl-panel.xl-collectives")
    heads = panel.locator("tr.xl-call-row:visible")
    assert heads.count() > 3
    order = panel.locator("tbody tr").all_inner_texts()
    panel.locator(".xl-transfers th", has_text="line").click()
    assert heads.count() == 0
    panel.get_by_role("button", name="by call").click()
    assert heads.count() > 3 and panel.locator("tbody tr").all_inner_texts() == order


def test_boxes_of_the_graph_open_along_the_calls(opened):
    tab(opened, "Program")
    opened.keyboard.press("Escape")
    opened.locator(".xl-column button", has_text="graph").click()
    canvas = opened.locator(".xl-graph-canvas")
    canvas.wait_for()
    opened.wait_for_timeout(300)
    for label in ("loss · forward", "tower ▸ block ×6 · forward", "block 1", "attention · forward"):
        place = opened.evaluate(SEEK, label)
        assert place is not None, label
        canvas.click(position={"x": place[0], "y": place[1]})
        if label.startswith("attention"):
            break
        canvas.dblclick(position={"x": place[0], "y": place[1]})
        opened.wait_for_timeout(200)
        opened.get_by_role("button", name="fit").click()
        opened.wait_for_timeout(200)
    assert "attention   forward" in status(opened)
    opened.locator(".xl-column button", has_text="graph").click()
