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
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xlab.errors import ProcessesApart, ProcessesLate, ProcessFailed, ProcessLost
from xlab.parallel import group as _group

__all__ = ["Group", "current", "start"]

_GRACE = 1.0
"""Seconds in which the others may tell what they saw when a process ended."""

_REAPER = """
import os, shutil, signal, sys
pids = []
for line in sys.stdin:
    pids = line.split()
for pid in pids:
    try:
        said = open(f"/proc/{pid}/cmdline").read()
        if "ipyparallel" in said or "ipcontroller" in said or "ipengine" in said:
            os.kill(int(pid), signal.SIGKILL)
    except OSError:
        pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""
"""Runs beside the kernel and ends the processes when the kernel ends, however it does: then its standard input ends."""

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
) -> Group:
    """Starts processes that run the notebook's cells together; a group that is there already is stopped first.

    Args:
        count: how many processes.
        devices: CPU devices of each.
        engines: `"local"`, or another of ipyparallel's launchers, `"mpi"`, `"ssh"`, `"slurm"`, `"pbs"`, `"sge"`, `"lsf"`, `"htcondor"`.
        timeout: seconds that a cell may take; None for no limit.
        gate: `"launch"`: before each program that spans the processes they agree that it is the same one; `"off"`: they do not.
        gate_timeout: seconds that the others wait there for one that is late.
        collective_timeout: seconds after which a collective fails that not all processes take part in.
        heartbeat: seconds after which a silent process is taken for dead.
        env: variables for the processes' environment.

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
        before = set(_descendants(os.getpid()))
        local = o["engines"] == "local"
        address = _group.free_address("127.0.0.1" if local else _own_host())
        self.address = address
        self._service = _group.serve(address, self.count, heartbeat=o["heartbeat"])
        self._reaper: Any = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _REAPER, self._folder],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        cluster: Any = parallel.Cluster(
            n=self.count,
            engines=o["engines"],
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
        given = {
            "XLAB_NUM_CPU_DEVICES": str(o["devices"]),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": os.pathsep.join(
                filter(None, (_package_root(), os.environ.get("PYTHONPATH")))
            ),
            **o["env"],
        }
        with _environment(given):
            cluster.start_cluster_sync()
        self._watch(before)
        self._client: Any = cluster.connect_client_sync()
        self._await_engines()
        from xlab.notebook import engine

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
            for k, i in enumerate(self._client.ids)
        ]
        self.members = [a.get(timeout=90) for a in asked]
        self._watch(before)
        atexit.register(self.stop)

    def _watch(self, before: set[int]) -> None:
        """Tells the reaper which processes end with this one."""
        reaper = self._reaper
        self._pids = [p for p in _descendants(os.getpid()) if p not in before and p != reaper.pid]
        with contextlib.suppress(OSError):
            reaper.stdin.write(" ".join(map(str, self._pids)) + "\n")
            reaper.stdin.flush()

    def _await_engines(self) -> None:
        end = time.monotonic() + 60
        while len(self._client.ids) < self.count:
            if time.monotonic() > end:
                raise ProcessesLate(
                    f"{len(self._client.ids)} of {self.count} processes started within 60 s; the launcher's log is {self._folder}/cluster.log"
                )
            time.sleep(0.01)

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
                if member["host"] == _own_name():
                    _signal(member["pid"], signal.SIGKILL)
            with contextlib.suppress(Exception):
                client.close()
            with contextlib.suppress(Exception):
                cluster.stop_cluster_sync()
        for pid in self._pids:
            _signal(pid, signal.SIGKILL)
        if service is not None:
            # It waits for processes that are gone.
            thread = threading.Thread(target=service.shutdown, daemon=True)
            thread.start()
            thread.join(3)
        if reaper is not None:
            with contextlib.suppress(OSError):
                reaper.stdin.close()
            reaper.wait()
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
        for k, member in enumerate(self.members):
            if member["host"] == _own_name():
                _signal(member["pid"], signal.SIGINT)
            else:
                self._client.send_signal(signal.SIGINT, [self._client.ids[k]], block=False)

    # -- where they are ----------------------------------------------------------------------------------

    def where(self) -> list[str]:
        """One line per process: what it does at this moment."""
        lines = []
        for member in self.members:
            name, state = f"process {member['index']}", _process_state(member)
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
        return [m["index"] for m in self.members if _process_state(m) == "gone"]

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
        o, ids = self.options, self._client.ids
        gated = o["gate"] == "launch" and len(chosen) == self.count
        asked = {
            k: self._client[ids[k]].apply_async(
                engine.run, source, magic, number, self._epoch, gated, o["gate_timeout"]
            )
            for k in chosen
        }
        answers = self._answers(asked, timeout or o["timeout"], f"In[{number}]")
        self._raise_errors(answers, number)
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
        lines = [line for line in self.where() if ": gone" not in line]
        return ProcessLost(
            f"process{'es' * (len(gone) > 1)} {', '.join(map(str, gone))} of {self.count} ended {when} (killed, out of memory, or by an "
            f"exit of its own; {self._folder}/cluster.log has what the launcher saw). {'; '.join(lines)}. No process can take its place: "
            f"%xprocesses restart starts the group anew"
        )

    def _raise_errors(self, answers: list[dict], number: int) -> None:
        failed = [a for a in answers if a["error"]]
        if not failed:
            return
        own = [a for a in failed if a["error"]["kind"] not in ("ProcessesApart", "ProcessesLate")]
        if not own:
            late = [a for a in failed if a["error"]["kind"] == "ProcessesLate"]
            first = (late or failed)[0]["error"]
            kind = ProcessesApart if first["kind"] == "ProcessesApart" else ProcessesLate
            raise kind(f"In[{number}]: {first['text']}")
        if all(a["error"]["kind"] == "KeyboardInterrupt" for a in own):
            raise KeyboardInterrupt(f"In[{number}] was interrupted")
        first = own[0]
        same = [a["index"] for a in own if a["error"]["text"] == first["error"]["text"]]
        others = [
            f"process {a['index']}: "
            + (
                f"{a['error']['kind']}: {a['error']['text'].splitlines()[0][:200] if a['error']['text'] else ''}"
                if a["error"]
                else "ended the cell"
            )
            for a in answers
            if a["index"] not in same
        ]
        raise ProcessFailed(
            f"In[{number}], process{'es' * (len(same) > 1)} {', '.join(map(str, same))} of {self.count}: {first['error']['kind']}: {first['error']['text']}\n"
            f"{first['error']['traceback']}" + "".join(f"\n{line}" for line in others)
        )

    def __getitem__(self, name: str) -> Any:
        """The value that the processes have under a name: the whole where all have the same, or their parts make it up; else a list."""
        from xlab.notebook import engine

        ids = self._client.ids
        found = [self._client[i].apply_async(engine.value, name) for i in ids]
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


# -- the machine ------------------------------------------------------------------------------------------------


def _package_root() -> str:
    import xlab

    return os.path.dirname(os.path.dirname(os.path.abspath(xlab.__file__)))


def _own_name() -> str:
    import socket

    return socket.gethostname()


def _own_host() -> str:
    """The address of this machine by which others reach it."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: only asks for the way there
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _process_state(member: dict[str, Any]) -> str:
    """`"running"`, `"stopped"` or `"gone"`; of a process on another machine ipyparallel tells by failing its calls."""
    if member["host"] != _own_name():
        return "running"
    try:
        with open(f"/proc/{member['pid']}/stat") as file:
            letter = file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"
    return {"Z": "gone", "X": "gone", "T": "stopped", "t": "stopped"}.get(letter, "running")


def _descendants(pid: int) -> list[int]:
    """The processes that this one started, and that those started."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(
                    int(name)
                )
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


@contextlib.contextmanager
def _environment(given: dict[str, str]) -> Iterator[None]:
    """Processes started in the block have these variables."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
