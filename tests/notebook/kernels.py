"""A real notebook kernel in a process of its own, spoken to as a front end speaks to it."""

from __future__ import annotations

import ast
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 90
"""Seconds that an answer may take on a machine that others use too."""


@dataclass
class Answer:
    """What one cell gave: its outputs by kind, comm messages it sent, its error, and how long it took.

    `seconds` are to the prompt, `followed` those from there until the last report stood in its place.
    """

    seconds: float = 0.0
    followed: float = 0.0
    displays: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    printed: str = ""
    error: str = ""
    comms: list[dict[str, Any]] = field(default_factory=list)


class Kernel:
    """Runs cells and answers; `cell` is the id that a page would name."""

    def __init__(self, manager: Any, client: Any):
        self.manager, self.client = manager, client

    def run(
        self, code: str, cell: str | None = "a", *, fails: bool = False, wait: bool = True
    ) -> Answer:
        """Runs a cell and waits until the kernel is idle and its reports are there; raises when it fails and should not."""
        message = self.client.session.msg(
            "execute_request",
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": False,
            },
        )
        if cell is not None:
            message["metadata"] = {**message["metadata"], "cellId": cell}
        begin = time.perf_counter()
        self.client.shell_channel.send(message)
        found = self.listen(message["header"]["msg_id"], begin)
        self.client.get_shell_msg(timeout=PATIENCE)
        if wait:
            self.follow(found, message["header"]["msg_id"])
        assert fails == bool(found.error), found.error or f"expected an error of: {code}"
        return found

    def listen(self, number: str, begin: float = 0.0) -> Answer:
        """Everything the kernel publishes for a message, until it is idle again."""
        found = Answer()
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") != number:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                found.seconds = time.perf_counter() - begin
                return found
            self.take(found, kind, content)

    def follow(self, found: Answer, number: str) -> None:
        """Waits for the reports that follow a cell."""
        begin = time.perf_counter()
        while any("the report follows" in d["data"].get("text/plain", "") for d in found.displays):
            message = self.client.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") == number:
                self.take(found, message["msg_type"], message["content"])
                found.followed = time.perf_counter() - begin

    def take(self, found: Answer, kind: str, content: dict[str, Any]) -> None:
        """Puts what the kernel published to the rest."""
        if kind == "display_data":
            found.displays.append(content)
        elif kind == "update_display_data":
            for i, shown in enumerate(found.displays):
                if shown["transient"].get("display_id") == content["transient"]["display_id"]:
                    found.displays[i] = content
        elif kind == "execute_result":
            found.results.append(content)
        elif kind == "stream":
            found.printed += content["text"]
        elif kind == "error":
            found.error = "\n".join(content["traceback"])
        elif kind.startswith("comm_"):
            found.comms.append({"kind": kind, **content})

    def ask(self, comm: str, content: Any) -> list[dict[str, Any]]:
        """Sends a widget's message as its page would; returns the answers."""
        message = self.client.session.msg(
            "comm_msg", {"comm_id": comm, "data": {"method": "custom", "content": content}}
        )
        self.client.shell_channel.send(message)
        answer = self.listen(message["header"]["msg_id"])
        return [c["data"]["content"] for c in answer.comms if c["data"].get("method") == "custom"]

    def value(self, expression: str) -> str:
        """What an expression prints as."""
        return self.run(f"print({expression})", f"value {uuid.uuid4()}").printed.rstrip("\n")


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """A client that speaks to its kernel, without a heartbeat.

    A heartbeat whose thread is stopped before it came to run, as on a loaded machine, never ends: it opens
    one socket after the other until no descriptor is left (jupyter_client's `HBChannel`).
    """
    try:
        client.start_channels(hb=False)
        yield client
    finally:
        client.stop_channels()


def value_beside(file: Path, expression: str, limit: float = PATIENCE) -> object:
    """What an expression is in the kernel of a connection file, with no cell for it."""
    from jupyter_client.blocking.client import BlockingKernelClient

    client = BlockingKernelClient(connection_file=str(file))
    client.load_connection_file()
    with connected(client):
        answer = client.execute_interactive(
            "",
            silent=True,
            store_history=False,
            user_expressions={"it": expression},
            timeout=limit,
        )
    found = answer["content"]["user_expressions"]["it"]
    assert found["status"] == "ok", found
    return ast.literal_eval(found["data"]["text/plain"])


@contextmanager
def kernel(folder: Path, **environment: str) -> Iterator[Kernel]:
    """Starts a kernel in a folder of its own and ends it afterwards."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    env = dict(
        os.environ,
        XLAB_NUM_CPU_DEVICES="8",
        IPYTHONDIR=str(folder / "ipython"),
        JUPYTER_RUNTIME_DIR=str(folder / "runtime"),
        PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        **environment,
    )
    manager.start_kernel(env=env, cwd=str(folder))
    try:
        with connected(manager.blocking_client()) as client:
            client.wait_for_ready(timeout=60)
            yield Kernel(manager, client)
    finally:
        manager.shutdown_kernel(now=True)
