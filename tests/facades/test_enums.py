"""Enumerations are spelled as the reference spells them: files and messages of libraries hold the words."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.reference.oracle import ROOT, unavailable

# Run on either side: by public name of an enumeration, by member, how it is written and what it stands for.
TEXT = """
import enum, importlib, json, sys, warnings
warnings.simplefilter("ignore")
found = {}
for name in MODULES:
    module = importlib.import_module(sys.argv[1] + name)
    for kind, cls in ((k, getattr(module, k)) for k in dir(module) if k[0].isupper()):
        if isinstance(cls, type) and issubclass(cls, enum.Enum):
            found[name + "." + kind] = {m.name: [str(m), f"{m}", repr(m), str(m.value)] for m in cls}
print(json.dumps(found))
"""
MODULES = ["", ".lax", ".lax.linalg", ".sharding", ".experimental.pallas"]
OUR_REPR = {
    ".experimental.pallas.MemorySpace": "types of references are written with the word alone"
}


def enumerations(library: str) -> dict[str, dict[str, list[str]]]:
    text = TEXT.replace("MODULES", repr(MODULES))
    done = subprocess.run(
        [sys.executable, "-c", text, library], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.reference
def test_members_are_written_as_in_the_reference():
    if why := unavailable():
        pytest.skip(why)
    ours, theirs = enumerations("xlab"), enumerations("jax")
    assert len(theirs) > 10
    apart = {}
    for name, members in theirs.items():
        for member, told in members.items():
            mine = ours.get(name, {}).get(member)
            if name in OUR_REPR and mine:
                mine[2] = told[2]
            if mine != told:
                apart[f"{name}.{member}"] = mine, told
    assert not apart


def test_the_words_of_axis_types():
    from xlab.sharding import AxisType

    assert [(str(t), f"{t}", repr(t)) for t in AxisType] == [
        (f"AxisType.{n}", f"AxisType.{n}", n) for n in ("Auto", "Explicit", "Manual")
    ]
