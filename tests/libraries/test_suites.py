"""What is said of suites of libraries: their files, and what counts as a difference."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

from tests.libraries import __main__ as command
from tests.libraries import library_outcomes, suites
from tests.libraries.suites import Suite, compare, names, outcomes, pinned


@pytest.mark.parametrize("library", names())
def test_a_library_is_pinned_and_its_differences_have_reasons(library):
    suite = Suite.of(library)
    assert suite.distribution in pinned() and suite.tests
    for name, reason in {**suite.different, **suite.left_out}.items():
        assert name.startswith(suite.tests) and len(reason.split()) > 2, name


def test_what_passes_on_the_reference_alone_has_to_be_named(tmp_path):
    suite = Suite("some", "some", ("t",), different={"t.py::known": "…", "t.py::mended": "…"})
    written = tmp_path / "written"
    rows = [("t.py::good", "passed"), ("t.py::mended", "passed"), ("t.py::known", "failed"), ("t.py::bad", "failed"), ("t.py::worse", "failed"), ("t.py::not", "skipped"), ("u.py", "failed")]  # fmt: skip
    written.write_text("".join(f'["{name}", "{outcome}", "words"]\n' for name, outcome in rows))
    theirs = {"t.py::known": "passed", "t.py::bad": "passed", "t.py::worse": "failed", "u.py::inside": "passed"}  # fmt: skip
    found = compare(suite, outcomes(written), {n: (o, "") for n, o in theirs.items()})
    assert (found.passed, found.skipped, found.named, found.stale) == (2, 1, ("t.py::known",), ("t.py::mended",))  # fmt: skip
    assert found.new == {"t.py::bad": "words", "u.py::inside": "words"} and found.both == ("t.py::worse",)  # fmt: skip
    assert not found.good and "2 of 5 pass on xlab" in str(found)
    unread = Suite("some", "some", ("t",))
    gone = {"v.py": ("failed", "no module named w")}
    assert "imported on neither side: v.py" in str(compare(unread, gone, dict(gone)))
    assert "passes on JAX alone: t.py::bad" in str(found) and "passes: t.py::mended" in str(found)


def test_the_command_names_its_libraries(capsys):
    assert command.main(["nothing"]) == 2 and command.main([]) == 2
    assert "libraries: all, " + ", ".join(names()) in capsys.readouterr().out


def test_another_version_than_the_pinned_one_is_not_tested(monkeypatch):
    monkeypatch.setattr(suites, "version", lambda name: "0.0.1")
    with pytest.raises(RuntimeError, match=r"optax [\d.]+ is pinned, .* and 0\.0\.1 is installed"):
        suites.Suite.of("optax").run("xlab", ())
    monkeypatch.setattr(suites, "version", lambda name: suites.pinned()[name])
    suites.check_installed("optax")


def test_a_part_of_a_suite():
    part = Suite.of("linen", "tests/linen/linen_test.py,tests/linen/partitioning_test.py")
    assert part.tests == ("tests/linen/linen_test.py", "tests/linen/partitioning_test.py")
    assert part.different and not Suite.of("linen", "tests/linen/partitioning_test.py").different
    alone, *_ = Suite.of("distrax").left_out
    assert Suite.of("distrax", "distrax/_src/bijectors").left_out.keys() == {alone}
    assert not Suite.of("distrax", alone).left_out


def test_the_shards_of_a_suite_are_all_of_it():
    shards, left = [], []
    for k in (1, 2, 3):
        items = [SimpleNamespace(nodeid=f"t.py::test[{i}]") for i in range(40)]
        hook = SimpleNamespace(pytest_deselected=lambda items: left.append(len(items)))
        config = SimpleNamespace(getoption=lambda name, k=k: f"{k}/3", hook=hook)
        library_outcomes.pytest_collection_modifyitems(config, items)
        shards.append({item.nodeid for item in items})
    assert len(set.union(*shards)) == sum(map(len, shards)) == 40 and min(map(len, shards)) > 5
    assert left == [40 - len(s) for s in shards]


def test_runs_beside_each_other_have_files_of_their_own():
    whole, part = Suite.of("linen"), Suite.of("linen", "tests/linen/linen_test.py")
    given = (), ("--shard", "1/3"), ("--shard", "2/3")
    assert len({suite.base("xlab", g) for suite in (whole, part) for g in given}) == 6
    assert "shard" in whole.base("xlab", given[1]).name


def test_draws_without_a_seed_are_those_of_the_test():
    drawn = {}
    for name in ("t.py::a", "t.py::b", "t.py::a"):
        library_outcomes.pytest_runtest_setup(SimpleNamespace(nodeid=name))
        drawn.setdefault(name, []).append((np.random.random(), random.random()))
    assert len(set(drawn["t.py::a"])) == 1 and drawn["t.py::a"][0] != drawn["t.py::b"][0]
