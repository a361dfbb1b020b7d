"""Processes that meet: sockets of this machine, each side in a thread of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from tests.parallel.workers import start_two
from xlab.parallel.rendezvous import introduction, meeting


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _meet(*members: dict, seconds: float = 5, bind: str = "[::]") -> list:
    """What each member got: the introductions, or its error."""
    port, found = _port(), [None] * len(members)

    def attend(position, me):
        try:
            with meeting(f"127.0.0.1:{port}", f"{bind}:{port}", me, seconds) as others:
                found[position] = others
        except Exception as e:
            found[position] = e

    threads = [threading.Thread(target=attend, args=m) for m in enumerate(members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def _member(index, count=3, **facts):
    return introduction(index, count, **{"xlab": "1", **facts})


def _all_say(found, kind, *words):
    for error in found:
        assert isinstance(error, kind), found
        assert all(w in str(error) for w in words), error


@pytest.mark.parametrize("bind", ["[::]", "127.0.0.1"])
def test_all_come(bind):
    found = _meet(_member(0), _member(2), _member(1), bind=bind)
    assert sorted(who["index"] for who in found[0]) == [0, 1, 2]
    assert [who["index"] for f in found[1:] for who in f] == [2, 1]


def test_one_does_not_come():
    found = _meet(_member(0, 4), _member(2, 4), seconds=0.5)
    _all_say(found, TimeoutError, "processes 1 and 3 of 4 did not connect", "within 0.5 s", "here are 0 (pid", "and 2 (pid")  # fmt: skip


def test_process_0_does_not_come():
    found = _meet(_member(1), seconds=0.3)
    _all_say(found, TimeoutError, "process 1 (pid", "did not reach process 0", "refused")


def test_two_have_one_number():
    _all_say(
        _meet(_member(0), _member(1), _member(1)), RuntimeError, "two processes have the number 1"
    )


def test_two_are_process_0():
    port = _port()
    here, said = threading.Event(), []

    def first():
        with (
            contextlib.suppress(RuntimeError),
            meeting(f"127.0.0.1:{port}", f"[::]:{port}", _member(0), 5),
        ):
            pass
        said.append("left")

    thread = threading.Thread(target=first)
    thread.start()
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            here.set()
            break
        time.sleep(0.01)
    assert here.is_set()
    with (
        pytest.raises(RuntimeError, match="two processes have the number 0"),
        meeting(f"127.0.0.1:{port}", f"[::]:{port}", _member(0), 5),
    ):
        pass
    thread.join(10)
    assert said == ["left"]


def test_counts_and_versions_differ():
    _all_say(_meet(_member(0, 2), _member(1, 3)), RuntimeError, "num_processes=2", "says 3")
    _all_say(
        _meet(_member(0, 2, jaxlib="0.10.2"), _member(1, 2, jaxlib="0.10.3")),
        RuntimeError,
        "different versions of jaxlib",
        "has 0.10.2",
        "has 0.10.3",
    )


def test_the_port_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with (
            pytest.raises(OSError, match="cannot listen on 127.0.0.1:.*Choose a free port"),
            meeting(f"127.0.0.1:{port}", f"127.0.0.1:{port}", _member(0), 1),
        ):
            pass


def test_what_process_0_cannot_do_with_the_port_the_others_hear():
    port, found = _port(), []

    def other():
        try:
            with meeting(f"127.0.0.1:{port}", "", _member(1, 2), 5):
                pass
        except RuntimeError as e:
            found.append(str(e))

    thread = threading.Thread(target=other)
    thread.start()
    with (
        pytest.raises(KeyError),
        meeting(f"127.0.0.1:{port}", f"[::]:{port}", _member(0, 2), 5),
    ):
        raise KeyError("no service")
    thread.join(10)
    assert found == ["'no service'"]


def test_strangers_and_those_who_left_are_named():
    port, found = _port(), []

    def host():
        try:
            with meeting(f"127.0.0.1:{port}", f"127.0.0.1:{port}", _member(0, 3), 1):
                pass
        except TimeoutError as e:
            found.append(str(e))

    thread = threading.Thread(target=host)
    thread.start()
    for said in (b"PRI * HTTP/2.0\r\n", b'{"index": 1, "count": 3, "host": "h", "pid": 7}\n'):
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as s:
                s.sendall(said)
                time.sleep(0.1)
                break
            time.sleep(0.01)
    thread.join(10)
    assert "Process 1 (pid 7 on h) was here and went" in found[0]
    assert "no process of xlab's connected from 127.0.0.1" in found[0]


ALONE = """
    import sys
    import xlab

    address, index = sys.argv[1], int(sys.argv[2])
    if index == 0:
        try:
            xlab.distributed.initialize(address, 3, 0, initialization_timeout=1)
        except TimeoutError as e:
            assert "processes 1 and 2 of 3 did not connect" in str(e), e
        print(float(xlab.numpy.ones(3).sum()))  # the process lives, and is alone
    else:
        import socket
        with socket.create_server(("127.0.0.1", 0)) as taken:
            try:
                xlab.distributed.initialize(f"127.0.0.1:{taken.getsockname()[1]}", 2, 0, initialization_timeout=1)
            except OSError as e:
                assert "Choose a free port" in str(e), e
        print(float(xlab.numpy.ones(3).sum()))
    assert not xlab.distributed.is_initialized()
"""


@pytest.mark.slow
def test_a_group_that_does_not_come_together_ends_no_process():
    for code, said in start_two(ALONE):
        assert (code, said) == (0, "3.0\n"), said
