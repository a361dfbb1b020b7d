"""Observation: everything the runtime can say of itself, as plain records with a text form.

Reading order: `record_base.py` (what a record is), `records.py` (the nouns), `text.py` and `units.py` (how they read), `recorder.py` (a block of work), `subject.py`
(what a question is about), `program.py` and `names.py`, `hlo.py`, `layout.py`, `moves.py`, `transfers.py` and `reasons.py`, `memory.py`,
`phases.py`, `profile.py`, `stepping.py`, `report.py`; then `ladder.py` (a function under each transformation), `passes.py` (what the
compiler's passes change), `difference.py` (two programs), `targets.py` (other machines). May import every room but the notebook's. Promises: looking changes
nothing, a sharded array is never gathered, and nothing is dropped silently. Parts load when first used.

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

_HOME = {
    "record": "recorder", "Session": "recorder", "paused": "recorder",
    "program": "program", "layout": "layout", "compare": "moves",
    "transfers": "transfers", "assert_collectives": "transfers", "totals": "transfers",
    "memory": "memory", "live_arrays": "live", "live": "live", "track_arrays": "creations",
    "phases": "phases", "self_times": "phases", "time": "phases", "timings": "phases", "ledger": "ledger",
    "chrome_trace": "phases", "drawing": "drawing", "diff": "difference",
    "profile": "profile", "profiled": "profile", "Times": "profile",
    "passes": "passes", "report": "report", "ladder": "ladder",
    "steps": "stepping", "step": "stepping", "Stepper": "stepping", "trace": "stepping", "summarise": "values",
    "Breakpoint": "breakpoints", "first_difference": "comparing", "jitted_difference": "comparing",
    "target": "targets", "scheduled": "targets", "on_target": "targets",
    "what_if": "whatif", "search_shardings": "whatif", "side_by_side": "placements", "Experiment": "experiment",
    "text": "text",
}  # fmt: skip

__all__ = sorted(_HOME)


class _Room(types.ModuleType):
    """Several functions share their name with the file they live in: the name means the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"xlab.observe has no {name!r}; it has {', '.join(__all__)}")
        value = getattr(importlib.import_module(f"xlab.observe.{home}"), name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *_HOME})


sys.modules[__name__].__class__ = _Room

from xlab.observe import figures, graph, text  # noqa: E402  (they give records their pictures and their repr)
