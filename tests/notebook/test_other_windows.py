"""Outputs of a kernel that lives: copied cells, a second window, the same page after a restart. Nothing is empty, and no line says error."""

from __future__ import annotations

import pytest

from tests.notebook.labs import LONG, command, open_and_run, until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.notebook]
CELLS = [
    "import os\nos.environ['XLAB_NUM_CPU_DEVICES'] = '2'\n%load_ext xlab",
    "import xlab\nfrom xlab import numpy as jnp\nmesh = xlab.make_mesh((2,), ('data',), axis_types=(xlab.sharding.AxisType.Auto,))\nx = xlab.device_put(jnp.ones((8, 4)), xlab.NamedSharding(mesh, xlab.P('data')))\ndef f(x):\n    return jnp.sum(jnp.tanh(x) * 2)",
    "%%xjit\ny = f(x)\ny",
    "%xstep f(x)",
    "print('the end of', 'the run')",
]
SHOWN = ".jp-OutputArea .xl-report.xl-live, .jp-OutputArea .xl-saved iframe"


def test_copies_windows_and_restarts(lab, browser):
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    complaints: list[str] = []

    def opened():
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    def shows(page, count, where):
        until(page, lambda: page.locator(SHOWN).count() == count, f"{where}: not all outputs")
        assert (
            not page.locator(".jp-OutputArea-output", has_text="Error displaying widget")
            .locator("visible=true")
            .count()
        ), where
        assert not page.locator(".xl-error:visible").count(), where

    page = opened()
    name = lab.write("windows.ipynb", CELLS)
    open_and_run(page, lab, name, "the end of the run")
    shows(page, 2, "run")
    report = page.locator(".jp-CodeCell").nth(2).locator(".jp-OutputArea-output")
    assert report.count() == 2 and report.first.inner_text().startswith("Array(")
    assert report.last.locator(".xl-report").count() == 1, "the report is below the result"

    page.evaluate("jupyterapp.shell.currentWidget.content.activeCellIndex = 3")
    command(page, "notebook:copy-cell")
    command(page, "notebook:paste-cell-below")
    shows(page, 3, "a copied cell")
    command(page, "docmanager:save")

    second = opened()
    second.goto(f"{lab}/lab/tree/{name}?reset")
    second.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=LONG)
    shows(second, 3, "a second window")
    shows(page, 3, "the first window")
    second.close()

    page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=LONG)
    shows(page, 3, "after a restart")
    page.locator("button[aria-label^='one step (right)']").first.click()
    shows(page, 3, "used after a restart")
    live = page.locator(
        ".jp-OutputArea .xl-report.xl-live", has=page.get_by_role("tab", name="What if")
    ).first
    live.get_by_role("tab", name="What if").click()
    live.get_by_role("button", name="compile and compare").click()
    said = live.locator(".xl-error:visible")
    until(page, lambda: said.count() == 1, "what to do is not said")
    assert "run the cell again" in said.inner_text()
    page.reload()
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=LONG)
    shows(page, 3, "loaded again after a restart")
    context.close()
    assert not complaints
