"""Executes every notebook, has nbval compare what it gave with what is stored, and checks how they are written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import stored

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
needs_nbval = pytest.mark.skipif(
    find_spec("nbval") is None, reason="nbval is not installed (pip install 'xlab[test]')"
)


def cells(path: Path, kind: str) -> list[str]:
    """Sources of the cells of one kind."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_there_is_a_tour():
    assert any(path.name.startswith("00_") for path in NOTEBOOKS)


def compared(path, executed, folder):
    """nbval's comparison of what cells gave with what is stored, as the finished process of a pytest of its own."""
    # An empty configuration: this suite's options (warnings are errors) are not about other people's kernels.
    settings = folder / "pytest.ini"
    settings.write_text("[pytest]\n")
    sanitize = path.with_name("sanitize.cfg")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval-lax",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.replayed",
        f"--executed={executed}",
        "-c",
        str(settings),
        "--rootdir",
        str(folder),
        str(path),
    ]
    if sanitize.exists():
        command.append(f"--nbval-sanitize-with={sanitize}")
    environment = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    )
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.notebook
@pytest.mark.slow
@pytest.mark.xdist_group("browser")  # the pages of `test_static_twin` show the same execution
@needs_nbval
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_it_runs(path, executed, tmp_path):
    """Every cell, in a kernel of its own, and what nbval compares is what is stored."""
    done = compared(path, executed(path), tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    cells_run = sum(bool(source.strip()) for source in cells(path, "code"))
    assert f"{cells_run} passed" in done.stdout


@pytest.mark.slow
@needs_nbval
def test_other_outputs_are_noticed(tmp_path):
    """An output that is not the stored one, and a cell that was not executed, fail where they stand."""
    import nbformat.v4 as v4

    def notebook(name, second, text):
        said = [v4.new_output("stream", text=text)]
        made = v4.new_notebook(
            cells=[
                v4.new_code_cell("x = 1", execution_count=1),
                v4.new_code_cell(
                    f"# NBVAL_CHECK_OUTPUT\n{second}", execution_count=2, outputs=said
                ),
            ]
        )
        path = tmp_path / name
        path.write_text(json.dumps(made))
        return path

    path = notebook("kept.ipynb", "print(x)", "1\n")
    for second, text, told in (
        ("print(x)", "1\n", "2 passed"),
        ("print(x)", "2\n", "Cell outputs differ"),
        ("print(2)", "1\n", "no cell executed after the one before says"),
    ):
        done = compared(path, notebook("executed.ipynb", second, text), tmp_path)
        assert told in done.stdout and (done.returncode == 0) == (told == "2 passed"), done.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_it_asserts_what_it_claims(path):
    code = cells(path, "code")
    assert any(line.startswith("assert ") for source in code for line in source.splitlines()), (
        "a notebook ends its sections with an assert that the claim just made is true"
    )
    assert any(text.lstrip().startswith("# ") for text in cells(path, "markdown")[:1]), (
        "the first cell is a title"
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_it_reads_without_a_kernel(path):
    """Stored by `python -m tests.stored`: words, and images that plain readers show; nothing of the machine it ran on."""
    outputs = [
        o
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        for o in cell.get("outputs", ())
    ]
    shown = [o["data"] for o in outputs if "data" in o]
    assert shown and all("text/plain" in data and set(data) <= set(stored.KEPT) for data in shown)
    assert not re.search(r"/(?:tmp|home|root|work|usr)/", json.dumps(outputs))


def test_what_notebooks_need_is_said():
    assert set(stored.NEEDS) <= {path.stem for path in NOTEBOOKS}
    absent = Path("14_your_own_flax_model.ipynb")
    missing = [name for name in ("flax", "jax") if find_spec(name) is None]
    assert all(name in stored.missing(absent) for name in missing)
    assert bool(stored.missing(absent)) == bool(missing) and not stored.missing(NOTEBOOKS[0])


def test_pieces_of_a_stream_are_stored_as_one():
    pieces = [{"name": "stdout", "text": "a"}, {"name": "stdout", "text": "b"}, {"data": {}}]
    assert stored.joined(pieces) == [{"name": "stdout", "text": "ab"}, {"data": {}}]


def test_pictures_are_stored():
    pictured = [path for path in NOTEBOOKS if '"image/' in path.read_text(encoding="utf-8")]
    assert len(pictured) >= 7


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_it_is_kept_small(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    heavy = [
        number
        for number, cell in enumerate(notebook["cells"])
        for output in cell.get("outputs", ())
        if len(json.dumps(output)) > 20_000
    ]
    assert not heavy, (
        f"cells {heavy} carry stored outputs of more than 20 kB: clear them before saving"
    )
