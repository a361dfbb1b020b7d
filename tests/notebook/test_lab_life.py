"""Cells of JupyterLab run again, copied, moved and deleted: what their outputs held is let go, in the page and in the kernel."""

from __future__ import annotations

import pytest

from tests.notebook.labs import LONG, SHORT, command, open_and_run, until
from tests.notebook.test_live import COUNTS

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.notebook]
CELLS = [
    "%load_ext xlab",
    "import gc\nimport xlab\nfrom xlab import numpy as jnp\nfrom xlab.notebook.views import widget\n"
    "x, w = jnp.ones((8, 4)), jnp.ones((4, 2))\ndef f(x, w):\n    return jnp.tanh(x @ w)",
    COUNTS,
    "%%xjit\ny = f(x, w)",
    "%xstep f(x, w)",
    "print('the end of', 'the cells')",
]
REPORT, STEPPER = 3, 4
AGAIN = """async ([cell, times]) => {
  const notebook = jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = cell;
  const node = notebook.widgets[cell].node;
  for (let i = 0; i < times; i += 1) {
    const old = node.querySelector(".xl-live");
    await jupyterapp.commands.execute("notebook:run-cell");
    for (let turn = 0; turn < 4000; turn += 1) {
      const now = node.querySelector(".xl-live");
      if (now && now !== old) break;
      await new Promise((done) => setTimeout(done, 5));
    }
  }
}"""


@pytest.fixture
def notebook(lab, browser):
    """A page on the cells, all run."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    name = lab.write("life.ipynb", CELLS)
    open_and_run(page, lab, name, "the end of the cells")
    page.locator(".xl-report").nth(1).wait_for(timeout=LONG)
    yield page, name
    context.close()
    assert not complaints


def test_200_reruns_in_the_lab_leave_nothing(lab, notebook):
    page, name = notebook
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def count():
        page.wait_for_timeout(1000)
        for _ in range(3):
            session.send("HeapProfiler.collectGarbage")
        found = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
        return lab.value(name, "counts()"), {
            k: int(found[k]) for k in ("Nodes", "JSEventListeners", "JSHeapUsedSize")
        }

    page.evaluate(AGAIN, [REPORT, 10])
    kernel, seen = count()
    page.evaluate(AGAIN, [REPORT, 200])
    kernel_after, seen_after = count()
    assert kernel_after == kernel
    grown = {k: (seen_after[k] - seen[k]) / 200 for k in seen}
    # A widget of one word leaves 4 nodes and 17 kB in JupyterLab each time; a report is a thousand nodes.
    assert (
        grown["Nodes"] < 4 and grown["JSEventListeners"] < 1 and grown["JSHeapUsedSize"] < 80_000
    ), grown


def test_deleted_outputs_let_go_and_shown_ones_stay(lab, notebook):
    """Copies, moves and a page loaded again keep an output alive; its cell deleted, the kernel lets go; another notebook's end says nothing."""
    page, name = notebook
    lab.value(name, "setattr(widget, 'TICK', 0.05)")
    whole = lab.value(name, "counts()")

    def choose_cell(i):
        page.evaluate("(i) => { jupyterapp.shell.currentWidget.content.activeCellIndex = i; }", i)

    def steps():
        page.locator("button[aria-label^='one step (right)']").last.click()
        return page.locator(".xl-place").last.inner_text()

    # Moved, and with a copy that is closed again: still there, and it answers.
    choose_cell(STEPPER)
    command(page, "notebook:move-cell-up")
    command(page, "notebook:move-cell-down")
    page.locator(".xl-place").wait_for(timeout=SHORT)
    page.evaluate("""async () => {
      const cell = jupyterapp.shell.currentWidget.content.activeCell;
      globalThis.copy = cell.cloneOutputArea();
      copy.node.style.height = "200px";
      document.body.append(copy.node);
    }""")
    until(page, lambda: page.locator(".xl-place").count() == 2, "the copy is not drawn")
    page.evaluate("copy.dispose(); copy.node.remove()")
    page.wait_for_timeout(4000)
    assert lab.value(name, "counts()") == whole
    before = page.locator(".xl-place").inner_text()
    assert steps() != before

    # The page loaded again finds its widgets.
    command(page, "docmanager:save")
    page.reload()
    until(
        page,
        lambda: page.locator(".xl-report.xl-live").count() == 2,
        "the outputs do not come back",
    )
    page.wait_for_timeout(4000)
    assert lab.value(name, "counts()") == whole

    # Deleted and taken back: it stays. Deleted: the kernel lets go.
    choose_cell(STEPPER)
    command(page, "notebook:delete-cell")
    page.wait_for_timeout(800)
    command(page, "notebook:undo-cell-action")
    page.locator(".xl-place").wait_for(timeout=SHORT)
    page.wait_for_timeout(4000)
    assert lab.value(name, "counts()") == whole
    choose_cell(STEPPER)
    command(page, "notebook:delete-cell")
    until(
        page,
        lambda: lab.value(name, "counts()")["steppers"] == whole["steppers"] - 1,
        "the stepper is held",
    )
    left = lab.value(name, "counts()")
    assert left["kept"] == whole["kept"] - 1 and left["widgets"] == whole["widgets"] - 2
    page.locator(".jp-CodeCell .xl-report").wait_for(timeout=SHORT)
