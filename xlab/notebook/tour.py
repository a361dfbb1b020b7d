"""`xlab tour`: runs the training notebook in an IPython shell of this process, and reports what it did.

The cells are those of `notebooks/09_training_on_a_mesh.ipynb`, so what the command runs is what `xlab tour --lab` opens.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

NOTEBOOK = "09_training_on_a_mesh.ipynb"
REPORT = "xlab-report.html"


def code_cells(path: Path) -> list[str]:
    """The code cells of a notebook, in order."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def quiet_shell() -> Any:
    """A real IPython shell whose displays are dropped: the report is written at the end, in full."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Silent(DisplayPublisher):
        def publish(self, *args: Any, **kwargs: Any) -> None:
            """Drops a display."""

    class Unspoken(DisplayHook):
        def __call__(self, result: Any = None) -> None:
            """Writes no value."""

    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(
        config=Config(HistoryManager={"enabled": False}),  # the history is the user's own
        display_pub_class=Silent,
        displayhook_class=Unspoken,
    )
    shell.colors = "nocolor"
    return shell


def settings(source: str, changes: dict[str, Any]) -> str:
    """A cell with other numbers in an assignment of several names, such as `EPOCHS, BATCH, RATE = 40, 96, 3e-3`.

    >>> settings("A, B = 1, 2\\nC = A", {"B": 5})
    'A, B = 1, 5\\nC = A'
    """
    lines = source.split("\n")
    for i, line in enumerate(lines):
        left, equals, right = line.partition(" = ")
        names, values = left.split(", "), right.split(", ")
        if equals and len(names) == len(values) > 1 and set(names) & set(changes):
            lines[i] = (
                f"{left} = {', '.join(str(changes.get(n, v)) for n, v in zip(names, values, strict=True))}"
            )
    return "\n".join(lines)


def run(path: Path, changes: dict[str, Any] | None = None) -> tuple[dict[str, Any], Any]:
    """Runs a notebook's code; returns its names and the report of its last `%%xjit` cell.

    With `changes` the notebook's assertions are left out: they claim what its own numbers give.

    Raises:
        RuntimeError: a cell failed; its traceback has been printed.
    """
    from xlab.notebook import recording

    shell = quiet_shell()
    for source in code_cells(path):
        if changes:
            source = settings(
                "\n".join(line for line in source.split("\n") if not line.startswith("assert ")),
                changes,
            )
        result = shell.run_cell(source, store_history=True)
        if not result.success:
            raise RuntimeError(
                f"a cell of {path.name} failed: {result.error_in_exec or result.error_before_exec!r}"
            )
    shell.run_line_magic("unload_ext", "xlab")
    return shell.user_ns, recording.last


def main(argv: list[str] | None = None) -> int:
    """Trains, prints the text report, writes the HTML report. Returns 1 when the accuracy is below 95 %."""
    parser = argparse.ArgumentParser(
        prog="xlab tour",
        description="Trains a small transformer on handwritten digits over a 4×2 mesh "
        "of virtual devices, and reports what happened.",
    )
    parser.add_argument("-o", "--output", default=REPORT, help=f"HTML report ({REPORT})")
    parser.add_argument("--epochs", type=int, help="passes over the training images (40)")
    parser.add_argument(
        "--lab", action="store_true", help="open the same as a notebook in JupyterLab instead"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("xlab-notebooks"),
        help="with --lab: where the notebooks go",
    )
    args = parser.parse_args(argv)
    from xlab.notebook import lab

    if args.lab:
        lab.copy_notebooks(args.folder)
        return lab.open_lab(args.folder, NOTEBOOK)
    folder = lab.notebook_folder()
    if folder is None:
        print(
            "xlab tour: the notebooks are not installed; pip install --force-reinstall xlab",
            file=sys.stderr,
        )
        return 1
    try:
        import sklearn  # noqa: F401
    except ImportError:
        print(
            "xlab tour: the digits ship inside scikit-learn, which is not installed: pip install 'xlab[lab]'",
            file=sys.stderr,
        )
        return 1
    return _train(folder / NOTEBOOK, args)


def _train(path: Path, args: Any) -> int:
    from xlab.notebook.export import write_html
    from xlab.observe.records.text import text

    started = time.perf_counter()
    print(
        "training a transformer on 1440 handwritten digits over a mesh of 4×2 devices …", flush=True
    )
    try:
        names, report = run(path, {"EPOCHS": args.epochs} if args.epochs else None)
    except RuntimeError as error:
        print(f"xlab tour: {error}", file=sys.stderr)
        return 1
    accuracy = float(names["accuracy"])
    report = report.replace(title="digits")
    print()
    print(text(report, times=True, limit=40))
    print()
    written = write_html(report, args.output)
    print(
        f"test accuracy {accuracy:.1%}, last loss {float(names['losses'][-1]):.3f}, "
        f"{time.perf_counter() - started:.1f} s in all"
    )
    print(f"the same with pictures: {written}")
    return 0 if accuracy >= 0.95 else 1
