"""Memory of compiled programs: the compiler's own buffers, their lives, the peak; and the reader of its serialized form."""

import re
import warnings

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.backend import compiling
from xlab.notebook.views.draw import html
from xlab.notebook.views.memory import memory_node
from xlab.observe.buffers import buffer_assignment, protobuf
from xlab.observe.programs.stages import program_stages
from xlab.observe.records import Buffer
from xlab.observe.records.buffers import alive_at, live_bytes, peak

W = np.ones((32, 32), np.float32)


def looping(x, w):
    def body(carry, _):
        return lax.sin(carry @ w), carry[0]

    last, rows = lax.scan(body, lax.tanh(x @ w), None, length=3)
    return last @ w, rows


def looping_subject():
    return program_stages(looping, (xlab.device_put(W), xlab.device_put(W)))


def placed(stages):
    native = stages.executable.native
    return buffer_assignment.read(
        compiling.memory_plan(native)[1],
        compiling.hlo_modules(native)[0].as_serialized_hlo_module_proto(),
    )


def test_every_value_of_the_assignment_has_a_known_instruction_and_fits():
    stages = looping_subject()
    found = placed(stages)
    names = {i.name for i in stages.hlo.instructions()}
    assert found and {p.instruction for p in found} <= names
    assert all(p.offset >= 0 and p.offset + p.size <= p.allocation.size for p in found)
    assert sorted({p.allocation.parameter for p in found if p.allocation.parameter >= 0}) == [0, 1]


def test_sizes_of_allocations_are_the_compilers_totals():
    stages = looping_subject()
    m = observe.memory(stages)
    allocations = {p.allocation for p in placed(stages)}
    assert sum(a.size for a in allocations if a.parameter >= 0) == m.arguments == 2 * W.nbytes
    assert max(b.offset + b.size for b in m.buffers if b.kind == "temporary") <= max(
        a.size for a in allocations
    )
    assert m.peak <= m.total


def test_buffers_live_over_the_schedule_with_their_line():
    m = observe.memory(looping_subject())
    last = max(b.end for b in m.buffers)
    assert {
        b.name for b in m.buffers if b.kind == "argument" and (b.start, b.end) == (0, last)
    } == {"x", "w"}
    assert sum(b.size for b in m.buffers if b.kind == "output") == W.nbytes + 3 * 32 * 4 + 16
    inner = [b for b in m.buffers if b.source and "sin" in b.source.text and b.start == b.end]
    assert inner and inner[0].source.file == __file__
    alive = [b for b in m.buffers if b.start <= m.peak_step <= b.end]
    assert sum(b.size for b in alive) >= m.arguments
    assert "alive at the peak: " in observe.text(m)


def test_what_is_alive_adds_up_with_several_results():
    """Eight bytes of a table for each, which the compiler counts among the outputs."""
    two = observe.memory(lambda a: (a * 2, a * 3), np.ones(4, np.float32))
    table = next(b for b in two.buffers if b.kind == "output" and "table" in b.name)
    assert (table.size, table.equation) == (16, -1)
    assert sum(b.size for b in two.buffers if b.kind == "output") == two.outputs == 48
    assert sum(own for _, own in alive_at(two.buffers, two.peak_step)) == two.peak == 64
    assert "table of the results 16 B" in observe.text(two)
    rounds = lambda a: lax.while_loop(lambda c: c[0].sum() < 30, lambda c: (lax.sin(c[0]), c[1]), (a, a + 1))  # fmt: skip
    assert any("table" in b.name for b in observe.memory(rounds, np.ones(4, np.float32)).buffers)
    one = observe.memory(lambda a: a * 2, np.ones(4, np.float32))
    assert not any("table" in b.name for b in one.buffers)


def test_a_donated_argument_shares_its_place_with_a_result():
    f = xlab.jit(lambda x: lax.sin(x), donate_argnums=0)
    m = observe.memory(f, xlab.device_put(W))
    assert (
        len({(b.allocation, b.offset) for b in m.buffers if b.kind in ("argument", "output")}) == 1
    )
    assert m.donated == ("x",)


def test_without_an_assignment_buffers_are_counted_from_types(monkeypatch):
    exact = observe.memory(programs.dense, W, W)
    plan = compiling.memory_plan
    monkeypatch.setattr(compiling, "memory_plan", lambda native: (plan(native)[0], b""))
    counted = observe.memory(programs.dense, W, W)
    assert {(b.name, b.size) for b in counted.buffers if b.kind == "argument"} == {
        (b.name, b.size) for b in exact.buffers if b.kind == "argument"
    }
    assert all(b.allocation == -1 for b in counted.buffers)


def test_the_wire_form():
    data = bytes([8, 1, 17, *range(8), 29, 1, 0, 0, 0, 34, 2, 5, 6])
    assert list(protobuf.fields(data)) == [
        (1, 1),
        (2, int.from_bytes(bytes(range(8)), "little")),
        (3, 1),
        (4, b"\x05\x06"),
    ]
    assert protobuf.numbers(b"\x05\x06") == (5, 6)


@pytest.mark.parametrize(
    "data",
    [b"\x08", b"\x12\x05a", b"\x0b\x00", b"\x08\xff", b"\x08" + b"\xff" * 3_000_000 + b"\x01"],
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(ValueError, match="no protocol buffer"):
        list(protobuf.fields(data))


def test_the_peak_counts_what_shares_a_place_once():
    buffers = (
        Buffer("a", 8, start=0, end=9, allocation=0),
        Buffer("inside a", 4, start=2, end=3, allocation=0),
        Buffer("later", 16, start=10, end=10, allocation=0),
        Buffer("b", 5, start=2, end=10, allocation=1),
        Buffer("own", 1, start=3, end=3),
    )
    assert live_bytes(buffers, 12) == [8, 8, 13, 14, 13, 13, 13, 13, 13, 13, 21, 0]
    assert peak(buffers) == (10, 21) and peak(()) == (-1, 0)


def test_many_buffers_at_one_place_take_no_time_squared():
    many = [Buffer(f"b{n}", n % 7 + 1, start=n, end=n + 1, allocation=0) for n in range(50_000)]
    assert peak(many)[1] == 7


def test_the_peak_is_what_the_compiler_laid_out():
    m = observe.memory(lambda x: (lax.sin(x) @ lax.cos(x)) @ lax.tanh(x), W)
    alive = sum(b.size for b in m.buffers if b.start <= m.peak_step <= b.end)
    assert m.arguments + m.outputs < m.peak <= m.arguments + m.outputs + m.temporaries + 1024
    assert m.peak >= alive // 2


def refused(f, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(observe.memory(f, *args).refused)


def test_a_refused_donation_says_why():
    mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)
    cut, whole = (xlab.NamedSharding(mesh, s) for s in (xlab.P("data"), xlab.P()))
    x = xlab.device_put(W, cut)
    assert (
        "another sharding: P(), the argument has P('data',)"
        in refused(xlab.jit(lambda x: x + 1, donate_argnums=0, out_shardings=whole), x)["x"]
    )
    assert (
        "no result has its type, f32[32,32]"
        in refused(xlab.jit(lambda x: x.sum(), donate_argnums=0), W)["x"]
    )
    assert (
        "of its shape there is i16[32,32]"
        in refused(xlab.jit(lambda x: x.astype(np.int16), donate_argnums=0), W)["x"]
    )
    assert (
        "takes the only result of its type"
        in refused(xlab.jit(lambda x, y: x + y, donate_argnums=(0, 1)), W, W + 1)["y"]
    )
    assert (
        "does not read it"
        in refused(xlab.jit(lambda x, y: x + 1, donate_argnums=1, keep_unused=False), W, W + 1)["y"]
    )


def test_buffers_that_overlap_at_other_offsets_count_their_bytes_once():
    buffers = (
        Buffer("a", 8, start=0, end=3, allocation=0),
        Buffer("b", 8, start=1, end=2, allocation=0, offset=4),
        Buffer("c", 4, start=2, end=2, allocation=0, offset=6),
        Buffer("own", 5, start=1, end=1),
    )
    assert live_bytes(buffers, 5) == [8, 17, 12, 8, 0]
    alive = alive_at(buffers, 2)
    assert [(b.name, own) for b, own in alive] == [("a", 8), ("b", 4), ("c", 0)]


def test_what_came_with_the_program_is_a_part_of_all_there_is():
    """A sum begins at a zero that the program has: alive at the peak, and neither argument, result nor temporary."""

    def f(x, w):
        y = x @ w
        return y, y.sum()

    m = observe.memory(xlab.jit(f), np.ones((8, 4), np.float32), np.ones((4, 2), np.float32))
    assert m.constants == 4 and m.peak == m.total == m.arguments + m.outputs + m.temporaries + 4
    assert re.search(r"constants +4 B\n.*in all +248 B\n +peak +248 B", str(m), re.DOTALL)
    page = html(memory_node(m))
    assert "constants 4 B" in page and re.search(
        r"</i>constants</td><td class='n' title='4 B'>", page
    )
    bare = html(memory_node(m.replace(buffers=())))
    assert "constants" not in bare


def test_the_peak_of_a_loop_is_no_more_than_all_there_is():
    def loss(w, xs):
        last, rows = lax.scan(lambda h, x: (lax.tanh(h @ w + x), h), xs[0], xs)
        return (last**2).sum() + rows.sum()

    m = observe.memory(xlab.jit(xlab.value_and_grad(loss)), W, np.ones((10, 32, 32), np.float32))
    assert m.peak <= m.total
    alive = alive_at(m.buffers, m.peak_step)
    assert sum(own for _, own in alive) == peak(m.buffers)[1] == m.peak
