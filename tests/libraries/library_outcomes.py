"""A plugin of pytest's that writes what became of each test, a line of JSON each; loaded where the suite of a library runs.

It stands on the path by itself, without the package around it: some libraries have a folder `tests` of their own.
"""

import json
import os
import random
import zlib

import numpy as np
import pytest

try:
    from absl import flags
except ImportError:
    flags = None


def pytest_addoption(parser):
    parser.addoption(
        "--shard",
        metavar="K/N",
        help="the tests of one of N machines, K from 1: spread by their names",
    )


def pytest_collection_modifyitems(config, items):
    if shard := config.getoption("--shard"):
        k, n = map(int, shard.split("/"))
        kept = [zlib.crc32(item.nodeid.encode()) % n == k - 1 for item in items]
        config.hook.pytest_deselected(items=[i for i, keep in zip(items, kept) if not keep])
        items[:] = [i for i, keep in zip(items, kept) if keep]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Tests that draw their parameters without a seed draw the same on both sides, whichever other tests run."""
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)


def pytest_configure(config):
    if flags is not None:
        flags.FLAGS.mark_as_parsed()  # as absl's own runner does
    if joined := os.environ.get("LIBRARY_PROCESS"):
        import jax  # after the plugin that puts xlab in its place

        address, index, count = joined.split()
        patience = {"heartbeat_timeout_seconds": 900}  # a busy machine is no dead process
        jax.distributed.initialize(address, int(count), int(index), **patience)
    path = os.environ.get("LIBRARY_OUTCOMES")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Written(path))


class _Written:
    def __init__(self, path):
        self.file = open(path, "w", buffering=1)  # noqa: SIM115
        self.said = {}

    def write(self, name, outcome, words=""):
        """The worst that became of a test counts: a failure of its teardown is one."""
        if self.said.get(name) == "failed":
            return
        self.said[name] = outcome
        self.file.write(json.dumps([name, outcome, words]) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.write(report.nodeid, report.outcome, _words(report))

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            self.write(report.nodeid, report.outcome, _words(report))

    def pytest_sessionfinish(self, exitstatus):
        """A last line, of no test, says how it ended: without it the run was cut short."""
        self.file.write(json.dumps(["", "ended", str(int(exitstatus))]) + "\n")

    def pytest_unconfigure(self):
        self.file.close()


def _words(report):
    """The last line that says what was wrong."""
    if report.outcome != "failed":
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return " ".join(text.split())[:600]
