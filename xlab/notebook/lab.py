"""`xlab lab`: JupyterLab on the tour's notebooks, in a folder of the person's own."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

TOUR = "00_tour.ipynb"


def notebook_folder() -> Path | None:
    """Where the notebooks lie: inside an installed wheel, or beside the package in a checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "notebooks", here.parent.parent / "notebooks"):
        if any(folder.glob("*.ipynb")):
            return folder
    return None


def copy_notebooks(target: Path) -> list[Path]:
    """Copies the notebooks to a folder; what is there already is left as it is."""
    source = notebook_folder()
    if source is None:
        raise FileNotFoundError(
            "the notebooks are not installed; pip install --force-reinstall xlab brings them"
        )
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(
            f"{target} is a file; the notebooks go to a folder, which is made where there is none"
        )
    target.mkdir(parents=True, exist_ok=True)
    made = []
    for path in sorted(source.glob("*.ipynb")):
        to = target / path.name
        if not to.exists():
            shutil.copyfile(path, to)
        made.append(to)
    return made


def open_lab(folder: Path, notebook: str = TOUR, extra: tuple[str, ...] = ()) -> int:
    """Starts JupyterLab on one notebook and waits until it ends."""
    if find_spec("jupyterlab") is None:
        print("JupyterLab is not installed: pip install 'xlab[lab]'", file=sys.stderr)
        return 1
    environment = dict(os.environ)
    environment.setdefault("XLAB_NUM_CPU_DEVICES", "8")
    command = [sys.executable, "-m", "jupyterlab", str(folder / notebook), *extra]
    try:
        return subprocess.call(command, env=environment)
    except KeyboardInterrupt:
        return 0


def main(argv: list[str] | None = None) -> int:
    """Copies the notebooks to a folder and opens JupyterLab there.

    Example:
        >>> main(["--help"])  # doctest: +SKIP
    """
    parser = argparse.ArgumentParser(
        prog="xlab lab",
        description="Opens JupyterLab on the tour's notebooks; options after -- go to JupyterLab.",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("xlab-notebooks"),
        help="where the notebooks go (xlab-notebooks)",
    )
    parser.add_argument("--notebook", default=TOUR, help=f"which one to open first ({TOUR})")
    argv = list(sys.argv[1:] if argv is None else argv)
    extra: list[str] = []
    if "--" in argv:
        at = argv.index("--")
        argv, extra = argv[:at], argv[at + 1 :]
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.error(
            f"there is no option {unknown[0]}; options of JupyterLab go after --: xlab lab -- {' '.join(unknown)}"
        )
    try:
        made = copy_notebooks(args.folder)
    except OSError as error:
        print(f"xlab lab: {error}", file=sys.stderr)
        return 2
    if not (args.folder / args.notebook).is_file():
        print(
            f"xlab lab: there is no notebook {args.notebook} in {args.folder}; there are {', '.join(p.name for p in made)}",
            file=sys.stderr,
        )
        return 2
    return open_lab(args.folder, args.notebook, tuple(extra))
