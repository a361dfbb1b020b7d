"""A real JupyterLab in a process of its own, and what a person does there."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.notebook.kernels import value_beside

ROOT = Path(__file__).resolve().parents[2]
SHORT = 30_000  # milliseconds: an answer of the page itself
LONG = 240_000  # milliseconds: what a loaded machine may take; a condition that holds ends the wait at once


class Lab(str):
    """Where a JupyterLab answers, and the folder it shows."""

    work: Path

    def write(self, name: str, cells: list[str]) -> str:
        """Puts a notebook of these cells there."""
        made = [
            {
                "cell_type": "code",
                "id": f"c{i}",
                "metadata": {},
                "source": text,
                "execution_count": None,
                "outputs": [],
            }
            for i, text in enumerate(cells)
        ]
        kernel = {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        }
        (self.work / name).write_text(
            json.dumps({"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})
        )
        return name

    def value(self, name: str, expression: str) -> object:
        """What an expression is in a notebook's kernel, with no cell for it."""
        running = kernel_of(self, name)["id"]
        file = next(self.work.parent.rglob(f"kernel-{running}.json"))
        return value_beside(file, expression, LONG / 1000)


@contextmanager
def started(
    home: Path, windowing: str = "none", extension: bool = True, app: str = "jupyterlab"
) -> Iterator[Lab]:
    """A JupyterLab of its own in a folder, or a Notebook 7; by default all cells of a notebook are in its page, and xlab is installed beside it."""
    work = home / "work"
    work.mkdir()
    settings = home / "settings" / "@jupyterlab"
    for name, values in {
        "notebook-extension/tracker": {"windowingMode": windowing},
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    }.items():
        file = settings / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    extensions = home / "share" / "labextensions"
    extensions.mkdir(parents=True)
    (extensions / "xlab").symlink_to(ROOT / "xlab" / "notebook" / "labextension")
    if not extension:  # one that is installed in Lab's own environment either
        config = home / "config" / "labconfig" / "page_config.json"
        config.parent.mkdir(parents=True)
        config.write_text(json.dumps({"disabledExtensions": {"xlab": True}}))
    port = free_port()
    environment = dict(
        os.environ,
        HOME=str(home),
        JUPYTER_CONFIG_DIR=str(home / "config"),
        IPYTHONDIR=str(home / "ipython"),
        JUPYTER_PATH=str(extensions.parent),
        JUPYTER_RUNTIME_DIR=str(home / "runtime"),
        JUPYTERLAB_SETTINGS_DIR=str(home / "settings"),
        XLAB_NUM_CPU_DEVICES="8",
        PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    )
    command = [
        sys.executable,
        "-m",
        app,
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        "--ip=127.0.0.1",
        "--IdentityProvider.token=",
        "--ServerApp.password=",
        f"--ServerApp.root_dir={work}",
        "--LabApp.news_url=None",
        f"--{'LabApp' if app == 'jupyterlab' else 'JupyterNotebookApp'}.expose_app_in_browser=True",
    ]
    with answering(
        command, environment, work, home / "log", f"http://127.0.0.1:{port}", "api"
    ) as url:
        made = Lab(url)
        made.work = work
        yield made


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def answering(
    command: list[str], environment: dict, folder: Path, said: Path, url: str, path: str
) -> Iterator[str]:
    """A server in a process of its own, from its first answer at `url/path` on; what it says goes into a file."""
    with said.open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        end = time.monotonic() + LONG / 1000
        while True:
            try:
                urllib.request.urlopen(f"{url}/{path}", timeout=10).read()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < end, said.read_text()[-3000:]
                time.sleep(0.3)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def open_and_run(page, url, name, words, at="lab/tree"):
    """Opens a notebook, runs all its cells, waits for what the last one prints."""
    page.goto(f"{url}/{at}/{name}?reset")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=LONG)
    # The page shows an idle kernel before it has one: run then, and it asks which kernel to take.
    until(page, lambda: kernel_is_ready(url, name), f"{name} has no idle kernel")
    if at == "lab/tree":
        idle = page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")
        idle.first.wait_for(timeout=LONG)
    choose(page, "Run", "Run All Cells")
    first = page.locator(".jp-CodeCell .jp-InputArea-prompt").first
    accept = page.locator(".jp-Dialog", has_text="Select Kernel").locator("button.jp-mod-accept")

    def begun():
        if accept.count():
            accept.click()
        return re.match(r"\[[\d*]+\]", first.inner_text())

    until(page, begun, f"the first cell of {name} does not run")
    if words:
        said = page.locator(".jp-OutputArea-output", has_text=words)
        failed = page.locator(
            ".jp-OutputArea-output pre", has_text="Traceback (most recent call last)"
        )
        until(page, lambda: said.count() or failed.count(), f"{name} does not come to its end")
        assert not failed.count(), failed.first.inner_text()


def kernel_of(url, name):
    """What the server says of a notebook's kernel; nothing before it has one."""
    with urllib.request.urlopen(f"{url}/api/sessions", timeout=10) as answer:
        return next(
            (session["kernel"] for session in json.load(answer) if session["path"] == name), {}
        )


def kernel_is_ready(url, name):
    """Whether the server has a kernel for this notebook, idle and with the page connected to it."""
    kernel = kernel_of(url, name)
    return kernel.get("execution_state") == "idle" and kernel["connections"]


def command(page, name, **arguments):
    """Has JupyterLab do what a menu or a key would; ends when it is done."""
    page.evaluate(
        "([name, given]) => jupyterapp.commands.execute(name, given).then(() => null)",
        [name, arguments],
    )


PROMPT_TO_LINE = r"""(i) => new Promise((done) => {
  const notebook = jupyterapp.shell.currentWidget.content;
  const { node } = notebook.widgets[i];
  notebook.activeCellIndex = i;
  notebook.deselectAll();
  const began = performance.now();
  jupyterapp.commands.execute("notebook:run-cell");
  let prompt = 0;
  const look = () => {
    const now = performance.now();
    if (!prompt && /^\[\d+\]/.test(node.querySelector(".jp-InputArea-prompt").textContent)) prompt = now;
    if (prompt && node.querySelector(".xl-report.xl-live .xl-panel:not([hidden])")?.innerText) done([prompt - began, now - prompt]);
    else requestAnimationFrame(look);
  };
  look();
})"""


def prompt_to_line(page, i):
    """Runs a cell that is new; milliseconds on the page's clock until its prompt had a number, and from there until the lines of its report stood below, alive."""
    return page.evaluate(PROMPT_TO_LINE, i)


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
        page.locator(
            ".lm-Menu-itemLabel", has_text=re.compile(f"^{re.escape(word)}$")
        ).first.click()
