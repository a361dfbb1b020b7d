"""Runs the notebooks and stores in them what GitHub and other plain readers show: text and images, no pages, no widgets.

    python -m tests.stored [NOTEBOOK ...]

Run it after a change of what notebooks show; `tests/test_notebooks.py` checks that every notebook has its outputs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What a notebook needs that is in no extra of the tests: where it is not installed, the notebook is not executed.
NEEDS = {"14_your_own_flax_model": ("flax", "jax")}
KEPT = ("text/plain", "image/svg+xml", "image/png")
BUDGET = 60  # seconds on two cores; the machine that tests may be busy, so twice that is let pass
LARGEST = 20_000  # bytes of one output as JSON
TEXT = 6_000  # characters of text, where an output is larger


def missing(path: Path) -> str:
    """Why a notebook cannot be executed here, in words; empty where it can."""
    absent = [name for name in NEEDS.get(path.stem, ()) if find_spec(name) is None]
    return f"{', '.join(absent)} not installed: pip install '.[libraries]'" if absent else ""


def nbconvert(form: str, path: Path, *options: str, folder: Path, seconds: float) -> None:
    """Converts a notebook under `folder`, in a process of its own with eight devices."""
    environment = dict(
        os.environ,
        XLAB_NUM_CPU_DEVICES="8",
        IPYTHONDIR=str(folder / "ipython"),
        PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    )
    environment.pop("PYTEST_ADDOPTS", None)
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--log-level=ERROR",
        f"--output-dir={folder}",
        form,
        *options,
        str(path),
    ]
    run = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-6000:]


def joined(outputs: list[dict]) -> list[dict]:
    """Outputs with the pieces of one stream, which come as they were written, as one."""
    found: list[dict] = []
    for output in outputs:
        if found and "name" in output and found[-1].get("name") == output["name"]:
            found[-1] = {**found[-1], "text": found[-1]["text"] + output["text"]}
        else:
            found.append(output)
    return found


def light(output: dict) -> dict | None:
    """An output as it is stored; None for one that says nothing, and for what native code wrote to stderr with its clock."""
    if "data" not in output:
        return None if output.get("name") == "stderr" else output
    data = {kind: output["data"][kind] for kind in KEPT if kind in output["data"]}
    if not "".join(data.get("text/plain", "")).strip() and len(data) < 2:
        return None
    stored = {**output, "data": data, "metadata": {}}
    for kind in ("image/svg+xml", "image/png"):
        if len(json.dumps(stored)) > LARGEST:
            data.pop(kind, None)
    words = "".join(data.get("text/plain", ""))
    if len(json.dumps(stored)) > LARGEST:
        data["text/plain"] = (
            f"{words[:TEXT]}\n… {len(words) - TEXT:,} more characters where the notebook runs"
        )
    return stored


def store(path: Path) -> None:
    """Runs a notebook in a kernel of its own and writes it back with its light outputs."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [
                nbformat.from_dict(kept)
                for output in joined(cell.outputs)
                if (kept := light(output)) is not None
            ]
    nbformat.write(notebook, path)


def main(names: list[str]) -> None:
    os.environ["XLAB_NUM_CPU_DEVICES"] = "8"
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )
    for path in (
        map(Path, names) if names else sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    ):
        if reason := missing(path):
            print(f"{path.name} stays as it is, {reason}")
            continue
        store(path)
        print(path.name, f"{path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
