"""A run that loses descriptors fails, and says which."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.descriptors import FOLDER, KEPT

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.skipif(not FOLDER.exists(), reason="this system does not list descriptors")
@pytest.mark.parametrize(("lost", "status"), [(KEPT // 2, 0), (KEPT + 1, 1)])
def test_a_run_ends_with_what_it_began(tmp_path, lost, status):
    suite = tmp_path / "test_suite.py"
    suite.write_text(
        "import os\n"
        f"def test_that_loses(): kept.extend(os.open(__file__, os.O_RDONLY) for _ in range({lost}))\n"
        f"def test_that_does_not():\n    for _ in range({2 * KEPT}): os.close(os.dup(1))\n"
        "kept = []\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.descriptors", str(suite)],
        cwd=tmp_path,
        env={
            **{k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"},
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == status and "2 passed" in done.stdout, done.stdout + done.stderr
    assert (f"{suite}', {lost})" in done.stdout) == bool(status)
