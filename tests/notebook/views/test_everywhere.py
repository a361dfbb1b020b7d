"""What holds in every tab of every view: nothing is wider than the window, light and dark; and all words can be marked with the pointer."""

import numpy as np
import pytest

from tests.notebook.test_export import nasty_report, of_every_view
from tests.notebook.views import sample
from tests.notebook.views.each import full
from tests.notebook.views.test_browser import visit
from tests.notebook.views.test_live_page import host
from tests.observe import sample_programs as programs
from xlab import observe
from xlab.notebook.export import write_html
from xlab.notebook.views import VIEWS
from xlab.notebook.views.tabs import tabs
from xlab.observe.records import Report
from xlab.observe.records.ladder import Ladder

pytestmark = pytest.mark.browser

LOOK = """async (name) => {
  const end = draw(name);
  const found = [];
  let seen = 0;
  const titles = [...document.querySelectorAll("#host [role=tab]")];
  for (const tab of titles.length ? titles : [null]) {
    tab?.click();
    for (const folded of document.querySelectorAll("#host details:not([open])")) folded.open = true;
    await new Promise((drawn) => requestAnimationFrame(drawn));
    seen += 1;
    const view = document.querySelector("#host .xl");
    const [ink, paper] = ["color", "backgroundColor"].map((what) => getComputedStyle(view)[what].match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0));
    if (view.textContent.includes("this view failed")) throw new Error(`${name} ${tab?.textContent}: ${view.textContent.match(/this view failed.*/)[0]}`);
    const wide = document.documentElement.scrollWidth;
    const out = wide > innerWidth ? [...document.querySelectorAll("#host *")].filter((n) => n.getBoundingClientRect().right > innerWidth && !n.parentElement.closest(".xl-scroll, .xl-rows")) : [];
    found.push([`${name} ${tab?.textContent ?? ""}`, wide - innerWidth, out.slice(0, 5).map((n) => n.getAttribute("class") ?? n.tagName), paper - ink]);
  }
  end();
  return found;
}"""
"""Of each tab by how much the page is wider than the window, what sticks out, and how much lighter the paper is than the letters."""


@pytest.mark.parametrize(
    ("scheme", "name"), [("light", "train_step"), ("dark", "some_rather_long_name_of_a_thing_")]
)
def test_nothing_is_wider_than_the_window(scheme, name, page, tmp_path):
    report = sample.report() if scheme == "light" else nasty_report(name)
    operands = np.ones((8, 16), np.float32), np.ones((16, 4), np.float32)
    here = {
        **of_every_view(report, name),
        Report: full(report),
        Ladder: observe.ladder(programs.dense, *operands),
    }
    host(page, tmp_path, here)
    page.evaluate(f"document.body.dataset.jpThemeLight = '{str(scheme == 'light').lower()}'")
    for width in (700, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        seen = [row for view in VIEWS for row in page.evaluate(LOOK, view.name)]
        assert len(seen) == len(VIEWS) - 1 + len(tabs())
        assert [row for row in seen if row[1] > 0] == [], f"{width} pixels wide"
        assert all((lighter > 300) == (scheme == "light") for *_, lighter in seen)
        assert all(abs(lighter) > 300 for *_, lighter in seen), "letters stand out"


WORDS = """() => {
  globalThis.words ??= new Map();
  const all = document.createTreeWalker(document.querySelector(".xl-live"), NodeFilter.SHOW_TEXT);
  const named = (n) => n.tagName + n.className;
  const fresh = [];
  while (all.nextNode()) {
    const node = all.currentNode;
    const of = node.parentElement;
    if (node.data.trim().length < 4 || !of.checkVisibility() || of.closest("svg, select, button, .xl-status")) continue;
    const kind = `${named(of)} in ${named(of.parentElement)}`;
    if (words.has(kind)) continue;
    words.set(kind, node);
    fresh.push(kind);
  }
  return fresh;
}"""
"""The kinds of places where there are words, besides those of a tab before."""

PLACE = """(kind) => {
  const node = words.get(kind);
  if (!node.isConnected) return null;
  getSelection().removeAllRanges();
  node.parentElement.scrollIntoView({ block: "center" });
  const all = document.createRange();
  all.selectNodeContents(node);
  const box = all.getClientRects()[0];
  const [x, y] = [box.left + 1, box.top + box.height / 2];
  const hit = document.elementFromPoint(x + 1, y);
  return hit && (hit.contains(node) || node.parentElement.contains(hit)) ? [x, y, Math.min(box.right - 1, innerWidth - 2)] : null;
}"""
STATE = """() => [document.querySelector("[role=tab][aria-selected=true]")?.textContent, document.querySelectorAll(".xl-sel, .xl-lnk, .xl-chosen").length]"""


@pytest.mark.parametrize("which", ["report", "ladder"])
def test_all_words_can_be_marked(which, browser, tmp_path):
    """Findings, warnings, collectives, steps too, though a press on them does something; a drag over them does nothing but mark."""
    operands = np.ones((8, 16), np.float32), np.ones((16, 4), np.float32)
    record = (
        full(sample.report()) if which == "report" else observe.ladder(programs.dense, *operands)
    )
    page = visit(browser, write_html(record, tmp_path / "page.html"))
    page.wait_for_selector(".xl-live")
    tried, wrong = 0, []
    for tab in page.locator("[role=tab]").all() or [None]:
        if tab:
            tab.click()
        for kind in page.evaluate(WORDS):
            place = page.evaluate(PLACE, kind)
            if place is None:  # scrolled away, or under something
                continue
            before = page.evaluate(STATE)
            x, y, right = place
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move((x + right) / 2, y)
            page.mouse.move(right, y)
            page.mouse.up()
            tried += 1
            marked, after = page.evaluate("getSelection().toString().trim()"), page.evaluate(STATE)
            if len(marked) < 3 or before != after:
                wrong.append((kind, marked, before, after))
    print(tried)
    assert tried > (100 if which == "report" else 10) and wrong == []
    if which == "report":
        page.locator("[role=tab]").first.click()
        link = page.locator(".xl-findings [role=link]").first
        link.focus()
        page.keyboard.press("Enter")
        assert page.locator("[role=tab][aria-selected=true]").inner_text() != "Overview"
        page.locator("[role=tab]", has_text="Collectives").click()
        page.get_by_role("button", name="show all_gather").first.press(" ")
        assert page.locator("tr.xl-chosen .xl-pick").first.inner_text() == "all_gather"
    assert page.complaints == []
    page.close()
