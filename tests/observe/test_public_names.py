"""The public names of `xlab.observe`: each stands in one file, which is loaded when the name is first used."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import xlab
from xlab import observe

ROOT = Path(__file__).resolve().parents[2]
USED = re.compile(r"(?<![\w.])(?:xlab\.)?observe\.([A-Za-z]\w*)\b(?!\.py)")


@pytest.mark.parametrize("name", observe.__all__)
def test_each_is_defined_in_the_file_that_is_named(name):
    home = importlib.import_module(f"xlab.observe.{observe._HOME[name]}")
    value = getattr(observe, name)
    assert value is vars(home)[name]
    assert inspect.isroutine(value) or inspect.isclass(value)
    assert value.__module__ == home.__name__ and value.__name__ == name
    assert inspect.getdoc(value)


def test_no_name_is_also_a_room_or_a_file():
    assert not set(observe.__all__) & observe._ROOMS


def test_what_the_documents_use_is_there():
    """What notebooks, documents, docstrings and messages write after `observe.` is a public name, or a room on the way to a file."""
    files = [ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md"]
    files += sorted((ROOT / "xlab").rglob("*.py"))
    texts = {
        **{str(p.relative_to(ROOT)): p.read_text() for p in files},
        **{p.name: "".join(code_of(p)) for p in sorted((ROOT / "notebooks").glob("*.ipynb"))},
    }
    used = {(where, name) for where, text in texts.items() for name in USED.findall(text)}
    assert len({name for _, name in used}) > 25
    known = {*observe.__all__, *observe._ROOMS}
    assert not [(where, name) for where, name in sorted(used) if name not in known]


def code_of(path: Path) -> list[str]:
    """The lines of a notebook's code."""
    cells = json.loads(path.read_text())["cells"]
    return [line for cell in cells if cell["cell_type"] == "code" for line in cell["source"]]


def test_the_room_itself_loads_no_maker():
    code = (
        "import sys, xlab.observe as o; print([m for m in sys.modules if m.startswith('xlab.observe.')]);"
        "assert set(o.__all__) <= set(dir(o)); print(o.phases.__module__, o.timing.__name__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout.splitlines() == [
        "['xlab.observe.pictures']",
        "xlab.observe.timing.phases xlab.observe.timing",
    ], ran.stderr
    with pytest.raises(AttributeError, match=r"xlab\.observe has no 'phase'; it has .*phases"):
        _ = observe.phase


def test_what_completion_shows_is_public():
    """No module and no type that a file of ours imports for itself; every error a program may name."""
    for room in (observe, xlab.errors):
        shown = {name for name in dir(room) if not name.startswith("__")}
        assert set(room.__all__) <= shown
        for name in shown:
            value = getattr(room, name)
            assert getattr(value, "__module__", value.__name__).startswith(("xlab", "jax")), name
    made = {name for name, value in vars(xlab.errors).items() if isinstance(value, type)}
    assert {name for name in made if name.endswith(("Error", "Warning"))} <= set(dir(xlab.errors))
