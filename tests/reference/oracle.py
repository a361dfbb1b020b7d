"""`Oracle`: asks the second process, and remembers its answers in files."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from tests.reference.run import Outcome
from tests.reference.sample import Case

REFERENCE = ("jax", "0.10.2")
ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
CODE = ("run.py", "sample.py", "data.py")  # what an answer depends on, beside its table
# Samples are compiled for the answer alone, on both sides: in half the time, and rounding the same.
QUICK = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
}
FLAGS = " ".join(
    [
        "--xla_force_host_platform_device_count=8",
        *(f"--{flag}={str(value).lower()}" for flag, value in QUICK.items()),
    ]
)


def unavailable() -> str | None:
    """Why the reference cannot be asked; None when it can."""
    name, wanted = REFERENCE
    try:
        found = version(name)
    except PackageNotFoundError:
        return f"the reference, {name} {wanted}, is not installed (pip install 'xlab[test]')"
    return None if found == wanted else f"the reference is {name} {wanted}; {found} is installed"


class Oracle:
    """A process that runs cases under the reference, started by the first question.

    Answers are kept under `cache`, named by the text of the table and of the code that runs it, so an unchanged
    table is asked about once on a machine.
    """

    def __init__(self, namespace: str = REFERENCE[0], cache: str | os.PathLike | None = None):
        self.namespace = namespace
        self.cache = None if cache is None else Path(cache)
        self._process: subprocess.Popen | None = None
        self._digests: dict[str, str] = {}
        self._known: Outcome | None = None
        self._asked: Case | None = None

    def ask(self, case: Case):
        """Poses the question; the reference works while the caller runs its own side."""
        if self._asked is not None:  # the caller's own side failed before it came for the answer
            self.answer()
        self._asked, self._known = case, self._read(case)
        if self._known is None:
            if self._process is None or self._process.poll() is not None:
                self._process = self._start()
            request = {"table": case.table, "sample": case.sample.name, "transform": case.transform}
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self) -> Outcome:
        """The outcome of the case asked about last.

        Raises:
            RuntimeError: when the process ended without an answer.
        """
        case, self._asked = self._asked, None
        if self._known is not None:
            return self._known
        stream = self._process.stdout
        head = stream.read(8)
        if len(head) < 8:
            status = self._process.wait()
            raise RuntimeError(
                f"the reference's process ended with status {status} while running {case.id}"
            )
        outcome = pickle.loads(stream.read(struct.unpack(">Q", head)[0]))
        self._write(case, outcome)
        return outcome

    def close(self):
        """Ends the process."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait(timeout=30)
            self._process = None

    def _start(self) -> subprocess.Popen:
        environment = dict(
            os.environ,
            JAX_PLATFORMS="cpu",
            XLAB_NUM_CPU_DEVICES="8",
            XLA_FLAGS=FLAGS,
            TF_CPP_MIN_LOG_LEVEL="2",
            PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        )
        return subprocess.Popen(
            [sys.executable, "-m", "tests.reference.worker", self.namespace],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def _path(self, case: Case) -> Path:
        if case.table not in self._digests:
            files = [Path(find_spec(case.table).origin), *(HERE / name for name in CODE)]
            text = (
                b"".join(file.read_bytes() for file in files)
                + repr((self.namespace, REFERENCE, FLAGS)).encode()
            )
            self._digests[case.table] = hashlib.sha256(text).hexdigest()[:20]
        return self.cache / self._digests[case.table] / f"{case.id}.pickle".replace("/", "_")

    def _read(self, case: Case) -> Outcome | None:
        if self.cache is None:
            return None
        try:
            return pickle.loads(self._path(case).read_bytes())
        except FileNotFoundError:
            return None

    def _write(self, case: Case, outcome: Outcome):
        if self.cache is None:
            return
        path = self._path(case)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:  # workers may race
            file.write(pickle.dumps(outcome))
        os.replace(file.name, path)
