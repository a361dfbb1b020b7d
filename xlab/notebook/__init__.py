"""The Jupyter layer: magics, displays of live objects, reports, the command line's subcommands.

In reading order: `cell.py`, `free_variables.py` and `hidden.py` (a cell as one function), `options.py` (meshes and specs as text), `inputs.py` (arguments placed by them), `recording.py` (run, record,
show, fail well), `deferred_display.py` (the result first, its report after it), `magics/` (one file each), `formatters.py` (objects as records, records as outputs), `visualize.py`, `export.py`;
then `tour.py`, `lab.py`, `doctor.py`, `report_command.py`, `check_files.py`, which `python -m xlab` calls. May import the public names of `xlab` and
`xlab.observe`; IPython and the widget packages are imported when they are used.

Several processes: `processes.py` (a group, and its cells), `clusters.py` (who starts them), `machine.py` (what the system knows of them), `process_errors.py` (what is said when they fail),
`engine.py` (what runs in each), `in_processes.py` (magics there, shown here).

Also: `assets.py` (joins the ES modules and styles of the views into the one module a browser is given),
`compile_progress.py` (progress of long compiles), `completions.py` (completions after a
magic), `experiments.py` (tries other placements for a live report), `marimo.py` (displays in marimo), `tracebacks.py` (errors of
a cell as the user should see them), `interrupts.py` (those that Python would drop), `warm_up.py` (what the first report needs, loaded when the kernel is idle).

Everything a magic shows can be had from Python: `show(observe.report(session))`.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from xlab.core import source_info

__all__ = [
    "load_ipython_extension",
    "show",
    "unload_ipython_extension",
    "visualize_array_sharding",
    "visualize_sharding",
    "write_html",
]

_HOMES = {
    "show": "formatters",
    "visualize_array_sharding": "visualize",
    "visualize_sharding": "visualize",
    "write_html": "export",
}

_SHELL = ("IPython", "ipykernel", "ipykernel_launcher", "traitlets", "tornado", "comm", "asyncio")
"""What runs cells and answers pages: a line of it is never the user's."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"xlab.notebook.{_HOMES[name]}"), name)
    raise AttributeError(f"xlab.notebook has no {name!r}; it has {', '.join(__all__)}")


def _registering() -> tuple[ModuleType, ...]:
    """What registers something with a shell, in that order, and takes it back."""
    from xlab.notebook import (
        compile_progress,
        completions,
        formatters,
        magics,
        tracebacks,
        warm_up,
    )

    return completions, magics, formatters, compile_progress, tracebacks, warm_up


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext xlab`: registers magics and displays; a second time replaces the first."""
    from xlab.notebook import interrupts

    for part in _registering():
        part.register(shell)
    interrupts.register()
    source_info.namers[:] = [_CellNames(shell)]
    for file in filter(None, (getattr(sys.modules.get(name), "__file__", None) for name in _SHELL)):
        source_info.exclude(
            os.path.dirname(file) if os.path.basename(file) == "__init__.py" else file
        )
    for event, run in _EVENTS:
        if run not in shell.events.callbacks[event]:
            shell.events.register(event, run)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext xlab`: takes back what loading registered."""
    from xlab.notebook import interrupts

    for part in _registering():
        part.unregister(shell)
    interrupts.unregister()
    allocation_sites = sys.modules.get("xlab.observe.arrays.allocation_sites")
    if allocation_sites is not None and allocation_sites.tracking():
        allocation_sites.track_arrays(False)
    source_info.namers.clear()
    _finish_reports()
    for event, run in _EVENTS:
        if run in shell.events.callbacks[event]:
            shell.events.unregister(event, run)


def _finish_effects(_result: Any = None) -> None:
    """At the end of a cell: waits for its effects, so that their output is shown under this cell."""
    effects = sys.modules.get("xlab.compile.effects")
    if effects is not None:
        effects.effects_barrier()


def _finish_reports(_info: Any = None) -> None:
    """Before a cell: finishes the pending reports of earlier cells."""
    deferred_display = sys.modules.get("xlab.notebook.deferred_display")
    if deferred_display is not None:
        deferred_display.finish_all()


def _note_arrays(result: Any = None) -> None:
    """At the end of a cell: records that the new arrays were made in it."""
    from xlab.backend import client

    number = getattr(result, "execution_count", None)
    if number is None or not client.started():
        return
    from IPython import get_ipython

    from xlab.observe.arrays import allocation_sites

    shell = get_ipython()
    cell = getattr(getattr(result, "info", None), "raw_cell", "") or ""
    if cell.startswith("%%xjit"):  # its lines are Python below the first
        cell = "\n" + cell.partition("\n")[2]
    above = len(cell) - len(cell.lstrip("\n"))
    source = "" if cell.startswith("%%") else "\n" * above + shell.transform_cell(cell[above:])
    allocation_sites.note_cell(f"In[{number}]", source, shell.user_ns)


_EVENTS = (
    ("pre_run_cell", _finish_reports),
    ("post_run_cell", _finish_effects),
    ("post_run_cell", _note_arrays),
)


class _CellNames:
    """Names of cell files: the number of the prompt."""

    def __init__(self, shell: Any):
        self.shell = shell

    def __call__(self, file: str) -> str | None:
        number = getattr(self.shell.compile, "_filename_map", {}).get(file)
        return None if number is None else f"In[{number}]"


if "marimo" in sys.modules:
    from xlab.notebook import marimo

    marimo.register()
