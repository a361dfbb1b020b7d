"""Notebook 7, which has Lab's extensions: an output is alive there, and the page that was saved where its kernel is gone."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from tests.notebook.labs import SHORT, choose, command, kernel_of, open_and_run, started, until
from tests.notebook.test_opened_again import CELLS, VIEWS, WIDGET

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.notebook]
CLASSIC = "notebooks"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    if find_spec("notebook") is None:
        pytest.skip("Notebook 7 is not installed (pip install 'notebook>=7')")
    with started(tmp_path_factory.mktemp("notebook7"), app="notebook") as made:
        yield made


def test_an_output_is_alive_and_then_what_was_saved_and_then_alive(served, browser):
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    name = served.write("classic.ipynb", [*CELLS, "mesh = xlab.make_mesh((4, 2), ('data', 'model'))\nmesh", "print('the end of', 'the run')"])  # fmt: skip
    open_and_run(page, served, name, "the end of the run", at=CLASSIC)
    live = page.locator(".jp-OutputArea .xl-live")
    wrong = page.locator(".jp-OutputArea :text-matches('Error displaying|could not start|this view failed'):visible")  # fmt: skip
    until(page, lambda: live.count() == VIEWS, "not all views are alive")
    report = page.locator(".xl-report").first
    report.locator("[role=tab]", has_text="Program").click()
    report.locator(".xl-column:visible .xl-row:has(.xl-op)").first.click()
    assert report.locator(".xl-row.xl-sel:visible").count()
    stepper = page.locator(".jp-CodeCell").nth(3)
    stepper.get_by_label("one step (right)").click()
    stepper.get_by_role("button", name="values").first.click()
    until(page, lambda: stepper.locator(".xl-entries:visible").count(), "no kernel answers")
    assert wrong.count() == 0

    command(page, "docmanager:save")
    was = kernel_of(served, name)["id"]
    page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
    until(page, lambda: kernel_of(served, name).get("id") != was, "the kernel does not end")
    written = json.loads((served.work / name).read_text())
    kinds = [set(o["data"]) for c in written["cells"] for o in c["outputs"] if "data" in o]
    assert len(kinds) == VIEWS + 1 and not [k for k in kinds if WIDGET in k]

    page.goto(f"{served}/{CLASSIC}/{name}?reset")
    frames = page.locator(".jp-OutputArea .xl-saved iframe")
    until(page, lambda: frames.count() == VIEWS, "not all saved pages stand there")
    for i in range(VIEWS):
        frames.nth(i).scroll_into_view_if_needed(timeout=SHORT)
        frames.nth(i).content_frame.locator(".xl-live").first.wait_for(timeout=SHORT)
    assert page.locator(".jp-OutputArea .xl-saved svg").count(), "the mesh needs no script"
    assert wrong.count() == 0

    choose(page, "Run", "Run All Cells")
    asked = page.locator(".jp-Dialog button.jp-mod-accept")

    def alive():
        if asked.count():  # for a kernel
            asked.click()
        return live.count() == VIEWS and not frames.count()

    until(page, alive, "run again, not alive")
    assert wrong.count() == 0
    context.close()
