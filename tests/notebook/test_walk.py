"""A walk through JupyterLab as a person takes it: the tour, every tab, the stepper, one selection everywhere, light and dark."""

from __future__ import annotations

import re

import pytest

from tests.notebook.labs import (
    LONG,
    ROOT,
    SHORT,
    choose,
    command,
    kernel_is_ready,
    open_and_run,
    prompt_to_line,
    until,
)

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


STOPPED = [
    "%load_ext xlab",
    "import xlab\nfrom xlab import numpy as jnp\nx = jnp.ones((64, 64))\nprint('all', 'is ready')",
    "%%xjit --quiet\nw = x * 2",
    "%%xjit\nprint('it', 'begins')\nfor i in range(100_000):\n    x = jnp.sin(x) * 0.5\nz = x",
    "print('it', 'answers', float(jnp.sum(x)))",
    "%%xjit\ny = jnp.tanh(x @ x)\ny[0, :3]",
]
CELL = """(i) => {
  const notebook = jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = i;
  notebook.deselectAll();
  globalThis.ran = jupyterapp.commands.execute("notebook:run-cell");
}"""
WATCH = """(i) => {
  const node = jupyterapp.shell.currentWidget.content.widgets[i].node;
  globalThis.seen = [];
  const look = () => {
    const outputs = [...node.querySelectorAll(".jp-OutputArea-output")];
    const result = outputs.findIndex((o) => o.innerText.includes("Array(["));
    if (result >= 0) seen.push([result, Math.round(outputs[result].getBoundingClientRect().top - node.getBoundingClientRect().top)]);
    requestAnimationFrame(look);
  };
  look();
}"""


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.notebook
def test_an_interrupt_says_what_it_ended_and_a_report_moves_no_result(lab, browser):
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    name = lab.write("stopped.ipynb", STOPPED)
    page.goto(f"{lab}/lab/tree/{name}?reset")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=LONG)
    until(page, lambda: kernel_is_ready(lab, name), "there is no idle kernel")
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=LONG)
    cells = page.locator(".jp-CodeCell")
    for i in range(3):
        page.evaluate(CELL, i)
        page.evaluate("ran.then(() => null)")
    assert "all is ready" in cells.nth(1).inner_text()

    page.evaluate(CELL, 3)
    cells.nth(3).locator("text=it begins").wait_for(timeout=LONG)  # the cell is traced now
    command(page, "notebook:interrupt-kernel")
    said = cells.nth(3).locator(".jp-OutputArea-output", has_text="KeyboardInterrupt")
    said.first.wait_for(timeout=LONG)
    told = said.first.inner_text()
    assert re.search("interrupted while (tracing|lowering|compiling); all names are as they", told)
    page.evaluate(CELL, 4)
    cells.nth(4).locator("text=it answers 4096.0").wait_for(timeout=LONG)

    page.evaluate(WATCH, 5)
    waited = prompt_to_line(page, 5)
    assert len(waited) == 2, "the benchmarks measure so how long a report is waited for"
    assert cells.nth(5).locator(".xl-report.xl-live").count()
    page.wait_for_timeout(500)
    seen = page.evaluate("seen")
    assert {place for place, _ in seen} == {0}, "the report stands below the result"
    assert len({top for _, top in seen}) == 1, "and what stands above it does not move"
    context.close()
