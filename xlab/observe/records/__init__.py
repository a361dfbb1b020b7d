"""Records: frozen dataclasses with a text form and JSON, which hold no live objects and import only each other.

`base.py` (the base class), `text.py` and `units.py` (text forms); then records, each with its text form: `source.py`, `program.py` (its layers in `repeats.py`),
`layout.py`, `sharding_tree.py`, `transfers.py`, `overlap.py`, `phases.py`, `processes.py`, `timeline.py`, `log.py`, `ledger.py`, `memory.py`, `buffers.py`, `stepper.py`, `nan_path.py`, `passes.py`, `ladder.py`, `diff.py`,
`targets.py`, `whatif.py`, `replay.py`, `transposed.py`, `resharding.py`, `live.py`, `settings.py`, `caches.py`, `effects.py`, `drawing.py`, `kernel.py` (its text in `kernel_text.py`), `machine.py` (what a device can do), `cost.py` (what a step costs on it), `call_tree.py` (a program by its calls), `structure.py` (these as headings of every view), `peak.py` (what is alive at the peak, by calls), `finding.py` (what could be otherwise), `report.py`. A new file in this folder is found by itself.

A record is built of str, int, float, bool, None, tuples and other records, so it can be saved, compared in a test or sent to a browser.
Three conventions join the records of one program to each other:

* an **equation id** is an int, unique in one `Program` including its nested programs; `-1` means "none";
* a **program index** is a position in `Report.programs`;
* **times** are microseconds as float, **sizes** are bytes as int, and `None` means "not known", never zero.

>>> t = Type("f32", (8, 4), spec=(("data",), ("model",)))
>>> t.text
'f32[8@data,4@model]'
>>> Record.from_json(t.to_json()) == t
True
"""

from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules

from xlab.observe.records.base import Record
from xlab.observe.records.buffers import Buffer
from xlab.observe.records.layout import ArrayLayout, Block
from xlab.observe.records.ledger import Compilation, Difference, Ledger
from xlab.observe.records.log import LogLine
from xlab.observe.records.memory import Memory
from xlab.observe.records.phases import Phase, Timing
from xlab.observe.records.program import Equation, Level, MeshInfo, Program, Type, Variable
from xlab.observe.records.report import Failure, Notice, Report
from xlab.observe.records.source import Listing, Source
from xlab.observe.records.stepper import ShardSummary, Step, StepTrace, Value
from xlab.observe.records.transfers import Transfer

__all__ = [
    "ArrayLayout",
    "Block",
    "Buffer",
    "Compilation",
    "Difference",
    "Equation",
    "Failure",
    "Ledger",
    "Level",
    "Listing",
    "LogLine",
    "Memory",
    "MeshInfo",
    "Notice",
    "Phase",
    "Program",
    "Record",
    "Report",
    "ShardSummary",
    "Source",
    "Step",
    "StepTrace",
    "Timing",
    "Transfer",
    "Type",
    "Value",
    "Variable",
    "base",
    "diff",
    "drawing",
    "ladder",
    "live",
    "passes",
    "resharding",
    "targets",
    "text",
    "whatif",
]

for _module in _iter_modules(__path__):  # reading a record needs every file that defines some
    _import_module(f"{__name__}.{_module.name}")
