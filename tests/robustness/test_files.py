"""Exported programs from elsewhere are data: whatever is in such a file, it is read or refused, and the process goes on."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import xlab
from xlab.export import deserialize, export
from xlab.transforms.export import _LONGEST

ROOT = Path(__file__).parents[2]
COUNT, SEED = os.environ.get("XLAB_FUZZ_FILES", "6"), os.environ.get("XLAB_FUZZ_SEED", "0")


def test_no_file_ends_the_process():
    ran = subprocess.run([sys.executable, "-m", "tests.robustness.files", COUNT, SEED], cwd=ROOT, capture_output=True, text=True, timeout=1200,
                         env={**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "8"})
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0, f"ended with {ran.returncode} at {lines[-1:]}: {ran.stderr[-1000:]}"
    assert len(lines) == 7 * int(COUNT) and not [line for line in lines if line.endswith("| ") or "SystemError" in line]


@pytest.mark.parametrize("blob", [b"", b"PK\x05\x06" + b"\0" * 18, b"\x80\x04cos\nsystem\n(S'exit 1'\ntR.", b"{}", os.urandom(300)])
def test_other_files_are_refused(blob):
    with pytest.raises(ValueError, match="not an exported program"):
        deserialize(blob)


def test_a_part_of_a_size_it_cannot_have_is_not_unpacked(monkeypatch):
    blob = bytes(export(xlab.jit(lambda x: x + np.arange(4096, dtype=np.float32).sum()))(np.float32(1)).serialize())
    monkeypatch.setitem(_LONGEST, "program.json", 10)
    with pytest.raises(ValueError, match=r"'program.json' is said to have \d+ bytes"):
        deserialize(blob)
    monkeypatch.undo()
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(blob)) as given, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as files:
        head = json.loads(given.read("program.json"))
        head["constants"] = [[[1 << 40], "float32", False]]
        files.writestr("program.json", json.dumps(head))
        files.writestr("program.stablehlo", given.read("program.stablehlo"))
        files.writestr("constant0", b"\0" * 100)
    with pytest.raises(ValueError, match=r"'constant0' is said to have 100 bytes, and has to have \d+"):
        deserialize(out.getvalue())
