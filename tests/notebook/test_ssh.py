"""Processes that `ssh` starts, on this very machine: a server of the test's own, with keys of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.notebook.groups import MARKS, SETUP, gone
from tests.waiting import becomes
from xlab.errors import ProcessLost
from xlab.notebook import processes
from xlab.parallel.group import free_address

pytest.importorskip("ipyparallel")
SERVER = shutil.which("sshd") or "/usr/sbin/sshd"
pytestmark = [
    *MARKS,
    pytest.mark.skipif(
        not os.path.exists(SERVER) or shutil.which("ssh") is None,
        reason="no ssh server is installed here (apt-get install openssh-server openssh-client)",
    ),
]


@pytest.fixture
def server(tmp_path):
    """`localhost:port` and what `ssh` has to be told to come in there."""
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    port = free_address().rpartition(":")[2]
    (tmp_path / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/authorized\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
        f"Subsystem sftp internal-sftp\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where the server locks itself in
    running = subprocess.Popen(
        [SERVER, "-D", "-e", "-f", tmp_path / "config"], stderr=(tmp_path / "log").open("w")
    )
    told = ["-i", f"{tmp_path}/user", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR",
            "-o", f"UserKnownHostsFile={tmp_path}/known", "-o", "BatchMode=yes"]  # fmt: skip
    try:
        assert becomes(lambda: "listening" in (tmp_path / "log").read_text(), 10)
        yield f"localhost:{port}", told
    finally:
        running.terminate()
        running.wait()


def test_processes_over_ssh(server):
    host, told = server
    group = processes.start(
        2,
        devices=2,
        engines="ssh",
        hosts=[host],
        launcher={"ssh_args": list(told), "scp_args": list(told)},
        env={"OVER_THERE": "yes"},
        timeout=60,
    )
    try:
        group.run(SETUP + "import os\nthere = [os.environ['OVER_THERE'], 'SSH_CONNECTION' in os.environ]")  # fmt: skip
        answers = group.run("print(there, float(x.sum()))")
        assert [a["stdout"] for a in answers] == ["['yes', True] 28.0\n"] * 2
        assert group["x"].tolist() == np.arange(8).tolist()
        pids = [m["pid"] for m in group.members]
        with pytest.raises(ProcessLost, match="process 1 of 2 ended during"):
            group.run("if me == 1: os.kill(os.getpid(), signal.SIGKILL)\ny = x.sum()")
    finally:
        group.stop()
    assert gone(pids)


def test_ssh_asks_for_machines():
    with pytest.raises(ValueError, match=r"needs hosts=\('first', 'second'\)"):
        processes.start(2, engines="ssh")
    with pytest.raises(ValueError, match="nothing else has hosts"):
        processes.start(2, hosts=["n1"])
