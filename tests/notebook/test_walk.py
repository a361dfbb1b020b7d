"""A walk through JupyterLab as a person takes it: the tour, every tab, the stepper, one selection everywhere, light and dark."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CELLS = [
    "%load_ext xlab",
    "import numpy as np\nimport xlab\nfrom xlab import nn\nfrom xlab import numpy as jnp\n"
    "x, w = jnp.ones((8, 4)), jnp.ones((4, 2))",
    "def model(w, x):\n    h = nn.gelu(x @ w)\n    return jnp.sum(h * h)",
    "%%xjit --mesh data=4,model=2 --in 'x=data,None; w=None,model'\nloss, slope = xlab.value_and_grad(model)(w, x)",
    "%xstep model(w, x)",
    "print('the end of', 'the walk')",
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab of its own, on a folder with a small notebook and the tour."""
    if find_spec("jupyterlab") is None:
        pytest.skip("JupyterLab is not installed (pip install 'xlab[lab]')")
    home = tmp_path_factory.mktemp("lab")
    work = home / "work"
    work.mkdir()
    cells = [{"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": text, "execution_count": None, "outputs": []}
             for i, text in enumerate(CELLS)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    (work / "walk.ipynb").write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
    (work / "tour.ipynb").write_text((ROOT / "notebooks" / "00_tour.ipynb").read_text())
    settings = home / "settings" / "@jupyterlab"
    for name, values in {"notebook-extension/tracker": {"windowingMode": "none"},
                         "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False}}.items():
        file = settings / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = dict(os.environ, HOME=str(home), JUPYTER_CONFIG_DIR=str(home / "config"), IPYTHONDIR=str(home / "ipython"),
                       JUPYTER_RUNTIME_DIR=str(home / "runtime"), JUPYTERLAB_SETTINGS_DIR=str(home / "settings"), XLAB_NUM_CPU_DEVICES="8",
                       PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1",
               "--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={work}",
               "--LabApp.news_url=None"]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=work)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{url}/api", timeout=2).read()
                break
            except OSError:
                assert server.poll() is None, (home / "log").read_text()[-3000:]
                time.sleep(0.5)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def open_and_run(page, url, name, words, timeout=120_000):
    """Opens a notebook, runs all its cells, waits for what the last one prints."""
    page.goto(f"{url}/lab/tree/{name}?reset")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=60_000)
    choose(page, "Run", "Run All Cells")
    if words:
        page.locator(".jp-OutputArea-output", has_text=words).last.wait_for(timeout=timeout)


def choose(page, *words):
    """Walks down a menu: Run, Run All Cells."""
    page.locator(".lm-MenuBar-itemLabel", has_text=words[0]).first.click()
    for word in words[1:]:
        page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{re.escape(word)}$")).first.click()


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.notebook
def test_the_walk(lab, browser, tmp_path):
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_and_run(page, lab, "walk.ipynb", "the end of the walk")
    report = page.locator(".xl-report").first
    report.wait_for(timeout=30_000)
    report.scroll_into_view_if_needed()

    # Each tab opens its panel, and only its own.
    for title in ("Shardings", "Collectives", "Timings", "Memory", "Program"):
        report.locator("[role=tab]", has_text=title).click()
        assert report.locator("[role=tab][aria-selected=true]").inner_text() == title
        assert report.locator(".xl-panel:visible").count() == 1
    report.locator("[role=tab]", has_text="Collectives").click()
    report.locator(".xl-panel:visible", has_text=re.compile("all.reduce|psum")).wait_for(timeout=5_000)
    report.locator("[role=tab]", has_text="Program").click()

    # One equation, chosen in the jaxpr, is lit in Python, jaxpr and compiled code.
    columns = report.locator(".xl-column:visible")
    columns.nth(1).locator(".xl-row", has_text="dot_general").first.click()
    for i in range(3):
        assert columns.nth(i).locator(".xl-sel, .xl-lit, .xl-linked").count() >= 1, f"column {i} is dark"
    page.screenshot(path=tmp_path / "report-light.png")

    # The stepper walks forwards and back.
    steps = page.locator(".xl-place").last
    steps.scroll_into_view_if_needed()
    before = steps.inner_text()
    page.locator(".jp-Notebook button[aria-label^='one step (right)']").last.click()
    page.wait_for_timeout(300)
    assert steps.inner_text() != before
    page.locator(".jp-Notebook button[aria-label^='one step back']").last.click()
    page.wait_for_timeout(300)
    assert steps.inner_text() == before
    page.screenshot(path=tmp_path / "stepper-light.png")

    choose(page, "Settings", "Theme", "JupyterLab Dark")
    page.locator(".xl-report[data-theme=dark]").first.wait_for(timeout=20_000)
    page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=20_000)
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
    open_and_run(page, lab, "tour.ipynb", "")
    for _ in range(240):       # until every cell has its number, or one has failed
        prompts = page.locator(".jp-CodeCell .jp-InputArea-prompt").all_inner_texts()
        failed = page.locator(".jp-RenderedText pre", has_text="Traceback").count()
        if failed or all(re.match(r"\[\d+\]", prompt) for prompt in prompts):
            break
        page.wait_for_timeout(500)
    assert failed == 0 and len(prompts) > 20 and "[*]:" not in prompts
    assert page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']").count() == 0
    assert page.locator(".xl-report").count() >= 5
    page.screenshot(path=tmp_path / "tour.png")
    context.close()
