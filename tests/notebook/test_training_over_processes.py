"""The notebook on training, cell by cell as it stands, in one process with eight devices and in two with four each."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.notebook.groups import MARKS
from tests.test_notebooks import ROOT, cells
from xlab.notebook import processes

pytest.importorskip("ipyparallel")
pytest.importorskip("sklearn")
pytestmark = [
    *MARKS,
    pytest.mark.skipif(
        "XLAB_TEST_EPOCHS" not in os.environ,
        reason="minutes: set XLAB_TEST_EPOCHS=1, or 40 for what the notebook itself does",
    ),
]
NOTEBOOK = ROOT / "notebooks" / "09_training_on_a_mesh.ipynb"
EPOCHS = int(os.environ.get("XLAB_TEST_EPOCHS", "1"))


def trained(count: int, devices: int) -> list[tuple[float, np.ndarray]]:
    """Accuracy and losses in every process, after so many epochs; the notebook's own 40 take minutes over processes."""
    group = processes.start(count, devices=devices, timeout=400 + 120 * EPOCHS)
    try:
        for number, cell in enumerate(code(NOTEBOOK), 1):
            group.run(cell, number=number)
        answers = group.run("print(float(accuracy), *np.asarray(losses).tolist())", number=50)
    finally:
        group.stop()
    said = [np.array(a["stdout"].split(), float) for a in answers]
    return [(float(s[0]), s[1:]) for s in said]


def code(path: Path) -> list[str]:
    """The cells; with fewer epochs those that ask for the accuracy of all are left out."""
    found = cells(path, "code")
    if EPOCHS == 40:
        return found
    assert "EPOCHS, BATCH, RATE = 40, 96, 3e-3" in "".join(found)
    return [c.replace("EPOCHS, BATCH, RATE = 40,", f"EPOCHS, BATCH, RATE = {EPOCHS},") for c in found
            if "0.95" not in c]  # fmt: skip


def test_two_processes_learn_what_one_does():
    (alone,) = trained(1, 8)
    together = trained(2, 4)
    for accuracy, losses in together:
        assert losses.shape == alone[1].shape and losses[-1] < losses[0]
        assert np.allclose(losses, alone[1], rtol=2e-3, atol=2e-3)
        assert abs(accuracy - alone[0]) <= 0.01
    assert together[0][0] == together[1][0] and np.array_equal(together[0][1], together[1][1])
