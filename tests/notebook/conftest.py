"""One JupyterLab for all tests that need one, for they drive a browser, and one group of processes for those of several processes: both run in
one worker."""

from __future__ import annotations

import signal
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


@pytest.fixture(scope="session")
def started_group():
    """Two processes of two devices each, started while interrupts are ignored, as under a server that a script put in the background."""
    pytest.importorskip("ipyparallel")
    from xlab.notebook import processes

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        group = processes.start(2, devices=2, timeout=60, gate_timeout=1.5, collective_timeout=5)
    finally:
        signal.signal(signal.SIGINT, before)
    yield group
    group.stop()


@pytest.fixture
def group(started_group):
    """The group with the names of SETUP; one that a test broke or ended is started anew."""
    from tests.notebook.groups import SETUP
    from xlab.errors import ProcessesLate

    try:
        if not started_group.members or started_group._gone():
            started_group.restart()
        names = started_group.run("print(sorted(globals()))")[0]["stdout"]
    except ProcessesLate:
        started_group.restart()
        names = ""
    if "mesh" not in names:
        started_group.run(SETUP)
    return started_group
