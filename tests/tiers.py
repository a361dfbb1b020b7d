"""Which tests a run takes, in which order, by how many workers; loaded by pytest before anything else (`-p tests.tiers`).

A bare `python -m pytest` takes the quick tests: those without a mark of `LATER`. `--all` takes every test, `--rest` what
the bare run leaves out, but for those marked `whole`, and again the few that look at what is installed beside. Where tests are named, by a path,
`-k`, `-m` or `--lf`, just those run, whatever their marks; after a run without failures `--lf` names none.
Runs that name nothing are spread over a worker per core where pytest-xdist is installed; `-n 0` keeps them in one process.
"""

from __future__ import annotations

import gc
import json
import os
from collections import Counter
from pathlib import Path

import pytest

# Marks of tests that the quick run leaves out, and the order in which others run them: browsers last.
LATER = {"sweep": 1, "whole": 1, "reference": 1, "slow": 2, "notebook": 3, "browser": 4}
WORKERS = 8  # at most: each has eight virtual devices and some gigabytes of programs
TOGETHER = 200  # tests of a file that one worker of a parallel run takes at once


def pytest_addoption(parser):
    group = parser.getgroup("tiers")
    group.addoption(
        "--all",
        action="store_const",
        const="all",
        dest="tier",
        help="every test, not the quick ones alone",
    )
    group.addoption(
        "--rest",
        action="store_const",
        const="rest",
        dest="tier",
        help="the tests that a bare run leaves out, but those of whole sweeps",
    )


def unnamed(config) -> bool:
    """Whether the command line names no tests."""
    given = config.known_args_namespace
    return not (
        given.file_or_dir
        or given.keyword
        or given.markexpr
        or (getattr(given, "lf", False) and failed_before(config))
        or config.invocation_params.dir != config.rootpath
    )


def failed_before(config) -> bool:
    """Whether pytest remembers failures for `--lf`; its own plugin has not read them yet where this is asked."""
    folder = Path(os.path.expandvars(config.getini("cache_dir")))
    try:
        failed = json.loads((config.rootpath / folder / "v/cache/lastfailed").read_text())
    except (OSError, ValueError):
        return False
    return bool(failed) and not config.known_args_namespace.cacheclear


def tier(config) -> str:
    """`quick`, `rest` or `all`."""
    return config.known_args_namespace.tier or ("quick" if unnamed(config) else "all")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config, args):
    """Spreads runs that name nothing over workers; what the command line says itself counts more."""
    if (
        unnamed(early_config)
        and early_config.pluginmanager.hasplugin("xdist")
        and "PYTEST_XDIST_WORKER" not in os.environ
    ):
        args[:0] = [
            "-n",
            "auto",
            f"--maxprocesses={WORKERS}",
            "--dist=loadgroup",
            "--no-loadscope-reorder",
        ]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["groups"] = node.config.getoption("dist") == "loadgroup"


def pytest_report_header(config):
    taken = {
        "quick": "the quick ones (--all for every test)",
        "rest": "all but the quick ones",
        "all": "all that are named",
    }
    return f"tests: {taken[tier(config)]}"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """The collector of cycles waits while tests are collected, and never walks over them after: that would be half of the time
    of collecting, and most of each `gc.collect()` in a test."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leaves out what the tier does not take. Then the shortest tour first, marked tests by what they cost; otherwise the order of the files.

    Of a table of samples, all tests of one sample follow each other: they share what was compiled for it.
    Parallel runs get a file's tests together for the same reason, and browsers and slow tests early, so that nobody waits
    for one of them at the end.
    """
    marks = {item: {mark.name for mark in item.iter_markers()} for item in items}
    kept = tier(config)
    if kept != "all":
        left = {item for item in items if not takes(kept, marks[item])}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    place_in_order(items, marks)
    group(items, marks)
    # What workers parse themselves does not tell them that tests are sent out by groups.
    if getattr(config, "workerinput", {}).get("groups"):
        config.option.loadgroup = True


def takes(tier: str, marks: set[str]) -> bool:
    quick = marks.isdisjoint(LATER)
    return quick if tier == "quick" else (not quick and "whole" not in marks) or "beside" in marks


def place_in_order(items, marks):
    tables = {item.path for item in items if "reference" in marks[item]}
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    browsers = 0.5 if parallel else LATER["browser"]
    slow = 0.6 if parallel else LATER["slow"]
    samples: dict[tuple, int] = {}

    def place(item):
        """Cost, then where the table's sample first stood; the place of the file for other tests."""
        late = max((LATER[name] for name in marks[item] if name in LATER), default=0)
        if item.path in tables:
            late = max(late, LATER["reference"])
        if late == LATER["browser"]:
            late = browsers
        if late == LATER["slow"]:
            late = slow
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        first = samples.setdefault(
            (item.path, getattr(getattr(case, "sample", None), "name", None)), len(samples)
        )
        return late, item.path.name != "test_tiny.py", first

    items.sort(key=place)


def group(items, marks):
    """Says which tests of a parallel run stay in one worker."""
    counts: Counter = Counter()
    for item in items:
        if "xdist_group" in marks[item]:
            continue
        if "browser" in marks[item]:
            item.add_marker(pytest.mark.xdist_group("browser"))  # one Chromium, not one a worker
        elif "notebook" not in marks[item]:
            counts[item.path] += 1
            item.add_marker(
                pytest.mark.xdist_group(
                    f"{item.nodeid.split('::')[0]}:{counts[item.path] // TOGETHER}"
                )
            )
