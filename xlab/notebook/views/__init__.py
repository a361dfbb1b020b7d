"""Views draw records: a tree that reads without a script, and what a page needs to make it answer.

In reading order: `draw.py` (trees), `base.py` (what a view is), `page.py` (a tree as a document), then one file per view, and
`widget.py` (the live form, imported only when used). A view imports `xlab.observe` and nothing of the runtime.

>>> from xlab.observe.records import Report
>>> view_for(Report("f")).name
'report'
"""

from __future__ import annotations

from xlab.notebook.views.base import View
from xlab.notebook.views.dataflow import DataflowView
from xlab.notebook.views.diff import DiffView
from xlab.notebook.views.ladder import LadderView
from xlab.notebook.views.layout import LayoutView
from xlab.notebook.views.ledger import LedgerView
from xlab.notebook.views.live import LiveView
from xlab.notebook.views.memory import MemoryView
from xlab.notebook.views.mesh import MeshView
from xlab.notebook.views.program import ProgramView
from xlab.notebook.views.report import ReportView
from xlab.notebook.views.resharding import ReshardingView
from xlab.notebook.views.stepper import StepperView
from xlab.notebook.views.targets import TargetsView
from xlab.notebook.views.whatif import RankingView, WhatIfView
from xlab.observe.records import Record

VIEWS: list[View] = [
    ReportView(),
    ProgramView(),
    StepperView(),
    LayoutView(),
    MeshView(),
    DataflowView(),
    ReshardingView(),
    WhatIfView(),
    RankingView(),
    LedgerView(),
    MemoryView(),
    LiveView(),
    DiffView(),
    LadderView(),
    TargetsView(),
]


def view_for(record: Record) -> View:
    """Return the view that draws this kind of record.

    Raises:
        TypeError: no view draws it; its text form still exists.
    """
    for view in VIEWS:
        if view.record_type is type(record):
            return view
    known = ", ".join(v.record_type.__name__ for v in VIEWS)
    raise TypeError(
        f"no view draws {type(record).__name__}; views draw {known}. Print it for its text form."
    )
