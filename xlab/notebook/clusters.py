"""The processes of a group before they are one: started by ipyparallel, here or by a batch system, or given by the user, who started them."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

from xlab.errors import ProcessesLate
from xlab.notebook import machine, process_errors

_ASKED = 2.0
"""Seconds between two questions to a batch system about its job."""


class Engines:
    """Processes that run what they are sent, and the client that sends it."""

    def __init__(self, options: dict[str, Any], given: dict[str, str]):
        self.count: int = options["count"]
        self.client: Any = None
        self._options, self._environment = options, given
        engines = options["engines"]
        self.local = engines == "local"
        # Machines of a batch system have the user's home in common, not /tmp.
        self.folder = tempfile.mkdtemp(
            prefix="xlab-processes-" if self.local else ".xlab-processes-",
            dir=None if self.local or not isinstance(engines, str) else os.path.expanduser("~"),
        )
        self._cluster: Any = engines if is_cluster(engines) else None
        self._logger: logging.Logger | None = None
        self.borrowed = is_client(engines)
        if self.borrowed:
            self.client = engines
        self._begun = self._cluster is None or self._cluster.controller is None
        """Whether all of it ends with the group."""

    # -- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts what is not running yet; `wait` waits until all are there."""
        if self.borrowed:
            return
        with machine.environment(self._environment):
            if self._cluster is None:
                self._cluster = self._new()
            if self._cluster.controller is None:
                self._cluster.start_cluster_sync(n=self.count)
            elif not self._cluster.engines:
                self._cluster.start_engines_sync(n=self.count)
        self.client = self._cluster.connect_client_sync()

    def _new(self) -> Any:
        o, parallel = self._options, engines_package()
        log = self._logger = logging.getLogger(f"xlab.processes.{os.path.basename(self.folder)}")
        log.propagate = False
        log.addHandler(logging.FileHandler(os.path.join(self.folder, "cluster.log")))
        return parallel.Cluster(
            n=self.count,
            engines=o["engines"],
            **self._settings(),
            log=log,
            log_level=logging.WARNING,
            delay=0,
            profile_dir=os.path.join(self.folder, "profile"),
            controller_args=[
                "--HeartMonitor.period=500",
                "--HeartMonitor.max_heartmonitor_misses=20",
                *([] if self.local else ["--ip=*"]),
            ],
        )

    def _settings(self) -> dict[str, Any]:
        """What `Cluster` takes besides: settings of its launcher of engines."""
        kind, hosts, launcher = (self._options[k] for k in ("engines", "hosts", "launcher"))
        if kind == "ssh":
            each = hosts if isinstance(hosts, dict) else spread(hosts, self.count)
            # Its engines start in a shell over there, which has nothing of this kernel's environment.
            launcher = {"remote_python": sys.executable, "environment": self._environment, "engines": each, **launcher}  # fmt: skip
        if isinstance(kind, str):
            kind = entry_points(group="ipyparallel.engine_launchers")[kind].load()
        if hasattr(kind, "batch_file_name"):  # or it is left among the user's notebooks
            launcher = {"batch_file_name": os.path.join(self.folder, "job"), **launcher}
        if not launcher:
            return {}
        from traitlets.config import Config

        return {"config": Config({kind.__name__: launcher})}

    def wait(self, seconds: float) -> list[int]:
        """Waits until all are there; ipyparallel's numbers of them.

        Raises:
            ProcessLost: they ended before.
            ProcessesLate: they were not all there within `seconds`.
        """
        end, asked = time.monotonic() + seconds, 0.0
        while len(self.client.ids) < self.count:
            now, job = time.monotonic(), None
            if now - asked > _ASKED or now > end:
                asked, job = now, self._job()
            ended = list(self.endings().values())
            if len(ended) >= self.count or job == "":
                # Of a job there is one log.
                ended = ended or [(None, machine.last_lines(self._log()))]
                ended = (ended + [(None, [])] * self.count)[: self.count]
                raise process_errors.lost(range(self.count), ended, [], self.count, "before the start")  # fmt: skip
            if now > end:
                there = len(self.client.ids)
                queue = f". Slurm says of its job: {job}" if job else ""
                said = "\n".join(machine.last_lines(self._log()))
                raise ProcessesLate(
                    f"{there} of {self.count} processes started within {seconds:g} s (start_timeout){queue}"
                    + (f"; the launcher said:\n{said}" if said else "")
                )
            time.sleep(0.01)
        return list(self.client.ids)[: self.count]

    def _job(self) -> str | None:
        """What Slurm says of the job that these processes are; empty where it has ended, None where there is no such job."""
        job = getattr(self._set(), "job_id", "")
        if not job or shutil.which("squeue") is None:
            return None
        asked = ["squeue", "--noheader", "--format=%T (%r)", "--job", job]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            said = subprocess.run(asked, capture_output=True, text=True, timeout=20)
            if said.returncode == 0 or "Invalid job id" in said.stderr:
                return said.stdout.strip()
        return None

    def _log(self) -> str:
        """What the launcher and the processes wrote, for those that did not come."""
        said = ""
        with contextlib.suppress(OSError), open(os.path.join(self.folder, "cluster.log")) as file:
            said = file.read()
        with contextlib.suppress(Exception):  # of machines that are not reached
            said += "\n" + self._set().get_output()
        return said

    def _set(self) -> Any:
        """Of ipyparallel's launchers the one that started these processes."""
        sets = getattr(self._cluster, "engines", None)
        return self._cluster.engine_set if sets else None

    def endings(self) -> dict[int, tuple[int | None, list[str]]]:
        """How those ended that a launcher started here: by their pid the exit code, and the end of the log."""
        return machine.endings(self._set())

    def stop(self, ended: bool) -> None:
        """Ends what ipyparallel started; of engines that were `ended` here, ssh would be asked over and over."""
        cluster, client = self._cluster, self.client
        if cluster is not None:
            if client is not None:
                with contextlib.suppress(Exception):
                    client.close()
            with contextlib.suppress(Exception):
                engines = self._set()
                if ended and hasattr(engines, "launchers") and not machine.launchers(engines):
                    cluster.stop_controller_sync()
                    cluster.shutdown_atexit = False
                    for launcher in engines.launchers.values():
                        thread = getattr(launcher, "_wait_thread", None)
                        if thread is not None:  # an ssh that looks whether the process is there
                            thread.join(3)
                elif self._begun:
                    cluster.stop_cluster_sync()
                else:
                    cluster.stop_engines_sync()
        for handler in list(self._logger.handlers) if self._logger is not None else ():
            self._logger.removeHandler(
                handler
            )  # what is closed would be opened again by a late line
            handler.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def engines_package() -> Any:
    try:
        import ipyparallel
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "several processes are started by ipyparallel, which is not installed here: pip install 'xlab[processes]'"
        ) from None
    return ipyparallel


def is_cluster(engines: Any) -> bool:
    """Whether these are an `ipyparallel.Cluster`, running or not."""
    return _is(engines, lambda parallel: parallel.Cluster)


def is_client(engines: Any) -> bool:
    """Whether these are an `ipyparallel.Client`, with processes that run already."""
    return _is(engines, lambda parallel: parallel.Client)


def _is(engines: Any, kind: Callable[[Any], type]) -> bool:
    parallel = sys.modules.get("ipyparallel")
    return parallel is not None and isinstance(engines, kind(parallel))


def spread(hosts: Sequence[str], count: int) -> dict[str, int]:
    """How many of the processes each machine has: as equal as can be, the first have more.

    >>> spread(["a", "b"], 3)
    {'a': 2, 'b': 1}
    """
    return {h: len(range(k, count, len(hosts))) for k, h in enumerate(hosts)}
