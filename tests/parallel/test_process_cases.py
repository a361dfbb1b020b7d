"""What programs over several processes give in every process, in xlab and in the reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.parallel.workers import ROOT
from xlab.parallel.group import free_address

pytestmark = [pytest.mark.slow, pytest.mark.reference]
SIZES = [(2, 2), (4, 2), (2, 4)] if "XLAB_SPANNING_SWEEP" in os.environ else [(2, 2)]
EXPLAINED = {
    "repr": "an array that cannot be read says how it lies; the reference gives shape and dtype alone",
    "bad_axis": "the reference fails in an assertion without words, xlab says which axes there are",
}
"""Cases that differ, and why that is meant."""


def told(library: str, count: int, devices: int) -> list[dict]:
    """By process, what the cases gave."""
    address = free_address()
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.parallel.process_cases", library, address, *map(str, (k, count, devices))],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for k in range(count)
    ]  # fmt: skip
    try:
        said = [w.communicate(timeout=200) for w in workers]
    finally:
        for w in workers:
            w.kill()
    found = [[x for x in out.splitlines() if x.startswith("told ")] for out, _ in said]
    assert all(found), said
    return [json.loads(x[0].removeprefix("told ")) for x in found]


def alike(ours, theirs) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == pytest.approx(theirs, rel=1e-4, abs=1e-4)
    return ours == theirs


@pytest.mark.parametrize(("count", "devices"), SIZES)
def test_every_process_sees_what_it_sees_in_the_reference(count, devices):
    ours, theirs = told("xlab", count, devices), told("jax", count, devices)
    apart = {
        name: [(a[name], b[name]) for a, b in zip(ours, theirs, strict=True) if not alike(a[name], b[name])]
        for name in theirs[0]
    }  # fmt: skip
    apart = {name: found for name, found in apart.items() if found}
    assert len(ours[0]) > 80
    unexplained = {name: found for name, found in apart.items() if name not in EXPLAINED}
    assert not unexplained, json.dumps(unexplained, indent=1)[:8000]
    assert set(apart) == set(EXPLAINED), "an explanation is of no use any more"
