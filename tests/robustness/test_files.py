"""Exported programs from elsewhere are data: whatever is in such a file, it is read or refused, and the process goes on."""

import io
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import xlab
from tests.robustness.files import repacked
from xlab.export import deserialize, export
from xlab.transforms.export import _LONGEST

ROOT = Path(__file__).parents[2]
COUNT, SEED = os.environ.get("XLAB_FUZZ_FILES", "6"), os.environ.get("XLAB_FUZZ_SEED", "0")


def test_no_file_ends_the_process():
    ran = subprocess.run(
        [sys.executable, "-m", "tests.robustness.files", COUNT, SEED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "8"},
    )
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0, f"ended with {ran.returncode} at {lines[-1:]}: {ran.stderr[-1000:]}"
    assert len(lines) == 7 * int(COUNT) and not [
        line for line in lines if line.endswith("| ") or "SystemError" in line
    ]


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"PK\x05\x06" + b"\0" * 18,
        b"\x80\x04cos\nsystem\n(S'exit 1'\ntR.",
        b"{}",
        random.Random(7).randbytes(300),
    ],
)
def test_other_files_are_refused(blob):
    with pytest.raises(ValueError, match="not an exported program"):
        deserialize(blob)


def test_a_program_without_digests_or_of_others_is_refused():
    blob = bytes(export(xlab.jit(lambda x: x * 2))(np.float32(1)).serialize(vjp_order=1))
    head = json.loads(zipfile.ZipFile(io.BytesIO(blob)).read("program.json"))
    assert deserialize(repacked(blob, lambda parts: None)).call(np.float32(2)) == 4

    def refused(**changes):
        changed = {k: v for k, v in {**head, **changes}.items() if v is not ...}
        return repacked(
            blob, lambda parts: parts.update({"program.json": json.dumps(changed).encode()})
        )

    with pytest.raises(
        ValueError, match=r"^the exported program has no digests.*Make it again with xlab\.export"
    ):
        deserialize(refused(digests=...))
    for odd in (
        None,
        "",
        [],
        ["0" * 64],
        [head["digests"][0]] * 2,
        {"0": head["digests"][0]},
        [None],
        3,
    ):
        with pytest.raises(ValueError, match="damaged: it is not what was stored"):
            deserialize(refused(digests=odd))
    inner = zipfile.ZipFile(io.BytesIO(blob)).read("vjp")
    bare = repacked(
        inner,
        lambda parts: parts.update(
            {
                "program.json": json.dumps(
                    {k: v for k, v in json.loads(parts["program.json"]).items() if k != "digests"}
                ).encode()
            }
        ),
    )
    with pytest.raises(ValueError, match="no digests"):
        deserialize(repacked(blob, lambda parts: parts.update(vjp=bare))).vjp()


def test_a_part_of_a_size_it_cannot_have_is_not_unpacked(monkeypatch):
    blob = bytes(
        export(xlab.jit(lambda x: x + np.arange(4096, dtype=np.float32).sum()))(
            np.float32(1)
        ).serialize()
    )
    monkeypatch.setitem(_LONGEST, "program.json", 10)
    with pytest.raises(ValueError, match=r"'program.json' is said to have \d+ bytes"):
        deserialize(blob)
    monkeypatch.undo()
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(blob)) as given,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as files,
    ):
        head = json.loads(given.read("program.json"))
        head["constants"] = [[[1 << 40], "float32", False]]
        files.writestr("program.json", json.dumps(head))
        files.writestr("program.stablehlo", given.read("program.stablehlo"))
        files.writestr("constant0", b"\0" * 100)
    with pytest.raises(
        ValueError, match=r"'constant0' is said to have 100 bytes, and has to have \d+"
    ):
        deserialize(out.getvalue())
