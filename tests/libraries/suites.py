"""A library's suite: where it comes from, what became of its tests on either side, and what of that was not expected."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zlib
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEPT = Path(os.environ.get("XLAB_LIBRARY_SOURCES") or ROOT / "build" / "libraries")
MOST_LINES = 60  # of tests in a text
ENDINGS = ("0", "1", "5")  # of pytest, after all tests: passed, some failed, none there


def names() -> tuple[str, ...]:
    """The libraries whose suites are run."""
    return tuple(sorted(path.stem for path in HERE.glob("*.toml")))


def pinned() -> dict[str, str]:
    """The versions of the extra `libraries`, by distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = (row.split("==") for row in project["optional-dependencies"]["libraries"] if "==" in row)
    return dict(rows)


def check_installed(distribution: str) -> None:
    """Sees to it that what is imported is the version whose tests are run.

    Raises:
        RuntimeError: it is another, or none.
    """
    found, wanted = None, pinned()[distribution]
    with suppress(PackageNotFoundError):
        found = version(distribution)
    if found != wanted:
        raise RuntimeError(
            f"{distribution} {wanted} is pinned, whose tests are run, and {found or 'none'} is installed: pip install -e '.[libraries]'"
        )


@dataclass(frozen=True)
class Suite:
    """What a library's file says of its tests.

    Attributes:
        distribution: its name on the package index.
        tests: files and folders inside its source distribution.
        options: more arguments of pytest.
        devices: how many CPU devices its tests are written for, in each process; files that are run apart say it themselves.
        processes: how many processes join and run each test at once; 0 where none joins any.
        apart: files that are run in a process of their own each, for what they do to the process.
        cases: a file of ours in `cases/` that is laid beside a library's own, for test classes that it ships to be derived from.
        left_out: tests that are not run, and why.
        different: tests that pass on JAX and not on xlab, and why.
        part: the files and folders that are run, with commas between them, where it is not all of them.
    """

    library: str
    distribution: str
    tests: tuple[str, ...]
    options: tuple[str, ...] = ()
    devices: int = 1
    processes: int = 0
    apart: tuple[str, ...] = ()
    cases: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    different: dict[str, str] = field(default_factory=dict)
    part: str = ""

    @classmethod
    def of(cls, library: str, part: str = "") -> Suite:
        """A library's suite, or what of it lies under some paths; what is said of other tests is left out then.

        A file that the whole leaves out is run where it is named itself.
        """
        said = tomllib.loads((HERE / f"{library}.toml").read_text())
        for key in ("tests", "options", "apart"):
            said[key] = tuple(said.get(key, ()))
        if part:
            paths = tuple(part.split(","))
            said["apart"] = tuple(name for name in said["apart"] if name.startswith(paths))
            said["tests"] = tuple(path for path in paths if path not in said["apart"])
            for key in ("different", "left_out"):
                said[key] = {n: why for n, why in said.get(key, {}).items() if n.startswith(paths)}
            for path in paths:
                said["left_out"].pop(path, None)
        return cls(library, **said, part=part)

    def folder(self) -> Path:
        """Its source distribution, fetched by pip where it is not there yet."""
        name = f"{self.distribution}-{pinned()[self.distribution]}"
        spelled = [KEPT / name, KEPT / name.replace("-", "_", name.count("-") - 1)]
        if not any(path.is_dir() for path in spelled):
            KEPT.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                 "--dest", str(KEPT), name[::-1].replace("-", "==", 1)[::-1]],
                check=True,
            )  # fmt: skip
            for path in spelled:
                packed = path.with_name(path.name + ".tar.gz")
                if packed.exists():
                    with tarfile.open(packed) as archive:
                        archive.extractall(KEPT, filter="data")
        found = next(path for path in spelled if path.is_dir())
        if self.cases:
            shutil.copy(HERE / "cases" / self.cases, found)
        return found

    def base(self, side: str, given: tuple[str, ...] = (), home: str = "") -> Path:
        """How the names of a run's files begin; parts and shards of a library run beside each other, and each file that is run apart writes its own."""
        words = self.library, _slug(self.part), _slug(",".join(given)), _slug(home), side
        return KEPT / "-".join(filter(None, words))

    def run(
        self, side: str, tests: tuple[str, ...], given: tuple[str, ...] = (), timeout: float = 300
    ) -> dict[str, tuple[str, str]]:
        """What became of tests on one side, `xlab` or `jax`: outcome and words, by name.

        Those of a file that is run apart have their process after the others had theirs.
        """
        check_installed(self.distribution)
        if side == "jax":  # the names of parametrized tests may hold those of classes
            asked = {name.replace("<class 'xlab.", "<class 'jax."): name for name in tests}
        else:
            asked = dict(zip(tests, tests))
        homes = {name: name.partition("::")[0] for name in asked}
        found: dict[str, tuple[str, str]] = {}
        for home in ("", *self.apart):
            mine = tuple(n for n, h in homes.items() if h == home or (not home and h not in self.apart))  # fmt: skip
            if mine:
                base = self.base(side, given, home)
                found |= self._run(side, mine, given, timeout, base, apart=bool(home))
        return {asked.get(name, name): said for name, said in found.items()}

    def _run(
        self,
        side: str,
        tests: tuple[str, ...],
        given: tuple[str, ...],
        timeout: float,
        base: Path,
        apart: bool,
    ) -> dict[str, tuple[str, str]]:
        folder = self.folder()
        listed = Path(f"{base}.tests")
        listed.write_text("\n".join(tests))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "library_outcomes", "-p", "no:cacheprovider", "-o", "addopts=",
                   "--tb=short", "--no-header", "--continue-on-collection-errors", f"--timeout={timeout:g}", *self.options, *given, f"@{listed}"]  # fmt: skip
        if side == "xlab":
            # A suite is one process, whose programs are let go of in time; some suites take warnings for failures.
            command[4:4] = ["-p", "xlab.as_jax", "-W", "ignore:this process has:RuntimeWarning"]
        if (self.processes or apart) and any(word.startswith("-n") for word in given):
            command += ["-n", "0"]  # each of the processes runs the tests itself
        for name in (*self.left_out, *(() if apart else self.apart)):
            command += ["--deselect", name] if "::" in name else [f"--ignore={name}"]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE))),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for name in ("XLAB_NUM_CPU_DEVICES", "JAX_NUM_CPU_DEVICES"):
            env[name] = str(self.devices)
            if apart:  # such a file may say itself how many there are
                del env[name]
        written = [
            Path(f"{base}{f'-{k}' if k else ''}.jsonl") for k in range(max(1, self.processes))
        ]
        with ExitStack() as stack:
            if self.processes:
                # absl's folder of temporary files, the same in every process.
                env["TEST_TMPDIR"] = stack.enter_context(tempfile.TemporaryDirectory())
                address = _free_address()
            runs = []
            for k, path in enumerate(written):
                path.unlink(missing_ok=True)
                log = stack.enter_context(open(path.with_suffix(".log"), "w"))
                mine = {"LIBRARY_OUTCOMES": str(path)}
                if self.processes:
                    mine["LIBRARY_PROCESS"] = f"{address} {k} {self.processes}"
                runs.append(subprocess.Popen(command, cwd=folder, env={**env, **mine}, stdout=log, stderr=subprocess.STDOUT))  # fmt: skip
            ended = [run.wait() for run in runs]
        for path, code in zip(written, ended):
            last = outcomes(path).pop("", ("", ""))
            log = path.with_suffix(".log")
            if last[1] not in ENDINGS:
                raise RuntimeError(
                    f"{self.library} on {side} was cut short, pytest ended with {code}: see {log}"
                )
            if code != int(last[1]):
                print(f"{self.library} on {side}: the process ended with {code} after its tests, see {log}")  # fmt: skip
        found = together([outcomes(path) for path in written])
        del found[""]
        return found


def together(found: list[dict[str, tuple[str, str]]]) -> dict[str, tuple[str, str]]:
    """What became of tests that several processes ran: a failure in one of them is one."""
    first, *others = found
    for other in others:
        first = {**first, **{name: said for name, said in other.items() if said[0] == "failed"}}
    return first


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _slug(part: str) -> str:
    """A part, or options, as the beginning of a file's name."""
    return (
        f"{Path(part.partition(',')[0]).stem.lstrip('-')}-{zlib.crc32(part.encode()):08x}"
        if part
        else ""
    )


def outcomes(written: Path) -> dict[str, tuple[str, str]]:
    """Outcome and words by test, of a file that `library_outcomes` wrote; by "" how it ended, where it did."""
    lines = written.read_text().splitlines() if written.exists() else ()
    return {name: (outcome, words) for name, outcome, words in map(json.loads, lines)}


@dataclass(frozen=True)
class Comparison:
    """What became of a suite on xlab, and of what failed there on JAX.

    Attributes:
        passed: how many tests pass on xlab.
        skipped: how many are skipped there.
        both: tests that fail on both sides.
        named: tests that pass on JAX alone and are known to.
        new: tests that pass on JAX alone and are not, with what xlab said.
        stale: names in the library's file that pass now.
    """

    library: str
    passed: int
    skipped: int
    both: tuple[str, ...]
    named: tuple[str, ...]
    new: dict[str, str]
    stale: tuple[str, ...]

    @property
    def good(self) -> bool:
        return not self.new and not self.stale

    def __str__(self):
        on_jax = self.passed + len(self.named) + len(self.new)
        lines = [
            f"{self.library}: {self.passed:,} of {on_jax:,} pass on xlab, {len(self.named)} differ for a reason; {len(self.both)} fail on both, {self.skipped} are skipped"
        ]
        shown = list(self.new.items())[:MOST_LINES]
        lines += [f"  passes on JAX alone: {name}\n    {words[:200]}" for name, words in shown]
        lines += [f"  and {len(self.new) - len(shown):,} more"] * (len(self.new) > len(shown))
        lines += [f"  said to differ, and passes: {name}" for name in self.stale]
        # What a machine lacks shows here, and would else pass for a library that tests less.
        lines += [f"  imported on neither side: {name}" for name in self.both if "::" not in name]
        return "\n".join(lines)


def compare(
    suite: Suite, ours: dict[str, tuple[str, str]], theirs: dict[str, tuple[str, str]]
) -> Comparison:
    """Tests that pass on xlab count as passing on JAX; of the others JAX was asked."""
    kinds = {name: outcome for name, (outcome, _) in ours.items()}
    passed = [name for name, outcome in kinds.items() if outcome == "passed"]
    alone = {
        name: _said_of(name, ours) or "is skipped here"
        for name, (outcome, _) in theirs.items()
        if outcome == "passed" and kinds.get(name) != "passed"
    }
    return Comparison(
        suite.library,
        len(passed),
        sum(outcome == "skipped" for outcome in kinds.values()),
        tuple(
            name
            for name, outcome in kinds.items()
            if outcome == "failed"
            and not any(n.partition("::")[0] == name or n == name for n in alone)
        ),
        tuple(name for name in alone if name in suite.different),
        {name: words for name, words in alone.items() if name not in suite.different},
        tuple(name for name in suite.different if kinds.get(name) == "passed"),
    )


def _said_of(name: str, ours: dict[str, tuple[str, str]]) -> str:
    """What xlab said of a test, or of the file that it could not import."""
    return ours.get(name, ours.get(name.partition("::")[0], ("", "was not collected")))[1]


def missed(ours: dict[str, tuple[str, str]]) -> tuple[str, ...]:
    """What JAX is asked about: tests that fail, and those that skip themselves, which may be for want of something here."""
    return tuple(name for name, (outcome, _) in ours.items() if outcome != "passed")
