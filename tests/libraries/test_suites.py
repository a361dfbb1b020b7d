"""What is said of suites of libraries: their files, and what counts as a difference."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.libraries import __main__ as command
from tests.libraries import library_outcomes, suites
from tests.libraries.suites import Suite, compare, missed, names, outcomes, pinned, together


@pytest.mark.parametrize("library", names())
def test_a_library_is_pinned_and_its_differences_have_reasons(library):
    suite = Suite.of(library)
    assert suite.distribution in pinned() and suite.tests
    assert all(name.startswith(suite.tests) for name in suite.apart)
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
    known = Suite.of("numpyro", "test/test_transforms.py").different
    assert known and not Suite.of("numpyro", "test/infer").different
    file, *_ = Suite.of("distrax").apart
    folder = Suite.of("distrax", "distrax/_src/bijectors")
    assert folder.apart == (file,) and folder.tests == ("distrax/_src/bijectors",)
    alone = Suite.of("distrax", file)
    assert alone.apart == (file,) and not alone.tests
    left, *_ = Suite.of("flax").left_out
    assert left not in Suite.of("flax", left).left_out


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


def test_a_failure_in_one_of_several_processes_is_one():
    good, bad, skip = ("passed", ""), ("failed", "words"), ("skipped", "")
    first = {"a": good, "b": good, "c": bad, "d": skip}
    second = {"a": good, "b": bad, "c": good, "d": skip, "e": bad}
    assert together([first]) == first
    assert together([first, second]) == {"a": good, "b": bad, "c": bad, "d": skip, "e": bad}


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Starts of a suite's runs, in the place of processes: what was asked of each, and how each is said to end."""
    started, codes = [], {}

    class Started:
        def __init__(self, command, env, **_):
            k = len(started)
            started.append((command, env))
            with open(env["LIBRARY_OUTCOMES"], "w") as written:
                written.write(json.dumps(["t.py::one", "failed" if k else "passed", ""]) + "\n")
                last, self.code = codes.get(k, ("0", 0))
                if last:
                    written.write(json.dumps(["", "ended", last]) + "\n")

        def wait(self):
            return self.code

    monkeypatch.setattr(suites, "KEPT", tmp_path)
    monkeypatch.setattr(suites, "check_installed", lambda distribution: None)
    monkeypatch.setattr(Suite, "folder", lambda self: tmp_path)
    monkeypatch.setattr(suites.subprocess, "Popen", Started)
    return started, codes


def test_processes_join_and_share_a_folder(runs):
    started, _ = runs
    suite = Suite("some", "some", ("t.py",), devices=4, processes=2)
    assert suite.run("xlab", ("t.py",), ("-n", "2")) == {"t.py::one": ("failed", "")}
    (first, one), (second, two) = started
    assert first == second and first[-2:] == ["-n", "0"]
    assert one["TEST_TMPDIR"] == two["TEST_TMPDIR"] and one["JAX_NUM_CPU_DEVICES"] == "4"
    address, *said = one["LIBRARY_PROCESS"].split()
    assert said == ["0", "2"] and two["LIBRARY_PROCESS"].split() == [address, "1", "2"]
    assert one["LIBRARY_OUTCOMES"] != two["LIBRARY_OUTCOMES"]
    started.clear()
    Suite("some", "some", ("t.py",)).run("jax", ("t.py",), ("-n", "2"))
    ((command, env),) = started
    assert "LIBRARY_PROCESS" not in env and "-n" in command and command[-1] != "0"


def test_files_that_are_run_apart(runs):
    started, _ = runs
    suite = Suite("some", "some", ("t",), apart=("t/own.py", "t/other.py"), devices=4)
    assert len(suite.run("xlab", (*suite.tests, *suite.apart), ("-n", "2"))) == 1
    (rest, first), (own, second), (other, _) = started
    assert {"--ignore=t/own.py", "--ignore=t/other.py"} <= set(rest) and rest[-2:] != ["-n", "0"]
    assert own[-2:] == other[-2:] == ["-n", "0"] and not any("--ignore" in word for word in own)
    listed = [next(w[1:] for w in c if w[0] == "@") for c in (rest, own, other)]
    assert [Path(name).read_text() for name in listed] == ["t", "t/own.py", "t/other.py"]
    assert first["JAX_NUM_CPU_DEVICES"] == "4" and "JAX_NUM_CPU_DEVICES" not in second
    started.clear()
    suite.run("jax", ("t/a.py::b", "t/own.py::c"))
    assert len(started) == 2
    started.clear()
    suite.run("jax", ("t/own.py::c",))
    assert len(started) == 1


def test_names_that_hold_classes_are_asked_for_as_jax_has_them(runs, monkeypatch):
    started, _ = runs
    name = "t.py::test_<class 'xlab.numpy.float64'>"
    suite = Suite("some", "some", ("t.py",))
    suite.run("jax", (name,))
    ((command, _),) = started
    (listed,) = (word[1:] for word in command if word[0] == "@")
    assert Path(listed).read_text() == "t.py::test_<class 'jax.numpy.float64'>"
    found = {"t.py::test_<class 'jax.numpy.float64'>": ("passed", "")}
    monkeypatch.setattr(Suite, "_run", lambda *_, **__: found)
    assert suite.run("jax", (name,)) == {name: ("passed", "")}


def test_what_skips_itself_here_alone_is_a_difference():
    suite = Suite("some", "some", ("t",))
    ours = {"t.py::a": ("skipped", ""), "t.py::b": ("skipped", ""), "t.py::c": ("passed", ""), "u.py": ("skipped", "")}  # fmt: skip
    assert missed(ours) == ("t.py::a", "t.py::b", "u.py")
    found = compare(suite, ours, {"t.py::a": ("passed", ""), "t.py::b": ("skipped", ""), "u.py::d": ("passed", "")})  # fmt: skip
    assert found.new == {"t.py::a": "is skipped here", "u.py::d": "is skipped here"}


def test_a_process_joins_before_anything_is_collected(monkeypatch):
    joined = []
    initialize = lambda *args, **_: joined.append(args)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(distributed=SimpleNamespace(initialize=initialize)))  # fmt: skip
    monkeypatch.delenv("LIBRARY_OUTCOMES", raising=False)
    library_outcomes.pytest_configure(SimpleNamespace())
    assert not joined
    monkeypatch.setenv("LIBRARY_PROCESS", "127.0.0.1:5 1 2")
    library_outcomes.pytest_configure(SimpleNamespace())
    assert joined == [("127.0.0.1:5", 2, 1)]


@pytest.mark.parametrize(("last", "code"), [("", -11), ("3", 3), ("", 4)])
def test_a_run_that_is_cut_short_is_no_result(runs, capsys, last, code):
    """A crash would else count as few tests that all pass."""
    _, codes = runs
    codes.update({0: (last, code), 1: (last, code)})
    with pytest.raises(RuntimeError, match=rf"optax on xlab was cut short, .* {code}: see .*optax-xlab"):  # fmt: skip
        Suite.of("optax").run("xlab", ("t.py",))
    assert command.main(["optax"]) == 1 and "was cut short" in capsys.readouterr().out


def test_a_crash_after_the_last_test_is_told_and_loses_none(runs, capsys):
    runs[1][0] = "0", -6
    assert Suite.of("optax").run("xlab", ("t.py",)) == {"t.py::one": ("passed", "")}
    assert "ended with -6 after its tests" in capsys.readouterr().out


def test_the_last_line_of_outcomes_says_how_it_ended(tmp_path):
    written = library_outcomes._Written(tmp_path / "written")
    written.write("t.py::one", "passed")
    written.pytest_sessionfinish(exitstatus=pytest.ExitCode.TESTS_FAILED)
    written.pytest_unconfigure()
    assert outcomes(tmp_path / "written") == {"t.py::one": ("passed", ""), "": ("ended", "1")}
    assert outcomes(tmp_path / "none") == {}


def test_cases_of_ours_are_laid_beside_the_librarys_own(monkeypatch, tmp_path):
    suite = Suite.of("orbax")
    monkeypatch.setattr(suites, "KEPT", tmp_path)
    folder = tmp_path / f"{suite.distribution}-{pinned()[suite.distribution]}"
    folder.mkdir()
    assert suite.folder() == folder
    (laid,) = folder.iterdir()
    assert laid.read_text() == (suites.HERE / "cases" / suite.cases).read_text()
    assert all(name.partition("::")[0] == laid.name for name in (*suite.tests, *suite.left_out))
