"""What a run takes: quick tests where nothing is named, and all that is named where something is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.reference.harness import chosen, law_cases
from tests.reference.sample import Case, Sample
from tests.reference.table import module_of
from tests.tiers import LATER

ROOT = Path(__file__).resolve().parent.parent
MARKS = [*LATER, "law", "beside"]
XDIST = ("-p", "xdist") if find_spec("xdist") else ()


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A suite with a plain test and one of every mark, in two files; returns a function that runs pytest there."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\naddopts = -p tests.tiers -q -rp\nmarkers =\n"
        + "".join(f"    {mark}: -\n" for mark in [*MARKS, "xdist_group"])
    )
    (folder / "tests").mkdir()
    (folder / "tests" / "test_plain.py").write_text("def test_plain(): pass\n")
    (folder / "tests" / "test_marked.py").write_text(
        "import pytest\n"
        + "".join(f"@pytest.mark.{mark}\ndef test_{mark}(): pass\n" for mark in MARKS)
    )

    def run(*words):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
            environment.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *XDIST, *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(
            re.findall(r"^PASSED \S+::test_(\w+)", done.stdout, re.MULTILINE)
        ), "bringing up nodes" in done.stdout

    run.failed = folder / ".pytest_cache" / "v" / "cache" / "lastfailed"
    return run


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ("", ["beside", "law", "plain"]),
        ("--rest", sorted([*LATER.keys() - {"whole"}, "beside"])),
        ("--all", sorted(["plain", *MARKS])),
    ],
)
def test_a_run_that_names_nothing(suite, words, taken):
    """It is spread over workers, where that is possible."""
    assert suite(*words.split()) == (taken, bool(XDIST))


@pytest.mark.skipif(not XDIST, reason="pytest-xdist is not installed (pip install 'xlab[test]')")
def test_a_worker_takes_the_tests_of_a_file_together(tmp_path):
    """They share what is compiled, a browser, the answers of the reference."""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\naddopts = -p tests.tiers\nmarkers =\n    xdist_group: -\n"
    )
    (tmp_path / "tests").mkdir()
    test = f"def test(i, worker_id):\n    print(worker_id, __file__[-4], file=open({str(tmp_path / 'log')!r}, 'a'))\n"
    for file in "ab":
        (tmp_path / "tests" / f"test_{file}.py").write_text(
            f"import pytest\n@pytest.mark.parametrize('i', range(20))\n{test}"
        )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "-n 2"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    run = [sys.executable, "-m", "pytest"]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "log").read_text().split("\n")[:-1]
    assert len(lines) == 40 and len(set(lines)) == 2, sorted(set(lines))


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ("tests/test_marked.py", sorted(MARKS)),
        ("tests/test_marked.py::test_browser", ["browser"]),
        ("-k slow", ["slow"]),
        ("-m reference", ["reference"]),
    ],
)
def test_what_is_named_runs_whatever_its_marks(suite, words, taken):
    assert suite(*words.split()) == (taken, False)


def test_last_failed_names_tests_where_some_failed(suite):
    """After a run without failures pytest takes them all: the quick ones, spread over workers."""
    suite.failed.parent.mkdir(parents=True, exist_ok=True)
    for failed in ({}, {"tests/test_marked.py::test_slow": True}):
        suite.failed.write_text(json.dumps(failed))
        taken = (["slow"], False) if failed else (["beside", "law", "plain"], bool(XDIST))
        assert suite("--lf") == taken
    suite.failed.write_text(json.dumps({"tests/test_marked.py::test_slow": True}))
    assert suite("--lf", "--cache-clear") == (["beside", "law", "plain"], bool(XDIST))


def test_a_quick_run_checks_one_law_of_a_sample():
    cases = [
        Case("", Sample(name, None), transform)
        for name in ("one", "other", "third")
        for transform in ("jit", "vmap", "grad")
    ]

    @law_cases(cases)
    def law(case):
        pass

    [rows] = [mark.args[1] for mark in law.pytestmark if mark.name == "parametrize"]
    quick = [row.values[0] for row in rows if not row.marks]
    assert [case.sample.name for case in quick] == ["one", "other", "third"]
    assert len({case.transform for case in quick}) > 1
    assert all(case.transform == chosen(case.sample, ["jit", "vmap", "grad"]) for case in quick)


def tables() -> list[str]:
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted(ROOT.glob("tests/**/samples*.py"))
    ]


def test_every_table_is_checked():
    """By `test_reference`, in the file of its own or in the one that it names."""
    assert len(tables()) >= 50
    for name in tables():
        elsewhere = getattr(
            sys.modules.get(name) or __import__(name, fromlist=["SAMPLES"]), "COMPARED_IN", None
        )
        if elsewhere:
            assert f'@cases("{name}")' in (ROOT / elsewhere).read_text(encoding="utf-8"), (
                f"{elsewhere} does not check {name}"
            )
        else:
            assert hasattr(module_of(name), "test_reference")


def test_what_is_compiled_quickly_is_there(pytestconfig):
    (conftest,) = (
        plugin
        for plugin in pytestconfig.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(ROOT / "tests/conftest.py")
    )
    for path in (*conftest.COMPILED_QUICKLY, *conftest.COMPILED_AS_USERS_DO):
        assert (ROOT / path).exists(), path
