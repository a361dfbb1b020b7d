"""Calls drawn at random return what the reference returns."""

from __future__ import annotations

import re

import pytest

from tests.reference.compare import differences
from tests.reference.harness import cases, compiled_quickly, subject
from tests.reference.run import Outcome, run
from tests.robustness import samples_drawn


@cases("tests.robustness.samples_drawn")
def test_reference(case, oracle):
    oracle.ask(case)
    with compiled_quickly():
        ours = run(case, subject())
    found = differing(case.sample, ours, oracle.answer())
    if found:
        calls = samples_drawn.CALLS[case.sample.name]
        pytest.fail(
            "\n".join(f"{case.sample.name}({calls[i]})\n  {line}" for i, line in found),
            pytrace=False,
        )


def differing(sample, ours: Outcome, theirs: Outcome) -> list[tuple[int, str]]:
    """`(call, difference)` for every call that returns under the reference."""
    assert not theirs.error, theirs.message
    assert not ours.error, ours.message
    raised = {call(leaf.path) for leaf in theirs.leaves if leaf.kind == "Raised"}
    kept = [
        Outcome(leaves=tuple(leaf for leaf in side.leaves if call(leaf.path) not in raised))
        for side in (ours, theirs)
    ]
    return [(call(line), line) for line in differences(sample, *kept)]


def call(path: str) -> int:
    return int(re.match(r"result\[(\d+)\]", path)[1])
