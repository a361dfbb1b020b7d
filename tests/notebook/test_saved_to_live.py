"""A saved output comes alive where it stands: nothing on the page moves, and the tab that was open stays open."""

from __future__ import annotations

import pytest

from tests.notebook.labs import LONG, SHORT, command, kernel_of, open_and_run, until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.notebook]
CELLS = [
    "import os\nos.environ['XLAB_NUM_CPU_DEVICES'] = '8'\n%load_ext xlab",
    "import pathlib, time\nimport xlab\nfrom xlab import numpy as jnp\n"
    "mesh = xlab.make_mesh((4, 2), ('data', 'model'), axis_types=(xlab.sharding.AxisType.Auto,) * 2)\n"
    "x = xlab.device_put(jnp.ones((8, 4)), xlab.NamedSharding(mesh, xlab.P('data', 'model')))\n"
    "def f(x):\n    return jnp.sum(jnp.tanh(x) * 2)",
    "%%xjit\ny = f(x)",
    "%xstep f(jnp.ones((8, 4)))",
    "%xshard x",
    "while not pathlib.Path('jump').exists():\n    time.sleep(0.1)",
    "print('the end of', 'the wait')",
]
PLACES = """() => [...document.querySelectorAll(".jp-CodeCell")].slice(2, 6).map((cell) => {
  const output = cell.querySelector(".jp-OutputArea-output") ?? cell;
  const seen = (output.querySelector(".xl-saved iframe") ?? output.querySelector(".xl-report") ?? output).getBoundingClientRect();
  return [cell.getBoundingClientRect().top, seen.top, seen.height, cell.getBoundingClientRect().height];
})"""
"""Of three views and the cell below them: where the cell and its picture stand, and how tall they are."""


def test_life_is_attached_without_a_jump(lab, browser):
    """The kernel is busy when the notebook is opened, so that its saved pages stand there; then it is free."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    name = lab.write("jump.ipynb", CELLS)
    try:
        open_and_run(page, lab, name, "")
        live = page.locator(".jp-OutputArea .xl-report.xl-live")
        until(page, lambda: live.count() == 3, "not all views are drawn")
        until(page, lambda: kernel_of(lab, name)["execution_state"] == "busy", "the kernel waits")
        command(page, "docmanager:save")
        page.goto(f"{lab}/lab/tree/{name}?reset")
        page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=LONG)
        frames = page.locator(".jp-OutputArea .xl-saved iframe")
        until(page, lambda: frames.count() == 3, "not all saved pages stand there")
        for i in range(3):
            frames.nth(i).scroll_into_view_if_needed(timeout=SHORT)
            frames.nth(i).content_frame.locator(".xl-live").wait_for(timeout=SHORT)
        frames.nth(0).content_frame.get_by_role("tab", name="Memory").click()
        page.locator(".jp-CodeCell").nth(3).scroll_into_view_if_needed(timeout=SHORT)
        page.wait_for_timeout(500)
        before = page.evaluate(PLACES)
        assert not live.count(), "the kernel is busy"
    finally:
        (lab.work / "jump").touch()
    until(page, lambda: live.count() == 3 and not frames.count(), "not all views are alive")
    page.wait_for_timeout(500)
    after = page.evaluate(PLACES)
    moved = [
        (i, was, now)
        for i, (was, now) in enumerate(zip(before, after, strict=True))
        if any(abs(a - b) > 1 for a, b in zip(was, now, strict=True))
    ]
    assert not moved
    assert live.nth(0).get_by_role("tab", selected=True).inner_text() == "Memory"
    for i in range(3):  # used, it is as tall as what is in it
        live.nth(i).click(position={"x": 3, "y": 3})
    free = page.evaluate(PLACES)
    assert all(abs(was[2] - now[2]) < 30 for was, now in zip(before[:3], free[:3], strict=True))
    assert not page.locator(".jp-OutputArea [style*='hidden auto']").count()
    page.close()


SLOW_POLLS = """(() => {
  const whole = globalThis.setTimeout;
  globalThis.setTimeout = (f, wait, ...given) => whole(f, wait === 100 ? 4000 : wait, ...given);
})()"""
"""JupyterLab looks for a widget every 100 ms and gives up after two seconds: so its last look is over before the kernel has answered."""


def test_a_view_is_drawn_that_comes_as_the_page_gives_up(lab, browser):
    """A kernel that answers in the last tenth of a second that JupyterLab waits: then it says that there is no such widget, for good."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    name = lab.write("given_up.ipynb", [*CELLS[:5], CELLS[-1]])
    open_and_run(page, lab, name, "the end of the wait")
    live = page.locator(".jp-OutputArea .xl-report.xl-live")
    until(page, lambda: live.count() == 3, "not all views are drawn")
    command(page, "docmanager:save")
    given_up = []
    page.on(
        "console",
        lambda said: given_up.append(said) if "widget model not found" in said.text else None,
    )
    page.add_init_script(SLOW_POLLS)
    page.goto(f"{lab}/lab/tree/{name}?reset")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=LONG)
    until(page, lambda: len(given_up) == 3, "JupyterLab has waited for long enough")
    until(page, lambda: live.count() == 3, "a view is given up")
    page.close()
