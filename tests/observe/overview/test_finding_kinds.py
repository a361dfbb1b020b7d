"""Every kind of finding: in programs that have it, gone when its change is made, and in none of those that have not.

The amounts of a finding are those of the user's own program: before, and after the change was made in it by hand.
"""

from __future__ import annotations

import warnings

import pytest

import xlab
from tests.observe.overview.clean_programs import CLEAN, CLEAN_OVER_DEVICES
from tests.observe.overview.finding_programs import cases
from tests.observe.overview.measured_amounts import Measured
from xlab import observe
from xlab.observe.overview.inspection import kinds
from xlab.observe.records.finding import amount_text

CASES = cases()
FIRST = {c.kind: c for c in reversed(CASES)}
MOVED = {"removable collective", "full rematerialization", "smaller collective", "resharding"}
"""Kinds after whose change less is sent."""
UNCHANGED = {"resharding"}
"""Kinds of which only what is the case is known."""
TRACED = {"unrolled loop", "unused result"}
"""Kinds that may cost tracing and compiling alone, of which their outcome counts equations and instructions."""
NEAR = 0.002
"""Of the amount before, what the one after may differ by: a conversion stands on another side of a broadcast."""


def found_in(f, args, **how):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers")  # that is what is looked for
        return observe.findings(f if hasattr(f, "lower") else xlab.jit(f), *args, **how)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=f"{c.kind}: {c.name}", marks=() if FIRST[c.kind] is c else pytest.mark.slow)
        for c in CASES
    ],
)  # fmt: skip
def test_a_finding_is_where_it_is_and_its_change_takes_it_away(case):
    found = [
        f
        for f in found_in(case.program, case.args, tries=12 if case.kind == "uneven split" else 6)
        if f.kind == case.kind
    ]
    assert found, "it is not found"
    first = found[0]
    assert first.nbytes or first.us or case.kind in TRACED
    if case.kind in UNCHANGED:
        assert first.text and first.collectives and not first.change, first
    else:
        assert first.change and first.proof and first.outcome, first
    if first.kind not in ("unused argument", "returned argument", "unused donation"):
        assert first.source is not None and first.source.line, "no line"
    mended = found_in(case.mended, case.mended_args, tries=0)
    assert not [f for f in mended if f.kind == case.kind], "the change does not take it away"
    if case.kind in MOVED:
        # These are only offered once they were compiled, which the line above does not do: what is sent tells.
        less = [Measured(*p).amount("sent per device") for p in ((case.mended, case.mended_args), (case.program, case.args))]  # fmt: skip
        assert less[0] < less[1]
    before, after = Measured(case.program, case.args), Measured(case.applied, case.applied_args)
    for said in first.outcome:
        assert before.amount(said.name) == said.before, said
        made = after.amount(said.name)
        if case.bound:
            assert made <= said.after, said
        else:
            assert abs(made - said.after) <= NEAR * said.before, (said, made)
    assert all(amount_text(a) in first.proof for a in first.outcome) or "stays at" in first.proof


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            n, marks=pytest.mark.slow if n in ("transformer", "sequences_over_devices") else ()
        )
        for n in (*CLEAN, *CLEAN_OVER_DEVICES)
    ],
)
def test_nothing_is_invented(name):
    f, args = (CLEAN | CLEAN_OVER_DEVICES)[name]()
    tries = 3 if name == "experts" or name in CLEAN_OVER_DEVICES else 0
    assert [f.text for f in found_in(f, args, tries=tries)] == []


def test_each_kind_has_three_programs():
    counts = {k: sum(c.kind == k for c in CASES) for k in kinds}
    assert not [
        k for k, n in counts.items() if n < 3 and k != "recompile"
    ]  # in test_recompile_findings.py
