"""The gate, with a real coordination service and every process a thread: whatever happens, all hear the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from xlab.backend.native import _jax
from xlab.errors import ProcessesApart, ProcessesLate
from xlab.parallel import gate, group

LIMIT = 20


@pytest.fixture(scope="module")
def links() -> Iterator[list]:
    address = group.free_address()
    service = group.serve(address, 3, heartbeat=10)
    made = [_jax.get_distributed_runtime_client(address, k, init_timeout=20, heartbeat_timeout=10, shutdown_timeout=2,
                                                shutdown_on_destruction=False) for k in range(3)]  # fmt: skip
    connecting = [threading.Thread(target=link.connect) for link in made]
    for thread in connecting:
        thread.start()
    for thread in connecting:
        thread.join(LIMIT)
    yield made
    for link in made:
        link.shutdown()
    service.shutdown()


EPOCHS = iter(range(100))


@pytest.fixture
def come(links, monkeypatch):
    """`come(k, program, after)` has process k come to the gate so many seconds later; `come.all()` what each of them heard."""
    monkeypatch.setattr(gate, "_cell", cell := gate._Cell())
    cell.epoch, cell.limit_s = next(EPOCHS), 0.4
    heard: dict[int, object] = {}
    threads = []

    def process(k, program, after):
        time.sleep(after)
        here = gate.Started(0, program, program, f"line {k}", 0.0)
        try:
            heard[k] = gate.pass_gate(gate.Gate(links[k], k, come.count, here)) or "starts"
        except Exception as error:
            heard[k] = error

    def come(k, program="sum", after=0.0):
        threads.append(threading.Thread(target=process, args=(k, program, after)))
        threads[-1].start()

    def all_heard():
        for thread in threads:
            thread.join(LIMIT)
        return heard

    come.all, come.count = all_heard, 3
    return come


def test_all_start_where_all_are_at_the_same_program(come):
    for k in range(3):
        come(k, after=0.1 * (k == 1))
    assert come.all() == {0: "starts", 1: "starts", 2: "starts"}


@pytest.mark.parametrize(("program", "after"), [("sum", 0.0), ("sum", 0.1), ("max", 0.0), ("max", 0.1), ("sum", 0.7)])  # fmt: skip
@pytest.mark.parametrize("other", range(2))
def test_two_processes(come, other, program, after):
    """Process 0 need not say what it starts where the other one is there and starts the same."""
    come.count = 2
    come(1 - other)
    come(other, program, after)
    heard = come.all()
    if after < 0.4 and program == "sum":
        assert heard == {0: "starts", 1: "starts"}
    else:
        kind = ProcessesApart if program == "max" else ProcessesLate
        assert len({str(e) for e in heard.values()}) == 1 and isinstance(heard[0], kind), heard
        assert f"process {other} " in str(heard[0])


@pytest.mark.parametrize("late", range(3))
def test_what_one_gives_up_no_other_starts(come, late):
    """The late one finds that all have said the same program; the others have left."""
    for k in range(3):
        come(k, after=0.7 * (k == late))
    for error in come.all().values():
        assert isinstance(error, ProcessesLate), error
        assert f"process {late} did not come to `sum` (line" in str(error)
        assert "within 0.4 s (gate_timeout). Nothing was run" in str(error)


@pytest.mark.parametrize("other", range(3))
def test_different_programs_are_told_to_all_with_all_of_them(come, other):
    for k in range(3):
        come(k, "max" if k == other else "sum", after=0.05 * k)
    for error in come.all().values():
        assert isinstance(error, ProcessesApart), error
        assert f"process {other} starts `max` (line {other}, program max)" in str(error)
        assert " start" in str(error) and "`sum`" in str(error)


def test_who_ended_the_cell_is_told(come, links):
    links[1].key_value_set(gate._key(1, gate._ENDED), "ended the cell with ValueError: ill after 0 programs")  # fmt: skip
    come(0)
    come(2)
    heard = come.all()
    assert {type(e) for e in heard.values()} == {ProcessesApart}
    assert "process 1 ended the cell with ValueError: ill after 0 programs" in str(heard[0])
    assert "process 0 starts `sum`" in str(heard[0])


def test_who_died_at_the_gate_is_not_waited_for_without_end(come, links):
    links[0].key_value_set(gate._key(0), gate._SEPARATOR.join(("sum", "sum", "line 0")))
    come(1)
    come(2)
    for error in come.all().values():
        assert isinstance(error, ProcessesLate) and "process 0 did not come to `sum`" in str(error)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_is_a_verdict_too(come, links, monkeypatch, when):
    """Before the verdict, nobody starts the program; after it, who is interrupted starts it with the others and is interrupted then."""
    interrupted = threading.Event()
    monkeypatch.setattr(gate._thread, "interrupt_main", interrupted.set)
    at_once = gate._at_once

    def interrupt(at):
        if at.index == 1:
            at.say()
            if when == "after":
                assert (at_once(at) or gate._verdict(at)) == "go"
            raise KeyboardInterrupt
        return at_once(at)

    monkeypatch.setattr(gate, "_at_once", interrupt)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(gate._cell, "limit_s", LIMIT)
    come(1)
    come(2)
    if when == "before":
        # Process 0, which says that all start, has to find that one was interrupted.
        links[0].blocking_key_value_get(gate._key(gate._VERDICT), LIMIT * 1000)
    come(0)
    heard = come.all()
    if when == "after":
        assert heard == dict.fromkeys(range(3), "starts") and interrupted.wait(LIMIT)
    else:
        assert "process 1 was interrupted at `sum` (line 1). Nothing was run" in str(heard[0])
        assert isinstance(heard[0], ProcessesLate) and isinstance(heard[2], ProcessesLate)
