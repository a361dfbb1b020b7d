"""Outputs in Colab and in VS Code, of real kernels, in pages that treat them as these hosts are known to."""

from __future__ import annotations

import pytest

from tests.notebook.kernels import kernel

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.notebook]
COLAB = "import sys, types\nsys.modules['google.colab'] = types.ModuleType('google.colab')"
SETUP = """%load_ext xlab
import xlab
from xlab import numpy as jnp
mesh = xlab.make_mesh((4, 2), ('data', 'model'), axis_types=(xlab.sharding.AxisType.Auto,) * 2)
x = xlab.device_put(jnp.ones((8, 4)), xlab.NamedSharding(mesh, xlab.P('data', 'model')))
def f(x):
    return jnp.sum(jnp.tanh(x) * 2)"""
CELLS = ["%%xjit\ny = f(x)", "%%xjit\ny = f(x) + 1", "%xstep f(x)", "%xshard x", "mesh"]
SCRIPTED = 4
"""Of these cells the first four come alive; the picture of a mesh has no script."""
WIDGET = "application/vnd.jupyter.widget-view+json"

APART = """(source) => {
  const made = Object.assign(document.createElement("template"), { innerHTML: source }).content;
  const scripts = [...made.querySelectorAll("script")];
  for (const script of scripts) script.remove();
  document.body.append(Object.assign(document.createElement("div"), {}));
  document.body.lastChild.append(made);
  for (const script of scripts) {
    const run = document.createElement("script");
    for (const { name, value } of script.attributes) run.setAttribute(name, value);
    run.textContent = script.textContent;
    document.head.append(run);
    run.remove();
  }
}"""
"""An output is put into a page as Colab does: scripts are taken out, and run when all else stands there. Then they are gone."""

TOGETHER = """(sources) => {
  for (const source of sources) {
    const made = document.createElement("div");
    made.innerHTML = source;
    document.body.append(made);
    for (const script of made.querySelectorAll("script")) {
      const run = document.createElement("script");
      for (const { name, value } of script.attributes) run.setAttribute(name, value);
      run.textContent = script.textContent;
      script.replaceWith(run);
    }
  }
}"""
"""Outputs of all cells in one page, whose scripts are put there again so that they run: as in the page of a notebook of VS Code."""


def outputs(folder, cell, *first: str) -> list[dict[str, str]]:
    """What each of the cells displays in a kernel that a front end asks, naming its cell or not."""
    with kernel(folder) as k:
        for source in (*first, SETUP):
            k.run(source, cell and f"{cell} first")
        found = []
        for n, source in enumerate(CELLS):
            answer = k.run(source, cell and f"{cell} {n}")
            shown = [o["data"] for o in (*answer.displays, *answer.results) if "text/html" in o["data"]]  # fmt: skip
            found.append(shown[-1])
    assert not [data for data in found if WIDGET in data], "no host without our extension shows it"
    return found


def page_of(browser, complaints: list[str], root: str = "", body: str = ""):
    page = browser.new_page(viewport={"width": 1000, "height": 700}, color_scheme="light")
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.set_content(f"<!doctype html><html {root}><body {body}></body></html>")
    return page


def test_an_output_of_colab_is_alive_alone(browser, tmp_path):
    """Each in a frame of its own with no script of another cell, in the notebook's theme; opened in JupyterLab it has its script too."""
    shown = outputs(tmp_path, None, COLAB)
    complaints: list[str] = []
    for n, data in enumerate(shown):
        theme = "light" if n == 1 else "dark"
        page = page_of(browser, complaints, root=f'theme="{theme}"')
        page.evaluate(APART, data["text/html"])
        if n < SCRIPTED:
            frame = page.locator(".xl-saved > iframe")
            alive = frame.content_frame.locator(f".xl-report.xl-live[data-theme={theme}]")
            alive.wait_for()
            tall = alive.bounding_box()["height"]
            page.wait_for_function(
                "(tall) => Math.abs(document.querySelector('iframe').offsetHeight - tall) < 5",
                arg=tall,
            )
        else:
            drawn = page.locator(".xl-saved > .xl")
            assert drawn.evaluate("node => getComputedStyle(node).colorScheme") == "dark"
        page.close()
    page = page_of(browser, complaints, root='theme="dark"')
    for data in shown[:2]:  # one cell with two outputs
        page.evaluate(APART, data["text/html"])
    for i in range(2):
        page.locator(".xl-saved > iframe").nth(i).scroll_into_view_if_needed()
        page.locator(".xl-saved > iframe").nth(i).content_frame.locator(".xl-live").wait_for()
    page.close()
    assert not complaints
    for data in shown[:SCRIPTED]:
        assert data["text/html"].count('data-xl-code="x') == 1
    assert shown[0]["text/plain"].strip() and "<" not in shown[0]["text/plain"][:1]


def test_outputs_of_vs_code_share_one_script(browser, tmp_path):
    """Its page has all outputs of a notebook, and says its theme in a class."""
    shown = outputs(tmp_path, "vscode-notebook-cell:/w.ipynb#")
    carried = [data["text/html"].count('data-xl-code="x') for data in shown]
    assert carried == [1, 0, 1, 0, 0], "the second report has the script of the first"
    complaints: list[str] = []
    for theme in ("dark", "light"):
        page = page_of(browser, complaints, body=f'class="vscode-{theme}"')
        page.emulate_media(color_scheme="light" if theme == "dark" else "dark")
        page.evaluate(TOGETHER, [data["text/html"] for data in shown])
        frames = page.locator(".xl-saved > iframe")
        assert frames.count() == SCRIPTED
        for i in range(SCRIPTED):
            frames.nth(i).scroll_into_view_if_needed()
            frames.nth(i).content_frame.locator(f".xl-live[data-theme={theme}]").wait_for()
        drawn = page.locator(".xl-saved > .xl")
        assert drawn.evaluate("node => getComputedStyle(node).colorScheme") == theme
        page.close()
    assert not complaints
