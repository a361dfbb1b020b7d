"""Outputs where the kernel does not answer: while it is busy, after it has ended, in somebody else's Lab."""

from __future__ import annotations

import json

import pytest

from tests.notebook.labs import LONG, SHORT, command, kernel_of, open_and_run, started, until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.notebook]
CELLS = [
    "%load_ext xlab",
    "import time\nimport xlab\nfrom xlab import numpy as jnp\nx = jnp.ones((8, 4))\ndef f(x):\n    return jnp.sum(jnp.tanh(x) * 2)",
    "%%xjit\ny = f(x)",
    "%xstep f(x)",
    "%xshard x",
]
VIEWS = 3
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    yield page
    context.close()
    assert not page.complaints


FORTY = [
    text
    for i in range(13)
    for text in (
        f"%%xjit\ny = f(x) + {i}",
        f"%xstep f(x + {i})",
        f"%xshard x[:, : {1 + i % 4}]",
    )
] + ["%xladder f(x)"]
BUSY = """import pathlib
while not pathlib.Path('seen').exists():
    time.sleep(0.1)"""

SEEN = """(first) => [...document.querySelectorAll(".jp-CodeCell")].slice(first, first + 40).map((cell) => {
  const live = cell.querySelector(".xl-report.xl-live");
  const saved = cell.querySelector(".xl-saved iframe")?.contentDocument?.querySelector(".xl-report");
  const page = live ?? saved;
  const wrong = /Error displaying widget|could not start|✕|Traceback/.exec(cell.querySelector(".jp-OutputArea")?.innerText ?? "");
  return [live ? "live" : saved ? "saved" : "", (page?.innerText ?? "").length, wrong?.[0] ?? ""];
})"""
"""Of each of forty cells which page stands there, how long its words are, and what it says is wrong."""


def test_forty_views_stand_while_the_kernel_is_busy_and_are_alive_afterwards(lab, page):
    """For longer than a view waits for an answer; in the page that ran them, and in one that is opened meanwhile."""
    cells = [*CELLS[:2], *FORTY, BUSY, "print('the end of', 'the wait')"]
    open_and_run(page, lab, lab.write("busy.ipynb", cells), "")

    def stand(*hows):
        """Whether a page of such a kind is in every output; nothing may ever be wrong in one."""
        seen = page.evaluate(SEEN, 2)
        assert not [wrong for *_, wrong in seen if wrong], seen
        return sum(how in hows and words > 40 for how, words, _ in seen) == 40

    try:
        until(page, lambda: stand("live"), "a view waits for the kernel")
        command(page, "docmanager:save")
        page.reload()
        page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=LONG)
        until(page, lambda: stand("live", "saved"), "a page that is opened waits for the kernel")
        for _ in range(8):  # sixteen seconds
            page.wait_for_timeout(2000)
            assert stand("live", "saved"), "a page that stood is gone"
        assert kernel_of(lab, "busy.ipynb")["execution_state"] == "busy"
    finally:
        (lab.work / "seen").touch()
    until(page, lambda: stand("live"), "not all views are alive")
    last = page.locator(".jp-CodeCell").nth(2 + 37)
    last.get_by_label("one step (right)").click()
    last.get_by_role("button", name="values").first.click()
    until(page, lambda: last.locator(".xl-entries:visible").count(), "the kernel does not answer")


def test_a_notebook_opened_again_draws_what_was_saved(lab, page):
    """With its kernel gone, and in the Lab of somebody who did not run it: there its frames can reach nothing."""
    name = lab.write("again.ipynb", [*CELLS, "print('the end of', 'the run')"])
    open_and_run(page, lab, name, "the end of the run")
    until(
        page,
        lambda: page.locator(".jp-OutputArea .xl-live").count() == VIEWS,
        "not all views are drawn",
    )
    command(page, "docmanager:save")
    was = kernel_of(lab, name)["id"]
    page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
    until(page, lambda: kernel_of(lab, name).get("id") != was, "the kernel does not end")
    given = json.loads((lab.work / name).read_text())
    kinds = [set(o["data"]) for c in given["cells"] for o in c["outputs"] if "data" in o]
    assert not [k for k in kinds if WIDGET in k], (
        "a Lab without this extension would show an error in place of the page"
    )
    given["cells"][0]["source"] = "# somebody else's"
    (lab.work / "given.ipynb").write_text(json.dumps(given))

    for opened, sandboxed in ((name, False), ("given.ipynb", True)):
        page.goto(f"{lab}/lab/tree/{opened}?reset")
        frames = page.locator(".jp-OutputArea .xl-saved iframe")
        until(
            page,
            lambda frames=frames: frames.count() == VIEWS,
            f"{opened}: not all saved pages stand there",
        )
        for i in range(VIEWS):
            frames.nth(i).scroll_into_view_if_needed(timeout=SHORT)
            frames.nth(i).content_frame.locator(".xl-live, .xl").first.wait_for(timeout=SHORT)
            assert (frames.nth(i).get_attribute("sandbox") == "allow-scripts") == sandboxed
        tall = frames.nth(0).content_frame.locator(".xl-report").bounding_box()["height"]
        until(
            page,
            lambda frames=frames, tall=tall: (
                abs(frames.nth(0).bounding_box()["height"] - tall) < 30
            ),
            f"{opened}: the frame does not fit",
        )
        assert not page.locator(".jp-OutputArea", has_text="Error displaying widget").count()


def test_a_lab_without_the_extension_shows_the_page(browser, tmp_path):
    """Lab and kernel in two environments: nothing asks the kernel there, and nothing is an error, at once or opened again."""
    with started(tmp_path, extension=False) as lab:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        name = lab.write("bare.ipynb", [*CELLS, "print('the end of', 'the run')"])
        open_and_run(page, lab, name, "the end of the run")
        command(page, "docmanager:save")
        for opened in ("at once", "again"):
            drawn = page.locator(".jp-OutputArea .xl-saved")
            until(
                page,
                lambda drawn=drawn: drawn.count() == VIEWS,
                f"{opened}: not all pages stand there",
            )
            first = drawn.nth(0)
            first.scroll_into_view_if_needed(timeout=SHORT)
            first.locator("iframe").first.content_frame.locator(
                ".xl-live [role=tab]"
            ).first.wait_for(timeout=SHORT)
            assert not page.locator(".jp-OutputArea", has_text="Error displaying widget").count()
            if opened == "at once":
                page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
                page.goto(f"{lab}/lab/tree/{name}?reset")
        page.close()


def test_views_are_alive_where_cells_leave_the_page(browser, tmp_path):
    """As Lab comes: cells out of sight are taken from the page, and put there again when they are scrolled to."""
    cells = [text for i in range(12) for text in (f"%%xjit\ny = f(x) + {i}", "print('\\n' * 30)")]
    with started(tmp_path, windowing="full") as lab:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        open_and_run(
            page,
            lab,
            lab.write("long.ipynb", [*CELLS[:2], *cells, "print('the end of', 'the run')"]),
            "",
        )
        page.locator(".jp-Notebook").first.click(position={"x": 5, "y": 300})
        for where in ("notebook:move-cursor-down", "notebook:move-cursor-up") * 2:
            for _ in range(len(cells) + 4):
                command(page, where)
                page.wait_for_timeout(60)
            shown = page.locator(".jp-OutputArea .xl-live")
            until(page, lambda shown=shown: shown.count() >= 1, "no view in sight is alive")
            assert not page.locator(".jp-OutputArea", has_text="Error displaying widget").count()
        page.close()


def test_with_no_kernel_every_display_is_read(lab, browser):
    """One that the reader ran, opened for no kernel to start; and somebody else's, whose kernel is not installed and none is chosen."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    faults: list[str] = []  # Lab itself has some where no kernel is
    page.on("pageerror", lambda error: faults.append(f"{error} {error.stack}"))
    name = lab.write("none.ipynb", [*CELLS, "mesh", "print('the end of', 'the run')"])
    text = (lab.work / name).read_text().replace('"mesh"', "\"xlab.make_mesh((2,), ('data',))\"")
    (lab.work / name).write_text(text)
    open_and_run(page, lab, name, "the end of the run")
    live = page.locator(".jp-OutputArea .xl-live")
    until(page, lambda: live.count() == VIEWS, "not all views are drawn")
    command(page, "docmanager:save")
    given = json.loads((lab.work / name).read_text())
    given["metadata"] = {
        "kernelspec": {"name": "gone", "display_name": "Gone", "language": "of-no-kernel"},
        "language_info": {"name": "of-no-kernel"},
    }
    (lab.work / "gone.ipynb").write_text(json.dumps(given))
    page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
    until(page, lambda: not kernel_of(lab, name).get("connections"), "the kernel does not end")

    def reads(opened):
        kernel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-KernelName")
        until(page, lambda: kernel.inner_text() == "No Kernel", f"{opened}: it has a kernel")
        notebook = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        frames = notebook.locator(".jp-OutputArea .xl-saved iframe")
        until(page, lambda: frames.count() >= VIEWS, f"{opened}: not all saved pages stand there")
        for i in range(frames.count()):
            frames.nth(i).scroll_into_view_if_needed(timeout=SHORT)
            drawn = frames.nth(i).content_frame.locator(".xl")
            drawn.wait_for(timeout=SHORT)
            assert len(drawn.inner_text()) > 10
        frames.nth(0).content_frame.locator(".xl-live [role=tab]", has_text="Memory").click()
        frames.nth(0).content_frame.locator("[data-tab=memory]:visible").wait_for(timeout=SHORT)
        page.wait_for_timeout(1000)
        assert kernel.inner_text() == "No Kernel"
        said = notebook.locator(".jp-OutputArea").all_inner_texts()
        wrong = ("Error", "Traceback", "✕", "could not start", "answers")
        assert not [words for words in said if any(w in words for w in wrong)], opened

    page.goto(f"{lab}/lab?reset")
    page.wait_for_function("globalThis.jupyterapp?.restored.then(() => true)")
    command(page, "docmanager:open", path=name, kernelPreference={"shouldStart": False})
    reads(name)
    page.goto(f"{lab}/lab/tree/gone.ipynb?reset")
    dialog = page.locator(".jp-Dialog", has_text="Select Kernel")
    dialog.locator("select").select_option(label="No Kernel")
    dialog.locator("button.jp-mod-accept").click()
    reads("gone.ipynb")
    assert not [fault for fault in faults if "xlab" in fault]
    page.close()
