"""One JupyterLab for all tests that need one: they run in one worker, for they drive a browser."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.notebook.labs import started


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A JupyterLab with a folder of its own; `lab.write(name, cells)` puts a notebook there."""
    if find_spec("jupyterlab") is None:
        pytest.skip("JupyterLab is not installed (pip install 'xlab[lab]')")
    with started(tmp_path_factory.mktemp("lab")) as made:
        yield made
