"""A record of the sample for each view that draws one; what has no sample is added where it is needed."""

from __future__ import annotations

from tests.notebook.views import sample
from xlab.observe import records as r
from xlab.observe.records.live import Live
from xlab.observe.records.resharding import Resharding
from xlab.observe.records.whatif import Ranking, WhatIf


def of_views(report: r.Report) -> dict[type[r.Record], r.Record]:
    """The records of a report that have views of their own, by type."""
    return {
        r.Report: report,
        r.Program: report.programs[0],
        r.StepTrace: report.trace,
        r.Layout: report.layouts[1],
        r.Transfer: report.transfers[0],
        r.Ledger: report.ledger,
        r.Memory: report.memory[0],
        r.MeshInfo: sample.MESH,
        Resharding: sample.resharding(report),
        WhatIf: sample.weighed(report),
        Ranking: sample.ranking(report),
        Live: sample.live(report),
    }
