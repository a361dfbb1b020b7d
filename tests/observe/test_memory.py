"""Memory of compiled programs: the compiler's own buffers, their lives, the peak; and the reader of its serialized form."""

import numpy as np
import pytest

import xlab
from tests.observe import programs
from xlab import lax, observe
from xlab.backend import compiling
from xlab.observe import assignment, wire
from xlab.observe.subject import subject

W = np.ones((32, 32), np.float32)


def looping(x, w):
    def body(carry, _):
        return lax.sin(carry @ w), carry[0]

    last, rows = lax.scan(body, lax.tanh(x @ w), None, length=3)
    return last @ w, rows


def looping_subject():
    return subject(looping, (xlab.device_put(W), xlab.device_put(W)))


def placed(about):
    native = about.executable.native
    return assignment.read(compiling.buffer_assignment(native), compiling.hlo_modules(native)[0].as_serialized_hlo_module_proto())


def test_every_value_of_the_assignment_has_a_known_instruction_and_fits():
    about = looping_subject()
    found = placed(about)
    names = {i.name for i in about.hlo.instructions()}
    assert found and {p.instruction for p in found} <= names
    assert all(p.offset >= 0 and p.offset + p.size <= p.allocation.size for p in found)
    assert sorted({p.allocation.parameter for p in found if p.allocation.parameter >= 0}) == [0, 1]


def test_sizes_of_allocations_are_the_compilers_totals():
    about = looping_subject()
    m = observe.memory(about)
    allocations = {p.allocation for p in placed(about)}
    assert sum(a.size for a in allocations if a.parameter >= 0) == m.arguments == 2 * W.nbytes
    assert max(b.offset + b.size for b in m.buffers if b.kind == "temporary") <= max(a.size for a in allocations)
    assert m.peak <= m.arguments + m.outputs + m.temporaries + sum(b.size for b in m.buffers if b.kind == "constant")


def test_buffers_live_over_the_schedule_with_their_line():
    m = observe.memory(looping_subject())
    last = max(b.end for b in m.buffers)
    assert {b.name for b in m.buffers if b.kind == "argument" and (b.start, b.end) == (0, last)} == {"x", "w"}
    assert sum(b.size for b in m.buffers if b.kind == "output") == W.nbytes + 3 * 32 * 4
    inner = [b for b in m.buffers if b.source and "sin" in b.source.text and b.start == b.end]
    assert inner and inner[0].source.file == __file__
    alive = [b for b in m.buffers if b.start <= m.peak_step <= b.end]
    assert sum(b.size for b in alive) >= m.arguments
    assert "alive at the peak: " in observe.text(m)


def test_a_donated_argument_shares_its_place_with_a_result():
    f = xlab.jit(lambda x: lax.sin(x), donate_argnums=0)
    m = observe.memory(f, xlab.device_put(W))
    assert len({(b.allocation, b.offset) for b in m.buffers if b.kind in ("argument", "output")}) == 1
    assert m.donated == ("x",)


def test_without_an_assignment_buffers_are_counted_from_types(monkeypatch):
    exact = observe.memory(programs.dense, W, W)
    monkeypatch.setattr(compiling, "buffer_assignment", lambda native: b"")
    counted = observe.memory(programs.dense, W, W)
    assert {(b.name, b.size) for b in counted.buffers if b.kind == "argument"} == {(b.name, b.size) for b in exact.buffers
                                                                                 if b.kind == "argument"}
    assert all(b.allocation == -1 for b in counted.buffers)


def test_the_wire_form():
    data = bytes([8, 1, 17, *range(8), 29, 1, 0, 0, 0, 34, 2, 5, 6])
    assert list(wire.fields(data)) == [(1, 1), (2, int.from_bytes(bytes(range(8)), "little")), (3, 1), (4, b"\x05\x06")]
    assert wire.numbers(b"\x05\x06") == (5, 6)


@pytest.mark.parametrize("data", [b"\x08", b"\x12\x05a", b"\x0b\x00", b"\x08\xff"])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(ValueError, match="no protocol buffer"):
        list(wire.fields(data))
