"""A group of processes behind a notebook in JupyterLab: interrupted by its button, and the kernel restarted under it."""

from __future__ import annotations

import os

import pytest

from tests.notebook.groups import closed, gone, ports
from tests.notebook.labs import LONG, choose, open_and_run, until
from tests.notebook.test_hazards import cell, run

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.notebook]
pytest.importorskip("ipyparallel")
CELLS = [
    "%load_ext xlab",
    "%xprocesses 2 --devices 2",
    "from xlab import processes\ngroup = processes.current()\nprint('they', 'are', *group._pids, group._reaper.pid, group._engines.folder)",
    "%%xall\nimport pathlib, time\npathlib.Path(BUSY_FILE).touch()\ntime.sleep(600)",
    "%%xall\nimport xlab\nprint(xlab.process_index(), 'of', xlab.device_count(), 'together')",
]
BUSY, AGAIN = 3, 4


def told(page, number, words):
    """What a cell shows, once the words are in it."""
    shown = cell(page, number).locator(".jp-OutputArea-output", has_text=words)
    shown.first.wait_for(timeout=LONG)
    return shown.first.inner_text()


def test_interrupted_and_restarted_under_a_running_cell(lab, browser):
    busy = lab.work / "busy"
    name = lab.write("processes.ipynb", [c.replace("BUSY_FILE", repr(str(busy))) for c in CELLS])
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    open_and_run(page, lab, name, "they are")
    *pids, folder = told(page, 2, "they are").split()[2:]
    pids = list(map(int, pids))
    listened = ports(pids)
    assert len(pids) > 3 and listened and os.path.isdir(folder)

    until(page, busy.exists, "the cell does not begin")
    choose(page, "Kernel", "Interrupt Kernel")
    assert "was interrupted in all processes" in told(page, BUSY, "KeyboardInterrupt")
    run(page, AGAIN)
    assert told(page, AGAIN, "together").split("\n")[:2] == ["[0] 0 of 4 together", "[1] 1 of 4 together"]  # fmt: skip

    choose(page, "Edit", "Clear Outputs of All Cells")
    busy.unlink()
    run(page, BUSY)
    until(page, busy.exists, "the cell does not begin again")
    choose(page, "Kernel", "Restart Kernel…")
    page.locator(".jp-Dialog button.jp-mod-warn").click()
    assert gone(pids, 20) and closed(listened, 20) and not os.path.exists(folder)

    for number in (0, 1, 2, AGAIN):
        run(page, number)
    assert "[1] 1 of 4 together" in told(page, AGAIN, "together")
    *others, folder = told(page, 2, "they are").split()[2:]
    assert not set(pids) & set(map(int, others))
    context.close()
    lab.value(name, "group.stop()")
    assert gone(map(int, others), 20) and not os.path.exists(folder)
