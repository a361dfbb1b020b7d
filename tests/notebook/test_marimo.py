"""marimo serves a notebook: every object and record that has a view shows it, alive, in marimo's theme."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from tests.notebook.labs import LONG, ROOT, answering, free_port, until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.notebook]
APP = """import marimo

app = marimo.App()


@app.cell
def _():
    import xlab
    from xlab import numpy as jnp, observe
    mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)
    x = xlab.device_put(jnp.ones((8, 4)), xlab.NamedSharding(mesh, xlab.P("data")))
    f = xlab.jit(lambda x: jnp.sum(jnp.tanh(x)), name="wave")
    x
    return f, mesh, observe, x, xlab


@app.cell
def _(mesh):
    mesh
    return


@app.cell
def _(f, observe, x):
    with observe.record() as session:
        f(x)
    observe.report(session)
    return


@app.cell
def _(f, observe, x, xlab):
    xlab.notebook.show(observe.program(f, x))
    return


@app.cell
def _(f, observe, x):
    observe.trace(f, x)
    return


@app.cell
def _(f, x):
    f.trace(x).jaxpr
    return


if __name__ == "__main__":
    app.run()
"""
FRAMES = 6


@contextmanager
def served(folder, theme: str):
    """Where a marimo of its own answers that serves the notebook."""
    (folder / "pyproject.toml").write_text(f'[tool.marimo.display]\ntheme = "{theme}"\n')
    (folder / "app.py").write_text(APP)
    port = free_port()
    environment = dict(os.environ, HOME=str(folder), XLAB_NUM_CPU_DEVICES="8")
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )
    command = [sys.executable, "-m", "marimo", "-q", "run", "app.py", "--headless", "--no-token", "--host=127.0.0.1", f"--port={port}"]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with answering(command, environment, folder, folder / "log", url, "health"):
        yield url


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_views_are_alive(theme, browser, tmp_path):
    """In the theme of marimo, where the system's is the other one."""
    if find_spec("marimo") is None:
        pytest.skip("marimo is not installed (pip install marimo)")
    from playwright.sync_api import expect

    with served(tmp_path, theme) as url:
        other = "light" if theme == "dark" else "dark"
        page = browser.new_page(viewport={"width": 1280, "height": 1000}, color_scheme=other)
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        frames = page.locator("iframe")
        until(page, lambda: frames.count() == FRAMES, "not every cell shows its view")
        for i in range(FRAMES):
            frames.nth(i).scroll_into_view_if_needed()
            shown = frames.nth(i).content_frame.locator(".xl").first
            shown.wait_for(timeout=LONG)
            expect(shown).to_have_css("color-scheme", theme, timeout=LONG)
            assert frames.nth(i).bounding_box()["height"] > 100
        report = frames.nth(2).content_frame
        report.locator("[role=tab]", has_text="Program").click()
        report.locator(".xl-row:has(.xl-op):visible").first.click()
        assert report.locator(".xl-row.xl-sel:visible").count()
        assert page.locator("text=/Traceback|marimo-error|this view failed/").count() == 0
        page.screenshot(path=tmp_path / "marimo.png")
        page.close()
        assert complaints == []
