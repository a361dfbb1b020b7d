"""Programs on several devices give what the reference gives: values, how they lie, texts of rules and classes of errors."""

import json
import os
import subprocess
import sys

import pytest

from tests.parallel import device_cases, program_cases
from tests.parallel.workers import ROOT
from tests.reference.oracle import FLAGS, unavailable


@pytest.mark.reference
def test_programs_on_devices_are_those_of_the_reference():
    why = unavailable()
    if why:
        pytest.skip(why)
    run = subprocess.Popen(
        [sys.executable, "-m", program_cases.__name__, "jax"],
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "XLA_FLAGS": FLAGS,
            "PYTHONWARNINGS": "ignore",
        },
    )
    ours = device_cases.records("xlab")
    lines = [line for line in run.communicate()[0].splitlines() if line.startswith("RECORDS ")]
    theirs = json.loads(lines[0].removeprefix("RECORDS "))
    assert theirs.keys() == ours.keys()
    assert {name: theirs[name] for name in ours} == ours
