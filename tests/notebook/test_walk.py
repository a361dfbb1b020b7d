"""A walk through JupyterLab as a person takes it: the tour, every tab, the stepper, one selection everywhere, light and dark."""

from __future__ import annotations

import re

import pytest

from tests.notebook.labs import LONG, ROOT, SHORT, choose, open_and_run, until

CELLS = [
    "%load_ext xlab",
    "import numpy as np\nimport xlab\nfrom xlab import nn\nfrom xlab import numpy as jnp\n"
    "x, w, big = jnp.ones((8, 4)), jnp.ones((4, 2)), jnp.ones((256, 256))",
    "def model(w, x):\n    h = nn.gelu(x @ w)\n    return jnp.sum(h * h)",
    "%%xjit --mesh data=4,model=2 --in 'x=data,None; w=None,model'\nloss, slope = xlab.value_and_grad(model)(w, x)",
    "%xstep model(w, x)",
    "def twice(x):\n    y = nn.gelu(x)\n    return y, y",
    "%%xjit --mesh data=4,model=2 --in 'big=data,model'\na, b = twice(big)",
    "print('the end of', 'the walk')",
]


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.notebook
def test_the_walk(lab, browser, tmp_path):
    from playwright.sync_api import expect

    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_and_run(page, lab, lab.write("walk.ipynb", CELLS), "the end of the walk")
    report = page.locator(".xl-report").first
    report.wait_for(timeout=LONG)
    report.scroll_into_view_if_needed()

    # Each tab opens its panel, and only its own.
    for title in ("Shardings", "Collectives", "Timings", "Memory", "Program"):
        report.locator("[role=tab]", has_text=title).click()
        expect(report.locator("[role=tab][aria-selected=true]")).to_have_text(title, timeout=SHORT)
        expect(report.locator(".xl-panel:visible")).to_have_count(1, timeout=SHORT)
    report.locator("[role=tab]", has_text="Collectives").click()
    report.locator(".xl-panel:visible", has_text=re.compile("all.reduce|psum")).wait_for(
        timeout=SHORT
    )
    report.locator("[role=tab]", has_text="Program").click()

    # One equation, chosen in the jaxpr, is lit in Python, jaxpr and compiled code.
    columns = report.locator(".xl-column:visible")
    columns.nth(1).locator(".xl-row", has_text="dot_general").first.click()
    for i in range(3):
        lit = columns.nth(i).locator(".xl-sel, .xl-lit, .xl-linked")
        until(page, lambda lit=lit: lit.count() >= 1, f"column {i} is dark")
    page.screenshot(path=tmp_path / "report-light.png")

    # The stepper walks forwards and back.
    steps = page.locator(".xl-place").last
    steps.scroll_into_view_if_needed()
    before = steps.inner_text()
    page.locator(".jp-Notebook button[aria-label^='one step (right)']").last.click()
    expect(steps).not_to_have_text(before, use_inner_text=True, timeout=SHORT)
    page.locator(".jp-Notebook button[aria-label^='one step back']").last.click()
    expect(steps).to_have_text(before, use_inner_text=True, timeout=SHORT)
    page.screenshot(path=tmp_path / "stepper-light.png")

    # A finding's change and another placement are compiled and run by the kernel, before and after.
    last = page.locator(".xl-report").last
    last.locator("button", has_text="prove").click()
    expect(last.locator(".xl-proved")).to_contain_text("measured a run: ", timeout=LONG)
    last.locator("[role=tab]", has_text="What if").click()
    last.locator("select[aria-label='dimension 1 of big']").select_option("")
    last.locator("button", has_text="compile and compare").click()
    expect(last.locator(".xl-weighed")).to_contain_text("measured", timeout=LONG)

    choose(page, "Settings", "Theme", "JupyterLab Dark")
    page.locator(".xl-report[data-theme=dark]").first.wait_for(timeout=SHORT)
    page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=SHORT)
    page.wait_for_timeout(1000)
    report.scroll_into_view_if_needed()
    page.screenshot(path=tmp_path / "report-dark.png")
    context.close()
    assert not [e for e in errors if "xl" in e], errors


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.notebook
def test_the_tour_runs_in_the_lab(lab, browser, tmp_path):
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    (lab.work / "tour.ipynb").write_text((ROOT / "notebooks" / "00_tour.ipynb").read_text())
    open_and_run(page, lab, "tour.ipynb", "")
    prompts = page.locator(".jp-CodeCell .jp-InputArea-prompt")
    failed = page.locator(".jp-RenderedText pre", has_text="Traceback")
    until(
        page,
        lambda: (
            failed.count() or all(re.match(r"\[\d+\]", text) for text in prompts.all_inner_texts())
        ),
        "the tour does not end",
    )
    assert failed.count() == 0 and prompts.count() > 20
    # A report is drawn by its widget, which may come after the cell's number.
    reports = page.locator(".xl-report")
    until(page, lambda: reports.count() >= 5, "fewer than five reports are drawn")
    assert (
        page.locator(
            ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']"
        ).count()
        == 0
    )
    page.screenshot(path=tmp_path / "tour.png")
    context.close()
