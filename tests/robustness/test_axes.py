"""Every form of axes and sizes that the reference takes is taken, with the same result."""

from __future__ import annotations

from tests.reference.harness import cases, compiled_quickly, report, subject
from tests.reference.run import run
from tests.robustness.test_drawn import differing


@cases("tests.robustness.samples_axes")
def test_reference(case, oracle):
    oracle.ask(case)
    with compiled_quickly():
        ours = run(case, subject())
    report(
        case,
        "differs from the reference",
        [f"form {i}: {line}" for i, line in differing(case.sample, ours, oracle.answer())],
    )
