"""Several processes behind one notebook: `xlab.processes.start(2)` starts them, and cells run in all of them.

`ipyparallel` starts, supervises and interrupts the processes; the coordination service is in this kernel, which is no member of the group,
so any process may die and the kernel lives. `engine.py` is what runs in each process, `parallel/gate.py` what they agree by.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.errors import ProcessesLate, ProcessLost
from xlab.notebook import clusters, machine, process_errors
from xlab.parallel import group as _group

__all__ = ["Group", "current", "start"]

_GRACE = 1.0
"""Seconds in which the others may tell what they saw when a process ended."""

_GATES = ("launch", "compile", "off")

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
    start_timeout: float = 60,
    env: dict[str, str] | None = None,
    hosts: Sequence[str] | dict[str, int] = (),
    launcher: dict[str, Any] | None = None,
) -> Group:
    """Starts processes that run the notebook's cells together; a group that is there already is stopped first.

    Args:
        count: how many processes.
        devices: CPU devices of each.
        engines: `"local"`, or another of ipyparallel's launchers, `"mpi"` (its processes import `mpi4py`), `"ssh"`, `"slurm"`, `"pbs"`, `"sge"`, `"lsf"`, `"htcondor"`;
            an `ipyparallel.Cluster`, which is started where it does not run yet, and whose engines end with the group; or an
            `ipyparallel.Client`, whose engines run on when the group has ended. In both the group has the first `count` engines, that have
            not used a device yet.
        timeout: seconds that a cell may take; None for no limit.
        gate: `"launch"`: before each program that spans the processes they agree that it is the same one; `"compile"`: only before the first start of each
            program, so that a program that is known costs nothing more and another order of known programs is not found; `"off"`: they do not.
        gate_timeout: seconds that the others wait there for one that is late.
        collective_timeout: seconds after which a collective fails that not all processes take part in.
        heartbeat: seconds after which a silent process is taken for dead.
        start_timeout: seconds in which all processes are there; for a batch system, also the time in its queue.
        env: variables for the processes' environment.
        hosts: for `"ssh"`, the machines as `ssh` calls them, `"user@host:port"`; given as a dict, with how many processes on each.
        launcher: settings of ipyparallel's launcher, such as `{"queue": "long"}` for Slurm or `{"remote_python": "/opt/bin/python"}` for ssh.

    Raises:
        ModuleNotFoundError: ipyparallel is not installed.
        ValueError: an option makes no sense.
        ProcessesLate: the processes did not start within `start_timeout`.
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
    if gate not in _GATES:
        raise ValueError(f"gate is 'launch', 'compile' or 'off', got {gate!r}")
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
        start_timeout=start_timeout,
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


class Group:
    """Processes that run cells together. Made by `start`."""

    def __init__(self, **options: Any):
        self.options = options
        self.count: int = options["count"]
        self.address = ""  # of the coordination service
        self.members: list[dict[str, Any]] = []
        self._engines = self._service = self._reaper = None  # type: ignore[assignment]
        self._epoch = 0
        self._pids: list[int] = []

    # -- life --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        clusters.engines_package()
        o = self.options
        given = {
            "XLAB_NUM_CPU_DEVICES": str(o["devices"]),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": os.pathsep.join(
                filter(None, (machine.package_root(), os.environ.get("PYTHONPATH")))
            ),
            **o["env"],
        }
        engines: Any = clusters.Engines(o, given)
        self._engines = engines
        before = set(machine.descendants(os.getpid()))
        self.address = _group.free_address("127.0.0.1" if engines.local else machine.own_host())
        self._service = _group.serve(self.address, self.count, heartbeat=o["heartbeat"])
        self._reaper: Any = machine.Reaper(engines.folder)
        engines.start()
        self._watch(before)
        ids = engines.wait(o["start_timeout"])
        from xlab.notebook import engine

        told = self.address, self.count, o["heartbeat"], o["collective_timeout"], o["devices"]
        if not isinstance(o["engines"], str):  # which started without them
            paths = given.pop("PYTHONPATH").split(os.pathsep)
            for i in ids:
                engines.client[i].execute(
                    f"import os, sys; os.environ.update({given!r}); sys.path += {paths!r}"
                )
        if not engines.local:  # neighbors on a machine have neighboring numbers
            hosts = [engines.client[i].apply_async(socket.gethostname) for i in ids]
            ids = [i for _, i in sorted(zip((h.get(timeout=90) for h in hosts), ids, strict=True))]
        folder = (engines.folder, machine.own_name(), not engines.borrowed)
        asked = [
            engines.client[i].apply_async(engine.join, k, *told, *folder) for k, i in enumerate(ids)
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

    @property
    def _client(self) -> Any:
        return self._engines.client

    def stop(self) -> None:
        """Ends all processes of the group, and what ipyparallel started for them; engines of a client that was given only leave it."""
        global _current
        if _current is self:
            _current = None
        atexit.unregister(self.stop)
        engines, service, reaper = self._engines, self._service, self._reaper
        self._engines = self._service = self._reaper = None
        if engines is not None:
            near = [m for m in self.members if m["host"] == machine.own_name()]
            if engines.borrowed:
                self._leave(engines.client)
            else:
                for member in near:
                    machine.send(member["pid"], signal.SIGKILL)
            engines.stop(bool(near) and len(near) == len(self.members))
        for pid in self._pids:
            machine.send(pid, signal.SIGKILL)
        if service is not None:
            # It waits for processes that are gone.
            thread = threading.Thread(target=service.shutdown, daemon=True)
            thread.start()
            thread.join(3)
        if reaper is not None:
            reaper.end()
        self.members, self._pids = [], []

    def _leave(self, client: Any) -> None:
        from xlab.notebook import engine

        asked = [client[m["engine"]].apply_async(engine.leave) for m in self.members if self._state(m, client) == "running"]  # fmt: skip
        for answer in asked:
            answer.wait(5)

    def restart(self) -> Group:
        """Ends the processes and starts new ones with the same options; the names in them are gone. Returns the group.

        Raises:
            ValueError: the engines are those of a client that was given, and who started them has to start new ones.
        """
        global _current
        if clusters.is_client(self.options["engines"]):
            raise ValueError(
                "a process that has left a group joins no other, and the engines of a Client are not ours to start: restart them where they "
                "were started (client.cluster.restart_engines_sync()), then xlab.processes.start(..., engines=client)"
            )
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
            with open(os.path.join(self._engines.folder, f"process{index}.json")) as file:
                return json.load(file)
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def __repr__(self) -> str:
        if not self.members:
            return "a group of processes that was stopped"
        devices = sum(len(m["devices"]) for m in self.members)
        return "\n".join((f"{self.count} processes with {devices} devices in all", *self.where()))

    def _gone(self) -> list[int]:
        return [m["index"] for m in self.members if self._state(m) == "gone"]

    def _state(self, member: dict[str, Any], client: Any = None) -> str:
        """`"running"`, `"stopped"` or `"gone"`; of one on another machine the engine's heartbeat tells."""
        if member["host"] == machine.own_name():
            return machine.state(member["pid"])
        return "running" if member["engine"] in (client or self._client).ids else "gone"

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
        gate = o["gate"] if len(chosen) == self.count else "off"
        asked = {
            k: self._client[self.members[k]["engine"]].apply_async(
                engine.run, source, magic, number, self._epoch, gate, o["gate_timeout"]
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
        try:
            self.restart()
            then = "they were started anew and their names are gone"
        except ValueError as error:
            self.stop()
            then = f"the group was stopped. {error}"
        return KeyboardInterrupt(
            f"{what} was interrupted. Not all processes answered within 2 s, so {then}. {told}"
        )

    def _lost(self, gone: list[int], when: str) -> ProcessLost:
        known = self._engines.endings()
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
