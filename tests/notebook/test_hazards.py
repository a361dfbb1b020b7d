"""What people do to outputs: delete them while they run, restart the kernel under them."""

from __future__ import annotations

import pytest

from tests.notebook.labs import LONG, choose, kernel_is_ready, open_and_run, until

CELLS = [
    "%load_ext xlab",
    "import time\nimport xlab\nfrom xlab import numpy as jnp\nx = jnp.ones((8, 4))\ndef f(x):\n    return jnp.sum(jnp.tanh(x) * 2)",
    "%xstep f(x)",
    "%%xjit\ntime.sleep(4)\ny = jnp.sin(x) + 1",
    "%%xjit\ny = jnp.sin(x) + 2",
    "print('the end of', 'the hazards')",
]


def cell(page, number):
    return page.locator(".jp-CodeCell").nth(number)


def run(page, number):
    cell(page, number).locator(".jp-InputArea-editor").click()
    page.keyboard.press("Control+Enter")


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.notebook
def test_outputs_survive_what_is_done_to_them(lab, browser):
    name = lab.write("hazards.ipynb", CELLS)
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_and_run(page, lab, name, "the end of the hazards")

    # An output deleted while its cell runs: the cell ends, the report stands where it belongs, the next cell works.
    run(page, 3)
    page.wait_for_timeout(800)
    choose(page, "Edit", "Clear Cell Output")
    until(
        page,
        lambda: "*" not in cell(page, 3).locator(".jp-InputArea-prompt").inner_text(),
        "the cell does not end",
    )
    run(page, 4)
    cell(page, 4).locator(".xl-report").wait_for(timeout=LONG)

    # A kernel restarted under a live stepper: what was recorded can still be walked, and the page says what cannot.
    choose(page, "Kernel", "Restart Kernel…")
    page.locator(".jp-Dialog button.jp-mod-warn").click()
    until(page, lambda: kernel_is_ready(lab, name), "no kernel after the restart")
    steps = cell(page, 2).locator(".xl-place")
    steps.scroll_into_view_if_needed()
    before = steps.inner_text()
    cell(page, 2).locator("button[aria-label^='one step (right)']").click()
    until(
        page,
        lambda: steps.inner_text() != before,
        "a recorded step cannot be walked after a restart",
    )
    for number in (0, 1, 4):
        run(page, number)
    until(
        page,
        lambda: cell(page, 4).locator(".xl-report [role=tab]").count(),
        "no report after the restart",
    )
    context.close()
    assert not [e for e in errors if "xl" in e], errors
