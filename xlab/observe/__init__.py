"""Observation: everything known about programs and their runs, as plain records with a text form.

Rooms by question, each asking those above it in this list: `records/` (what is known, as data and text), `figures/` (records drawn),
`beside/` (what the user wrote for JAX, which is in this process too), `programs/` (what is the program?), `timing/` (what took how long, and why was it compiled?), `buffers/` (how much does it need?), `sharding/`
(where arrays lie, what is communicated, and what would change it?), `arrays/` (which arrays are alive?), `runtime/` (what state is the runtime in?), `comparison/` (two programs, or another
machine), `kernel_runs/` (which blocks does a kernel read, what do its cores do?), `overview/` (where does a step go?), `placing/` (which placement would be better?), `stepping/` (what does each equation compute?); then
`reports.py`, which asks all for one recording, `merging.py`, which joins the reports of several processes, `environment.py` (versions) and `pictures.py` (what draws a record). A room or file and a
public function never share a name: `import xlab.observe.programs.hlo as hlo` could not find the room behind the function.
May import every room but the notebook's. Promises: observing changes nothing, a sharded array is never gathered, and nothing is
dropped silently. Makers load when first used.

>>> import numpy as np, xlab
>>> with record() as session:
...     y = xlab.jit(lambda x: xlab.lax.sin(x), name="wave")(np.ones(3, np.float32))
>>> [p.name for p in report(session).programs]
['wave']
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from xlab.observe.pictures import load_by as _load_by

_HOME = {
    "record": "programs.recorder", "Session": "programs.recorder", "paused": "programs.recorder",
    "program": "programs.program", "layout": "sharding.layout", "sharding_tree": "sharding.tree_layouts", "compare": "sharding.resharding",
    "transfers": "overview.transfers", "assert_collectives": "overview.transfers", "totals": "sharding.transfers", "transposed": "sharding.transposing",
    "memory": "buffers.memory", "live_arrays": "arrays.live", "live": "arrays.live", "track_arrays": "arrays.allocation_sites",
    "phases": "timing.phases", "self_times": "timing.phases", "time": "timing.phases", "timings": "timing.phases", "ledger": "timing.ledger",
    "chrome_trace": "timing.phases", "drawing": "figures.drawing", "figure": "figures.figure", "animation": "figures.figure", "diff": "comparison.diff",
    "profile": "timing.profile", "timeline": "overview.timeline", "profiled": "timing.profile", "Times": "timing.profile",
    "passes": "programs.passes", "report": "reports", "merge": "merging", "ladder": "programs.ladder",
    "steps": "stepping.stepper", "step": "stepping.stepper", "Stepper": "stepping.stepper", "trace": "stepping.stepper", "summarize": "stepping.values",
    "replay": "stepping.replaying", "Breakpoint": "stepping.breakpoints", "first_difference": "stepping.first_difference", "nan_path": "stepping.nan_path", "series": "stepping.series", "jitted_difference": "stepping.first_difference",
    "kernels": "kernel_runs.static", "kernel_run": "kernel_runs.recording",
    "target": "comparison.targets", "scheduled": "comparison.targets", "on_target": "comparison.targets",
    "what_if": "sharding.whatif", "search_shardings": "sharding.whatif", "side_by_side": "records.whatif", "Experiment": "placing.experiment", "place": "placing.patterns",
    "cost": "overview.step_cost", "findings": "overview.findings", "assert_no_findings": "overview.findings", "calibrate": "overview.calibration", "machine": "overview.machines",
    "settings": "runtime.settings", "caches": "runtime.caches", "pending_effects": "runtime.effects",
    "text": "records.text",
}  # fmt: skip

__all__ = sorted(_HOME)
_ROOMS = {module.name for module in pkgutil.iter_modules(__path__)}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"xlab.observe.{_HOME[name]}"), name)
    elif name in _ROOMS:
        return importlib.import_module(f"xlab.observe.{name}")
    else:
        raise AttributeError(f"xlab.observe has no {name!r}; it has {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOME, *_ROOMS, *(name for name in globals() if name.startswith("__"))})


_load_by(lambda: importlib.import_module("xlab.observe.figures"))
