"""Several processes behind one notebook: `xlab.processes.start(2)` starts them, and cells run in all of them.

`ipyparallel` starts, supervises and interrupts the processes; the coordination service is in this kernel, which is no member of the group,
so any process may die and the kernel lives. `engine.py` is what runs in each process, `parallel/group.py` what they agree by.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

import numpy as np

from xlab.errors import ProcessesLate, ProcessLost
from xlab.notebook import machine, process_errors
from xlab.parallel import group as _group

__all__ = ["Group", "current", "start"]

_GRACE = 1.0
"""Seconds in which the others may tell what they saw when a process ended."""

_START = 60.0
"""Seconds in which the processes are there."""

_current: Group | None = None


def current() -> Group | None:
    """The group of this notebook; None without one."""
    return _current


def start(
    count: int = 2,
    *,
    devices: int = 1,
    engines: Any = "local",
    timeout: float | None = None,
    gate: str = "launch",
    gate_timeout: float = 60,
    collective_timeout: int = 120,
    heartbeat: int = 10,
    env: dict[str, str] | None = None,
    hosts: Sequence[str] | dict[str, int] = (),
    launcher: dict[str, Any] | None = None,
) -> Group:
    """Starts processes that run the notebook's cells together; a group that is there already is stopped first.

    Args:
        count: how many processes.
        devices: CPU devices of each.
        engines: `"local"`, or another of ipyparallel's launchers, `"mpi"` (its processes import `mpi4py`), `"ssh"`, `"slurm"`, `"pbs"`, `"sge"`, `"lsf"`, `"htcondor"`.
        timeout: seconds that a cell may take; None for no limit.
        gate: `"launch"`: before each program that spans the processes they agree that it is the same one; `"off"`: they do not.
        gate_timeout: seconds that the others wait there for one that is late.
        collective_timeout: seconds after which a collective fails that not all processes take part in.
        heartbeat: seconds after which a silent process is taken for dead.
        env: variables for the processes' environment.
        hosts: for `"ssh"`, the machines as `ssh` calls them, `"user@host:port"`; given as a dict, with how many processes on each.
        launcher: settings of ipyparallel's launcher, such as `{"queue": "long"}` for Slurm or `{"remote_python": "/opt/bin/python"}` for ssh.

    Raises:
        ModuleNotFoundError: ipyparallel is not installed.
        ValueError: an option makes no sense.
        ProcessesLate: the processes did not start within a minute.
    """
    global _current
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"a group has at least one process, got {count!r}")
    if not isinstance(devices, int) or devices < 1:
        raise ValueError(f"each process has at least one device, got devices={devices!r}")
    if (engines == "ssh") != bool(hosts):
        raise ValueError(
            "engines='ssh' needs hosts=('first', 'second'), the machines to start processes on, and nothing else has hosts; "
            f"got engines={engines!r}, hosts={hosts!r}"
        )
    if gate not in ("launch", "off"):
        raise ValueError(f"gate is 'launch' or 'off', got {gate!r}")
    if _current is not None:
        _current.stop()
    made = Group(
        count=count,
        devices=devices,
        engines=engines,
        timeout=timeout,
        gate=gate,
        gate_timeout=gate_timeout,
        collective_timeout=collective_timeout,
        heartbeat=heartbeat,
        env=dict(env or {}),
        hosts=hosts,
        launcher=dict(launcher or {}),
    )
    try:
        made._start()
    except BaseException:
        made.stop()
        raise
    _current = made
    return made


def _engines_package() -> Any:
    try:
        import ipyparallel
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "several processes are started by ipyparallel, which is not installed here: pip install 'xlab[processes]'"
        ) from None
    return ipyparallel


def _settings(
    engines: Any, hosts: Any, launcher: dict[str, Any], count: int, env: dict[str, str]
) -> dict[str, Any]:
    """What `Cluster` takes besides: settings of its launcher of engines."""
    if engines == "ssh":
        each = hosts if isinstance(hosts, dict) else _spread(hosts, count)
        # Its engines start in a shell over there, which has nothing of this kernel's environment.
        launcher = {"remote_python": sys.executable, "environment": env, "engines": each, **launcher}  # fmt: skip
    if not launcher:
        return {}
    from traitlets.config import Config

    kind = engines
    if isinstance(engines, str):
        kind = entry_points(group="ipyparallel.engine_launchers")[engines].load()
    return {"config": Config({kind.__name__: launcher})}


def _stop(cluster: Any, ended: bool) -> None:
    """Ends what ipyparallel started; of engines that were `ended` here, ssh would be asked over and over."""
    if ended and not machine.launchers(cluster.engine_set):
        cluster.stop_controller_sync()
        cluster.shutdown_atexit = False
        for launcher in getattr(cluster.engine_set, "launchers", {}).values():
            thread = getattr(launcher, "_wait_thread", None)
            if thread is not None:  # an ssh that looks whether the process is there
                thread.join(3)
    else:
        cluster.stop_cluster_sync()


def _spread(hosts: Sequence[str], count: int) -> dict[str, int]:
    """How many of the processes each machine has: as equal as can be, the first have more.

    >>> _spread(["a", "b"], 3)
    {'a': 2, 'b': 1}
    """
    return {h: len(range(k, count, len(hosts))) for k, h in enumerate(hosts)}


class Group:
    """Processes that run cells together. Made by `start`."""

    def __init__(self, **options: Any):
        self.options = options
        self.count: int = options["count"]
        self.address = ""  # of the coordination service
        self.members: list[dict[str, Any]] = []
        self._folder = self._cluster = self._client = self._service = self._reaper = None  # type: ignore[assignment]
        self._epoch = 0
        self._pids: list[int] = []

    # -- life --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        parallel, o = _engines_package(), self.options
        self._folder: Any = tempfile.mkdtemp(prefix="xlab-processes-")
        log = logging.getLogger(f"xlab.processes.{os.path.basename(self._folder)}")
        log.propagate = False
        log.addHandler(logging.FileHandler(os.path.join(self._folder, "cluster.log")))
        before = set(machine.descendants(os.getpid()))
        local = o["engines"] == "local"
        address = _group.free_address("127.0.0.1" if local else machine.own_host())
        self.address = address
        self._service = _group.serve(address, self.count, heartbeat=o["heartbeat"])
        self._reaper: Any = machine.Reaper(self._folder)
        given = {
            "XLAB_NUM_CPU_DEVICES": str(o["devices"]),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": os.pathsep.join(
                filter(None, (machine.package_root(), os.environ.get("PYTHONPATH")))
            ),
            **o["env"],
        }
        cluster: Any = parallel.Cluster(
            n=self.count,
            engines=o["engines"],
            **_settings(o["engines"], o["hosts"], o["launcher"], self.count, given),
            log=log,
            log_level=logging.WARNING,
            delay=0,
            profile_dir=os.path.join(self._folder, "profile"),
            controller_args=[
                "--HeartMonitor.period=500",
                "--HeartMonitor.max_heartmonitor_misses=20",
                *([] if local else ["--ip=*"]),
            ],
        )
        self._cluster = cluster
        with machine.environment(given):
            cluster.start_cluster_sync()
        self._watch(before)
        self._client: Any = cluster.connect_client_sync()
        self._await_engines()
        from xlab.notebook import engine

        ids = list(self._client.ids)
        asked = [
            self._client[i].apply_async(
                engine.join,
                address,
                self.count,
                k,
                o["heartbeat"],
                o["collective_timeout"],
                o["devices"],
                self._folder if local else "",
            )
            for k, i in enumerate(ids)
        ]
        joined = [a.get(timeout=90) for a in asked]
        self.members = [{**m, "engine": i} for m, i in zip(joined, ids, strict=True)]
        self._watch(before)
        atexit.register(self.stop)

    def _watch(self, before: set[int]) -> None:
        """Tells the reaper which processes end with this one."""
        started = machine.descendants(os.getpid())
        self._pids = [p for p in started if p not in before and p != self._reaper.pid]
        self._reaper.watch(self._pids)

    def _await_engines(self) -> None:
        end = time.monotonic() + _START
        while len(self._client.ids) < self.count:
            ended = list(machine.endings(self._cluster.engine_set).values())
            if len(ended) >= self.count:
                raise process_errors.lost(range(self.count), ended, [], self.count, "before the start")  # fmt: skip
            if time.monotonic() > end:
                raise ProcessesLate(
                    f"{len(self._client.ids)} of {self.count} processes started within {_START:g} s; the launcher said:\n"
                    + "\n".join(machine.last_lines(self._log()))
                )
            time.sleep(0.01)

    def _log(self) -> str:
        """What the launcher and the processes wrote, for those that did not come."""
        with open(os.path.join(self._folder, "cluster.log")) as file:
            said = file.read()
        with contextlib.suppress(Exception):  # of machines that are not reached
            said += "\n" + self._cluster.engine_set.get_output()
        return said

    def stop(self) -> None:
        """Ends all processes of the group, and what ipyparallel started for them."""
        global _current
        if _current is self:
            _current = None
        atexit.unregister(self.stop)
        client, cluster, service, reaper = (
            self._client,
            self._cluster,
            self._service,
            self._reaper,
        )
        self._client = self._cluster = self._service = self._reaper = None
        if cluster is not None:
            for member in self.members:
                if member["host"] == machine.own_name():
                    machine.send(member["pid"], signal.SIGKILL)
            with contextlib.suppress(Exception):
                client.close()
            with contextlib.suppress(Exception):
                _stop(cluster, all(m["host"] == machine.own_name() for m in self.members))
        for pid in self._pids:
            machine.send(pid, signal.SIGKILL)
        if service is not None:
            # It waits for processes that are gone.
            thread = threading.Thread(target=service.shutdown, daemon=True)
            thread.start()
            thread.join(3)
        if reaper is not None:
            reaper.end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self.members, self._pids = [], []

    def restart(self) -> Group:
        """Ends the processes and starts new ones with the same options; the names in them are gone. Returns the group."""
        global _current
        self.stop()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        _current = self
        return self

    def interrupt(self) -> None:
        """Interrupts what the processes run, as the interrupt button does."""
        for member in self.members:
            if member["host"] == machine.own_name():
                machine.send(member["pid"], signal.SIGINT)
            else:
                self._client.send_signal(signal.SIGINT, [member["engine"]], block=False)

    # -- where they are ----------------------------------------------------------------------------------

    def where(self) -> list[str]:
        """One line per process: what it does at this moment."""
        lines = []
        for member in self.members:
            name, state = f"process {member['index']}", self._state(member)
            if state in ("gone", "stopped"):
                lines.append(f"{name}: {state} (pid {member['pid']})")
                continue
            said = self._said(member["index"])
            if said is None:
                lines.append(f"{name}: alive (pid {member['pid']} on {member['host']})")
            elif said["waiting"]:
                program, line, seconds = said["waiting"]
                lines.append(
                    f"{name}: waits for the others at `{program}` ({line}) for {seconds:.1f} s"
                )
            elif said["cell"]:
                at = said["line"] or said["cell"]
                lines.append(
                    f"{name}: at {at}, {said['programs']} program{'s' * (said['programs'] != 1)} started"
                )
            else:
                lines.append(
                    f"{name}: idle (pid {member['pid']}, {said['resident'] / 2**20:.0f} MiB)"
                )
        return lines

    def _said(self, index: int) -> dict[str, Any] | None:
        try:
            with open(os.path.join(self._folder, f"process{index}.json")) as file:
                return json.load(file)
        except (OSError, ValueError, TypeError):
            return None

    def __repr__(self) -> str:
        if not self.members:
            return "a group of processes that was stopped"
        devices = sum(len(m["devices"]) for m in self.members)
        return "\n".join((f"{self.count} processes with {devices} devices in all", *self.where()))

    def _gone(self) -> list[int]:
        return [m["index"] for m in self.members if self._state(m) == "gone"]

    def _state(self, member: dict[str, Any]) -> str:
        """`"running"`, `"stopped"` or `"gone"`; of one on another machine the engine's heartbeat tells."""
        if member["host"] == machine.own_name():
            return machine.state(member["pid"])
        return "running" if member["engine"] in self._client.ids else "gone"

    # -- work --------------------------------------------------------------------------------------------

    def run(
        self,
        source: str,
        *,
        magic: tuple[str, str] | None = None,
        processes: Sequence[int] | None = None,
        timeout: float | None = None,
        number: int = 1,
    ) -> list[dict[str, Any]]:
        """Runs Python, or a magic `(name, line)` with what stands below it, in all processes or some; what each wrote and showed.

        Raises:
            ProcessesApart: they were about to start different programs.
            ProcessFailed: one raised an error.
            ProcessLost: one ended.
            ProcessesLate: the cell did not end within `timeout` seconds.
            KeyboardInterrupt: the cell was interrupted.
        """
        if not self.members:
            raise ProcessLost("the group was stopped: xlab.processes.start(...) starts one")
        chosen = list(range(self.count)) if processes is None else sorted(set(processes))
        if not chosen or not all(0 <= k < self.count for k in chosen):
            raise ValueError(f"processes are numbered 0 to {self.count - 1}, got {processes!r}")
        gone = self._gone()
        if gone:
            raise self._lost(gone, "before the cell")
        from xlab.notebook import engine

        self._epoch += 1
        o = self.options
        gated = o["gate"] == "launch" and len(chosen) == self.count
        asked = {
            k: self._client[self.members[k]["engine"]].apply_async(
                engine.run, source, magic, number, self._epoch, gated, o["gate_timeout"]
            )
            for k in chosen
        }
        answers = self._answers(asked, timeout or o["timeout"], f"In[{number}]")
        process_errors.raise_errors(answers, number, self.count)
        return answers

    def _answers(self, asked: dict[int, Any], timeout: float | None, what: str) -> list[dict]:
        end = None if timeout is None else time.monotonic() + timeout
        grace = None
        try:
            while not all(a.ready() for a in asked.values()):
                next(a for a in asked.values() if not a.ready()).wait(0.02)
                now = time.monotonic()
                if grace is None and self._gone():
                    grace = now + _GRACE
                if grace is not None and now > grace:
                    break
                if end is not None and now > end:
                    break
        except KeyboardInterrupt:
            raise self._interrupted(asked, what) from None
        gone = self._gone()
        if gone:
            raise self._lost(gone, f"during {what}")
        if not all(a.ready() for a in asked.values()):
            raise ProcessesLate(
                f"{what} did not end within {timeout:g} s. {'; '.join(self.where())}. %xprocesses interrupt ends what they do, "
                f"%xprocesses restart starts them anew"
            )
        return [a.get() for a in asked.values()]

    def _interrupted(self, asked: dict[int, Any], what: str) -> KeyboardInterrupt:
        told = "; ".join(self.where())
        self.interrupt()
        end = time.monotonic() + 2
        while time.monotonic() < end and not all(a.ready() for a in asked.values()):
            time.sleep(0.02)
        if all(a.ready() for a in asked.values()):
            return KeyboardInterrupt(f"{what} was interrupted in all processes. {told}")
        self.restart()
        return KeyboardInterrupt(
            f"{what} was interrupted. Not all processes answered within 2 s, so they were started anew and their names are gone. {told}"
        )

    def _lost(self, gone: list[int], when: str) -> ProcessLost:
        known = machine.endings(self._cluster.engine_set)
        told = [known.get(self.members[k]["pid"], (None, [])) for k in gone]
        others = [line for line in self.where() if ": gone" not in line]
        return process_errors.lost(gone, told, others, self.count, when)

    def __getitem__(self, name: str) -> Any:
        """The value that the processes have under a name: the whole where all have the same, or their parts make it up; else a list."""
        from xlab.notebook import engine

        found = [self._client[m["engine"]].apply_async(engine.value, name) for m in self.members]
        texts, values = zip(*(f.get(timeout=60) for f in found), strict=True)
        if all(isinstance(v, list) for v in values):
            return _assembled([part for v in values for part in v])
        if all(v is not None for v in values) and all(np.array_equal(values[0], v) for v in values):
            return values[0]
        return [t if v is None else v for t, v in zip(texts, values, strict=True)]


def _assembled(parts: list) -> np.ndarray:
    """The whole array that parts with their indices make up."""
    rank = len(parts[0][0])
    shape = [max(a[0][d][1] or a[1].shape[d] for a in parts) for d in range(rank)]
    whole = np.empty(shape, parts[0][1].dtype)
    for index, value in parts:
        whole[tuple(slice(*span) for span in index)] = value
    return whole
