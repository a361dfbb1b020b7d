"""The Program tab of a real program in a browser: where it opens, and what stays in sight in its graph."""

import numpy as np
import pytest

import xlab
from tests.notebook.labs import until
from tests.notebook.views.test_browser import visit
from xlab import lax, observe
from xlab import numpy as jnp
from xlab.notebook.export import write_html

pytestmark = pytest.mark.browser


def model(params, x):
    for n, w in enumerate(params):

        @xlab.jit
        def block(w, x):
            h = x @ w
            for _ in range(4):
                h = jnp.tanh(h) * x + h
            return lax.erf_inv(h) if n == 17 else h

        x = block(w, x)
    return x.sum()


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """A report of twenty blocks with a parameter each, compiled; its Program tab."""
    params = [np.ones((8, 8), np.float32) * n for n in range(20)]
    with observe.record() as session:
        xlab.jit(model)(params, np.ones((8, 8), np.float32))
    path = write_html(observe.report(session), tmp_path_factory.mktemp("program") / "r.html")
    page = visit(browser, path)
    page.locator("[role=tab]", has_text="Program").click()
    yield page
    assert page.complaints == []
    page.close()


def in_sight(column):
    """The lines of a column that are in sight, whole."""
    return column.evaluate("""(column) => {
      const box = column.querySelector(".xl-rows").getBoundingClientRect();
      return [...column.querySelectorAll(".xl-row")].map((row) => [row.getBoundingClientRect(), row.textContent])
        .filter(([at]) => at.top >= box.top - 1 && at.bottom <= box.bottom + 1).sort(([a], [b]) => a.top - b.top).map(([, text]) => text);
    }""")


def test_columns_open_at_what_is_computed(opened):
    """Not at the parameters, of which there are more than fit beside it: the last two say that they are there."""
    columns = opened.locator(".xl-column")
    assert columns.count() == 3
    first = in_sight(columns.nth(1))
    given = [line for line in first if line.lstrip().startswith("in ")]
    assert len(given) <= 3 and any(" = " in line for line in first[:4]), first[:5]
    compiled = in_sight(columns.nth(2))
    assert sum("parameter(" in line for line in compiled) <= 2, compiled[:5]
    assert any(" = " in line and "parameter(" not in line for line in compiled[:3])
    columns.nth(2).locator(".xl-rows").evaluate("rows => { rows.scrollTop = 0; }")
    columns.nth(2).locator(".xl-row", has_text="parameter(0)").wait_for()
    assert sum("parameter(" in line for line in in_sight(columns.nth(2))) > 12, "they come before"


SEEK = """(label) => {
  const canvas = document.querySelector(".xl-graph-canvas");
  const box = canvas.getBoundingClientRect();
  for (let y = 3; y < box.height; y += 6) for (let x = 3; x < box.width; x += 10) {
    canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + x, clientY: box.top + y }));
    if (canvas.title.split("\\n")[0] === label) return [x, y];
  }
  return null;
}"""
"""Where in the pane a box of this name is, by what the pointer is told."""


def test_what_is_looked_at_stays_in_sight(opened):
    """As all boxes of a graph open or close, or one: the chosen box, or what stood in the middle."""
    page = opened
    jaxpr = page.locator(".xl-column").nth(1)
    search = page.get_by_label("find in program")
    search.fill("erf_inv")
    search.press("Enter")
    assert "erf_inv" in jaxpr.locator(".xl-sel").inner_text()
    jaxpr.get_by_role("button", name="graph").click()
    tools = page.locator(".xl-graph-tools")
    pane = page.locator(".xl-graph")
    until(page, lambda: pane.evaluate("pane => pane.scrollTop") > 0, "the chosen box is not shown")
    assert page.evaluate(SEEK, "erf_inv") is None, "it is in a box that is closed"
    box = page.locator(".xl-graph-canvas").bounding_box()
    for name in ("open all", "close all", "open all"):
        tools.get_by_role("button", name=name).click()
        place = page.evaluate(SEEK, "erf_inv")
        assert (place is not None) == (name == "open all"), name
        if place:
            page.mouse.click(box["x"] + place[0], box["y"] + place[1])
            assert "erf_inv" in page.locator(".xl-status").inner_text()
    tools.get_by_role("button", name="close all").click()
    pane.press("Enter")
    assert page.evaluate(SEEK, "erf_inv"), "one box opens, and what was chosen is in it"
    # Where nothing is chosen, what stands in the middle.
    tools.get_by_role("button", name="open all").click()
    _, y = page.evaluate(SEEK, "erf_inv")
    page.keyboard.press("Escape")
    pane.evaluate("(pane, y) => { pane.scrollTop += y - pane.clientHeight / 2; }", y)
    tools.get_by_role("button", name="close all").click()
    was = pane.evaluate("pane => pane.scrollTop")
    search.press("Enter")
    assert "erf_inv" in page.locator(".xl-status").inner_text()
    assert pane.evaluate("pane => pane.scrollTop") == was > 0, "its box was in sight"
