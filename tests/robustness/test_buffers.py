"""Whatever became of an array's buffers, whatever is done with it: a result or an error, never the end of the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.buffers import STATES, USES

ROOT = Path(__file__).parents[2]
WHOLE = bool(os.environ.get("XLAB_BUFFERS_WHOLE"))
GONE = {state for state in STATES if "deleted" in state or "donated" in state}
HARMLESS = {"repr", "format", "sharding", "delete", "live arrays"}
ASKED = (
    [f"{state} on {where}" for state in STATES for where in ("one", "many")]
    if WHOLE
    else ["donated, warm call on many", "assembled of a donated on many", "deleted on one"]
)


@pytest.mark.parametrize("asked", ASKED)
def test_every_use_ends_with_a_result_or_an_error(asked):
    ran = subprocess.run(
        [sys.executable, "-m", "tests.robustness.buffers", asked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "8"},
    )
    lines = [line.split("|", 2) for line in ran.stdout.splitlines() if line.count("|") >= 2]
    assert ran.returncode == 0, f"ended with {ran.returncode} in {lines[-1]}: {ran.stderr[-1000:]}"
    assert [use for _, use, _ in lines] == list(USES)
    if asked.rsplit(" on ", 1)[0] in GONE:
        wrong = [
            (use, said)
            for _, use, said in lines
            if use not in HARMLESS
            and "was deleted" not in said
            and "IncompatibleDevices" not in said
        ]
        assert not wrong
