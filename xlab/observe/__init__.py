"""Observation: everything known about programs and their runs, as plain records with a text form.

Rooms by question, each asking those above it in this list: `records/` (what is known, as data and text), `figures/` (records drawn),
`program/` (what is the program?), `time/` (what took how long, and why was it compiled?), `memory/` (how much does it need?), `sharding/`
(where arrays lie, what is communicated, and what would change it?), `live/` (which arrays are alive?), `comparison/` (two programs, or another
machine), `kernels/` (which blocks does a kernel read, what do its cores do?), `stepping/` (what does each equation compute?); then `report.py`, which asks all for one recording, `environment.py` (versions)
and `pictures.py` (what draws a record).
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
import sys
import types
from typing import Any

from xlab.observe.pictures import load_by as _load_by

_HOME = {
    "record": "program.recorder", "Session": "program.recorder", "paused": "program.recorder",
    "program": "program.program", "layout": "sharding.layout", "compare": "sharding.resharding",
    "transfers": "sharding.transfers", "assert_collectives": "sharding.transfers", "totals": "sharding.transfers",
    "memory": "memory.memory", "live_arrays": "live.live", "live": "live.live", "track_arrays": "live.allocation_sites",
    "phases": "time.phases", "self_times": "time.phases", "time": "time.phases", "timings": "time.phases", "ledger": "time.ledger",
    "chrome_trace": "time.phases", "drawing": "figures.drawing", "diff": "comparison.diff",
    "profile": "time.profile", "profiled": "time.profile", "Times": "time.profile",
    "passes": "program.passes", "report": "report", "ladder": "program.ladder",
    "steps": "stepping.stepper", "step": "stepping.stepper", "Stepper": "stepping.stepper", "trace": "stepping.stepper", "summarize": "stepping.values",
    "Breakpoint": "stepping.breakpoints", "first_difference": "stepping.first_difference", "jitted_difference": "stepping.first_difference",
    "kernels": "kernels.static", "kernel_run": "kernels.recording",
    "target": "comparison.targets", "scheduled": "comparison.targets", "on_target": "comparison.targets",
    "what_if": "sharding.whatif", "search_shardings": "sharding.whatif", "side_by_side": "records.whatif", "Experiment": "sharding.experiment",
    "text": "records.text",
}  # fmt: skip

__all__ = sorted(_HOME)
# The others share their name with a function.
_ROOMS = (
    "comparison",
    "figures",
    "records",
    "sharding",
    "stepping",
)


class _Room(types.ModuleType):
    """Makes names shared by a function and its file, such as `program`, mean the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        home = _HOME.get(name)
        if name in _ROOMS:
            return importlib.import_module(f"xlab.observe.{name}")
        if home is None:
            raise AttributeError(f"xlab.observe has no {name!r}; it has {', '.join(__all__)}")
        value = getattr(importlib.import_module(f"xlab.observe.{home}"), name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *_HOME})


sys.modules[__name__].__class__ = _Room

_load_by(lambda: importlib.import_module("xlab.observe.figures"))
