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
SHORT = 30_000    # milliseconds: an answer of the page itself
LONG = 240_000     # milliseconds: what a loaded machine may take; a condition that holds ends the wait at once
CELLS = [
    "%load_ext xlab",
    "import numpy as np\nimport xlab\nfrom xlab import nn\nfrom xlab import numpy as jnp\n"
    "x, w = jnp.ones((8, 4)), jnp.ones((4, 2))",
    "def model(w, x):\n    h = nn.gelu(x @ w)\n    return jnp.sum(h * h)",
    "%%xjit --mesh data=4,model=2 --in 'x=data,None; w=None,model'\nloss, slope = xlab.value_and_grad(model)(w, x)",
    "%xstep model(w, x)",
    "print('the end of', 'the walk')",
]


class Lab(str):
    """Where a JupyterLab answers, and the folder it shows."""
    work: Path


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
        end = time.monotonic() + LONG / 1000
        while True:
            try:
                urllib.request.urlopen(f"{url}/api", timeout=10).read()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < end, (home / "log").read_text()[-3000:]
                time.sleep(0.5)
        made = Lab(url)
        made.work = work
        yield made
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def open_and_run(page, url, name, words):
    """Opens a notebook, runs all its cells, waits for what the last one prints."""
    page.goto(f"{url}/lab/tree/{name}?reset")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=LONG)
    # The page shows an idle kernel before it has one: run then, and it asks which kernel to take.
    until(page, lambda: kernel_is_ready(url, name), f"{name} has no idle kernel")
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=LONG)
    choose(page, "Run", "Run All Cells")
    first = page.locator(".jp-CodeCell .jp-InputArea-prompt").first
    accept = page.locator(".jp-Dialog", has_text="Select Kernel").locator("button.jp-mod-accept")

    def begun():
        if accept.count():
            accept.click()
        return re.match(r"\[[\d*]+\]", first.inner_text())

    until(page, begun, f"the first cell of {name} does not run")
    if words:
        page.locator(".jp-OutputArea-output", has_text=words).last.wait_for(timeout=LONG)


def kernel_is_ready(url, name):
    """Whether the server has a kernel for this notebook, idle and with the page connected to it."""
    with urllib.request.urlopen(f"{url}/api/sessions", timeout=10) as answer:
        kernels = [session["kernel"] for session in json.load(answer) if session["path"] == name]
    return any(kernel["execution_state"] == "idle" and kernel["connections"] for kernel in kernels)


def until(page, condition, otherwise):
    """Lets the page live until `condition()` holds; fails with `otherwise` when it never does."""
    end = time.monotonic() + LONG / 1000
    while not condition():
        assert time.monotonic() < end, otherwise
        page.wait_for_timeout(200)


def choose(page, *words):
    """Walks down a menu: Run, Run All Cells."""
    page.locator(".lm-MenuBar-itemLabel", has_text=words[0]).first.click()
    for word in words[1:]:
        page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{re.escape(word)}$")).first.click()


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.notebook
def test_the_walk(lab, browser, tmp_path):
    from playwright.sync_api import expect

    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_and_run(page, lab, "walk.ipynb", "the end of the walk")
    report = page.locator(".xl-report").first
    report.wait_for(timeout=LONG)
    report.scroll_into_view_if_needed()

    # Each tab opens its panel, and only its own.
    for title in ("Shardings", "Collectives", "Timings", "Memory", "Program"):
        report.locator("[role=tab]", has_text=title).click()
        expect(report.locator("[role=tab][aria-selected=true]")).to_have_text(title, timeout=SHORT)
        expect(report.locator(".xl-panel:visible")).to_have_count(1, timeout=SHORT)
    report.locator("[role=tab]", has_text="Collectives").click()
    report.locator(".xl-panel:visible", has_text=re.compile("all.reduce|psum")).wait_for(timeout=SHORT)
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
    open_and_run(page, lab, "tour.ipynb", "")
    prompts = page.locator(".jp-CodeCell .jp-InputArea-prompt")
    failed = page.locator(".jp-RenderedText pre", has_text="Traceback")
    until(page, lambda: failed.count() or all(re.match(r"\[\d+\]", text) for text in prompts.all_inner_texts()),
          "the tour does not end")
    assert failed.count() == 0 and prompts.count() > 20
    # A report is drawn by its widget, which may come after the cell's number.
    reports = page.locator(".xl-report")
    until(page, lambda: reports.count() >= 5, "fewer than five reports are drawn")
    assert page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']").count() == 0
    page.screenshot(path=tmp_path / "tour.png")
    context.close()
