"""What the first report needs is loaded while the kernel is idle, and not by `%load_ext` itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("IPython")
pytest.importorskip("anywidget")

IDLE = """
import asyncio, sys, types
from IPython.core.interactiveshell import InteractiveShell
from xlab.backend import client
from xlab.notebook import load_ipython_extension, unload_ipython_extension, warm_up
NEEDED = "ipywidgets", "xlab.notebook.magics.xjit", "xlab.notebook.views.widget", "xlab.observe.reports"
there = lambda: [name for name in NEEDED if name in sys.modules]
shell = InteractiveShell.instance()
async def idle():
    load_ipython_extension(shell)
    assert not warm_up._waiting, "without a kernel there is nobody to wait for"
    shell.kernel = types.SimpleNamespace()
    load_ipython_extension(shell)
    print(there())
    unload_ipython_extension(shell)
    await asyncio.sleep(3 * warm_up.DELAY)
    print(there())
    load_ipython_extension(shell)
    for _ in range(600):
        await asyncio.sleep(0.1)
        if not warm_up._waiting:
            break
    print(there(), client.started())
    from xlab.notebook import assets
    from xlab.notebook.views import page
    before = page.packed_code.cache_info().misses
    from xlab.notebook.views.saved import _code, _scripted, RARE
    page.packed_code(_code(_scripted() - RARE))
    print(page.packed_code.cache_info().misses - before)
asyncio.run(idle())
"""


def test_what_the_first_report_needs_is_loaded_when_idle():
    done = subprocess.run(
        [sys.executable, "-c", IDLE], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded, unloaded, idle, packed = done.stdout.splitlines()
    assert loaded == "[]"
    assert unloaded == "[]", "unloading leaves it until it is used"
    names = ["ipywidgets", "xlab.notebook.magics.xjit", "xlab.notebook.views.widget"]
    assert idle == f"{[*names, 'xlab.observe.reports']} False", "devices are not asked for"
    assert packed == "0", "the script that pictures share is packed"
