"""Processes meet before the runtime joins them, on the port where the coordination service will listen.

The native runtime ends a process whose group does not come together. Here that is an exception in every process, which names who is
missing, doubled, of another version, or who holds the port. Process 0 listens, the others connect and introduce themselves in one line
of JSON, and all get the same answer.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import socket
import time
from collections.abc import Iterator
from typing import Any

_LONGEST = 1 << 16
_VERDICT = 5.0
"""Seconds that a process waits for the verdict of process 0 beyond the time limit, which both count from their own start."""


def introduction(index: int, count: int, **facts: Any) -> dict[str, Any]:
    """What a process says of itself."""
    return {
        "index": index,
        "count": count,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        **facts,
    }


@contextlib.contextmanager
def meeting(address: str, bind: str, me: dict[str, Any], seconds: float) -> Iterator[list[dict]]:
    """Waits until all processes are here; then yields their introductions, in process 0 alone before the others are let go.

    Args:
        address: `host:port` of process 0, as the others reach it.
        bind: where process 0 listens. Inside of the block the port is free for what shall listen there.
        me: this process's `introduction`.
        seconds: the time limit.

    Raises:
        TimeoutError: processes did not come; says which, and which did.
        RuntimeError: two have one number, or they disagree on the number of processes or on versions.
        OSError: the port is taken.
    """
    if me["index"] == 0:
        with _host(address, bind, me, seconds) as others:
            yield others
    else:
        yield _attend(address, me, seconds)


# -- process 0 -----------------------------------------------------------------------------------------------


class _Guest:
    """A connection of which nobody knows yet who it is."""

    def __init__(self, sock: socket.socket, peer: Any):
        self.sock, self.peer, self.said = sock, peer, b""
        self.who: dict[str, Any] | None = None

    def read(self) -> bool:
        """Reads what came; False when the other side is gone or is none of ours."""
        try:
            part = self.sock.recv(4096)
        except OSError:
            return False
        if not part or len(self.said) > _LONGEST:
            return False
        self.said += part
        if self.who is None and b"\n" in self.said:
            try:
                self.who = json.loads(self.said)
                return isinstance(self.who, dict) and "index" in self.who
            except ValueError:
                return False
        return True

    def tell(self, answer: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self.sock.settimeout(2)
            self.sock.sendall(json.dumps(answer).encode() + b"\n")
        self.sock.close()


@contextlib.contextmanager
def _host(address: str, bind: str, me: dict, seconds: float) -> Iterator[list[dict]]:
    listener = _listen(address, bind, me)
    guests: list[_Guest] = []
    try:
        try:
            with listener:
                _gather(listener, guests, address, me, seconds)
            yield [me, *(g.who for g in guests if g.who is not None)]
        except BaseException as error:
            said = {"error": type(error).__name__, "text": str(error) or "process 0 gave up"}
            for guest in guests:
                guest.tell(said)
            raise
        for guest in guests:
            guest.tell({"go": True})
    finally:
        for guest in guests:
            guest.sock.close()


def _listen(address: str, bind: str, me: dict) -> socket.socket:
    host, _, port = bind.rpartition(":")
    host = host.strip("[]")
    try:
        if host in ("", "::"):
            if socket.has_dualstack_ipv6():
                with contextlib.suppress(OSError):
                    return socket.create_server(
                        ("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True
                    )
            host = "0.0.0.0"
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
            raise
        if error.errno == errno.EADDRINUSE:
            _ask_holder(address, me)
        why = {
            errno.EADDRINUSE: "another program listens there, or another process 0 of this group does. Choose a free port",
            errno.EACCES: "this user may not listen there. Choose a port from 1024",
            errno.EADDRNOTAVAIL: "this machine has no such address. Process 0 runs on the machine of coordinator_address",
        }[error.errno]
        raise OSError(
            error.errno, f"process 0 cannot listen on {bind} for the others: {why}"
        ) from None


def _ask_holder(address: str, me: dict) -> None:
    """Raises what a process 0 that listens already has to say to a second one."""
    with contextlib.suppress(OSError, _NoAnswer):
        _ask(address, me, time.monotonic() + 1)


def _gather(listener, guests: list[_Guest], address: str, me: dict, seconds: float) -> None:
    """Fills `guests` with one connection of every other process."""
    end, count = time.monotonic() + seconds, me["count"]
    strangers: list[str] = []
    left: dict[int, dict] = {}
    pending: list[_Guest] = []
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)

        def drop(guest: _Guest) -> None:
            selector.unregister(guest.sock)
            guest.sock.close()
            if guest in guests:
                guests.remove(guest)
                left[guest.who["index"]] = guest.who  # type: ignore[index]
            else:
                pending.remove(guest)
                strangers.append(str(guest.peer[0]))

        try:
            while len(guests) < count - 1:
                rest = end - time.monotonic()
                if rest <= 0:
                    raise TimeoutError(
                        _missing(address, me, [g.who for g in guests], left, strangers, seconds)
                    )
                for key, _ in selector.select(min(rest, 1.0)):
                    if key.fileobj is listener:
                        sock, peer = listener.accept()
                        guest = _Guest(sock, peer)
                        pending.append(guest)
                        selector.register(sock, selectors.EVENT_READ, guest)
                        continue
                    guest = key.data
                    if not guest.read():
                        drop(guest)
                    elif guest.who is not None and guest in pending:
                        pending.remove(guest)
                        guests.append(guest)  # who is refused is told as well
                        _check(guest.who, me, [g.who for g in guests[:-1]])
        finally:
            for guest in pending:
                guest.sock.close()


def _check(who: dict, me: dict, others: list) -> None:
    """Raises if a process cannot be one of this group."""
    if who["count"] != me["count"]:
        raise RuntimeError(
            f"the processes do not agree on how many they are: process {_name(me)} says num_processes={me['count']}, process {_name(who)} says "
            f"{who['count']}. Give all the same"
        )
    for other in (me, *others):
        if who["index"] == other["index"]:
            raise RuntimeError(
                f"two processes have the number {who['index']}: {_place(other)} and {_place(who)}. Give each a process_id of its own, from "
                f"0 to {me['count'] - 1}"
            )
    if not 0 < who["index"] < me["count"]:
        raise RuntimeError(f"process {_name(who)} is none of the processes 0 to {me['count'] - 1}")
    for fact in sorted(set(me) & set(who) - {"index", "count", "host", "pid"}):
        if me[fact] != who[fact]:
            raise RuntimeError(
                f"the processes have different versions of {fact}: process {_name(me)} has {me[fact]}, process {_name(who)} has {who[fact]}. "
                f"They have to run the same programs, so install the same version for all"
            )


def _missing(address, me, others, left, strangers, seconds) -> str:
    here = sorted((me, *others), key=lambda who: who["index"])
    known = {who["index"] for who in here}
    absent = [i for i in range(me["count"]) if i not in known]
    text = (
        f"process{'es' * (len(absent) > 1)} {_listed(absent)} of {me['count']} did not connect to {address} within {seconds:g} s "
        f"(initialization_timeout); here {'is' if len(here) == 1 else 'are'} {_listed([_name(w) for w in here])}"
    )
    gone = [w for i, w in sorted(left.items()) if i in absent]
    if gone:
        text += f". Process {_listed([_name(w) for w in gone])} was here and went"
    if strangers:
        text += f". Something that is no process of xlab's connected from {_listed(sorted(set(strangers)))}"
    return text + ". Look at the output of what is missing, and whether it was given this address"


def _listed(things: list) -> str:
    words = list(map(str, things))
    if len(words) > 12:
        words = [*words[:10], f"{len(words) - 10} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _name(who: dict) -> str:
    return f"{who['index']} ({_place(who)})"


def _place(who: dict) -> str:
    return f"pid {who.get('pid')} on {who.get('host')}"


# -- the others ----------------------------------------------------------------------------------------------


def _attend(address: str, me: dict, seconds: float) -> list[dict]:
    end, pause, why = time.monotonic() + seconds, 0.02, "nothing listened there"
    while True:
        try:
            return _ask(address, me, end + _VERDICT)
        except _NoAnswer as error:
            why = str(error)
        except OSError as error:
            why = error.strerror or str(error) or type(error).__name__
        if time.monotonic() + pause > end:
            raise TimeoutError(
                f"process {_name(me)} of {me['count']} did not reach process 0 at {address} within {seconds:g} s (initialization_timeout): "
                f"{why}. Process 0 has to be started too, and the address has to be one by which this machine reaches it"
            ) from None
        time.sleep(pause)
        pause = min(2 * pause, 0.5)


class _NoAnswer(Exception):
    """What listens gave no answer that makes sense."""


_ERRORS = {"TimeoutError": TimeoutError, "RuntimeError": RuntimeError}


def _ask(address: str, me: dict, end: float) -> list[dict]:
    """Introduces this process and waits for the answer."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=10) as sock:
        sock.sendall(json.dumps(me).encode() + b"\n")
        said = b""
        while b"\n" not in said:
            rest = end - time.monotonic()
            if rest <= 0:
                raise _NoAnswer("what listens there did not answer")
            sock.settimeout(min(rest, 1.0))
            try:
                part = sock.recv(4096)
            except TimeoutError:
                continue
            if not part:
                raise _NoAnswer(
                    "what listens there is no process 0 that waits for others: a group that is complete, another program, or one that ended"
                )
            said += part
            if len(said) > _LONGEST:
                raise _NoAnswer("what listens there is another program")
    try:
        answer = json.loads(said)
        if answer.get("go"):
            return [me]
        kind, text = answer["error"], answer["text"]
    except (ValueError, AttributeError, KeyError):
        raise _NoAnswer("what listens there is another program") from None
    raise _ERRORS.get(kind, RuntimeError)(text)
