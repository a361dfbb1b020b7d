"""Collectives are lowered to the operations of the reference with all their attributes, for every platform, and traced to its primitives."""

import json
import os
import subprocess
import sys

import pytest

from tests.parallel import lowering_cases
from tests.reference.oracle import FLAGS, unavailable

OWN = {(name, where) for name in ("pbroadcast", "pbroadcast ji") for where in ("cpu", "tpu")}
"""Where the reference has no rule: we gather and take one."""


@pytest.mark.reference
def test_operations_and_attributes_are_those_of_the_reference():
    """C5, C7, C46, C52, C58, C65, C71, C75, C92, C113."""
    why = unavailable()
    if why:
        pytest.skip(why)
    run = subprocess.Popen(
        [sys.executable, lowering_cases.__file__, "jax"],
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={
            **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            "XLA_FLAGS": FLAGS,
            "PYTHONWARNINGS": "ignore",
        },
    )
    ours = json.loads(json.dumps(lowering_cases.records("xlab")))
    lines = [line for line in run.communicate()[0].splitlines() if line.startswith("RECORDS ")]
    theirs = json.loads(lines[0].removeprefix("RECORDS "))
    assert theirs.keys() == ours.keys()
    found = sum(len(ops) for where in ours.values() for ops in where.values())
    assert found > 4 * len(ours), "there is something to compare"
    for name, where in ours.items():
        for key, made in where.items():
            if (name, key) not in OWN:
                assert made == theirs[name][key], (name, key)
            else:
                assert theirs[name][key] == "NotImplementedError" and made[0]["op"] == "all_gather"
    assert ours["psum uneven"]["tpu"] == "ValueError"
    assert ours["pbroadcast"]["cuda"][0]["op"] == "collective_broadcast"
