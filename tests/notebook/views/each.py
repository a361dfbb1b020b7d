"""A record of the sample for each view that draws one; what has no sample is added where it is needed."""

from __future__ import annotations

import inspect

from tests.notebook.views import sample
from xlab.observe import records as r


def of_views(report: r.Report) -> dict[type[r.Record], r.Record]:
    """The records of a report that have views of their own, and those that the sample makes of a report, by type."""
    made = [
        make(report)
        for _, make in inspect.getmembers(sample, inspect.isfunction)
        if list(inspect.signature(make).parameters) == ["found"]
    ]
    return {
        type(record): record
        for record in (
            report,
            report.programs[0],
            report.trace,
            report.layouts[1],
            report.transfers[0],
            report.ledger,
            report.memory[0],
            sample.MESH,
            *made,
        )
    }


def full(report: r.Report) -> r.Report:
    """The sample with something in every tab."""
    return report.replace(
        costs=(sample.step_cost(report),),
        findings=sample.findings(),
        patterns=sample.patterns(),
        timelines=(sample.timeline(report),),
        processes=sample.processes(),
        targets=(sample.scheduled(),),
        kernels=(sample.kernel(report),),
    )
