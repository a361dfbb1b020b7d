"""Collectives are lowered to the operations of the reference with all their attributes, for every platform, and traced to its primitives."""

import json

import pytest

from tests.parallel import lowering_cases
from tests.reference.records import on_reference

OWN = {(name, where) for name in ("pbroadcast", "pbroadcast ji") for where in ("cpu", "tpu")}
"""Where the reference has no rule: we gather and take one."""


@pytest.mark.reference
def test_operations_and_attributes_are_those_of_the_reference():
    """C5, C7, C46, C52, C58, C65, C71, C75, C92, C113."""
    reference = on_reference(lowering_cases)
    ours = json.loads(json.dumps(lowering_cases.records("xlab")))
    theirs = reference()
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
