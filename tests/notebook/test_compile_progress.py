"""The sign of life during a long compile: what it says, when it says nothing, what stays of it."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest

import xlab
from xlab import events, lax
from xlab.notebook import compile_progress
from xlab.notebook.compile_progress import CellLine, CompileProgress, TerminalLine, progress_shown
from xlab.observe.programs.analysis_only import analysis_only

X = np.ones(5, np.float32)


class Written:
    """A line that remembers."""

    def __init__(self, place):
        self.place, self.shown, self.last = place, [], None

    def show(self, text):
        self.shown.append(text)

    def end(self, text):
        self.last = text


@pytest.fixture
def lines():
    """The lines of compiles that happen in this test."""
    made = []

    def line(place):
        made.append(Written(place))
        return made[-1]

    watching = CompileProgress(lambda: "this cell", line, first=0.1, every=0.05)
    with progress_shown(watching):
        yield made
    assert not events._stage_watchers


def slow(name, seconds=0.4):
    def body(x):
        time.sleep(seconds)
        return lax.sin(x)

    body.__name__ = name
    return body


def settled(lines):
    for _ in range(100):
        if lines and lines[-1].last is not None:
            return lines
        time.sleep(0.02)
    return lines


def test_a_long_compile_says_what_it_does(lines):
    xlab.jit(slow("takes_long"))(X)
    (line,) = settled(lines)
    assert line.place == "this cell" and len(line.shown) > 1
    assert all(
        text.startswith("tracing takes_long … ") and text.endswith(" s") for text in line.shown[:1]
    )
    assert (
        line.last.startswith("takes_long took ")
        and "trace 0." in line.last
        and "compile " in line.last
    )


def test_a_quick_compile_says_nothing(lines):
    xlab.jit(lambda x: lax.sin(lax.cos(x)), name="quick_one")(X)
    time.sleep(0.3)
    assert lines == [] or all(line.shown for line in lines)


def test_a_program_compiled_to_be_looked_at_says_nothing(lines):
    with analysis_only():
        xlab.jit(slow("tried"))(X)
    time.sleep(0.2)
    assert lines == []


def test_many_quick_compiles_are_not_one_long(monkeypatch):
    now = iter(x / 100 for x in range(10_000))
    monkeypatch.setattr(compile_progress.time, "monotonic", lambda: next(now))
    watching = CompileProgress(lambda: None, Written, first=1.0)
    starts = []
    for n in range(150):
        for kind in ("trace", "lower", "compile"):
            watching.begin(kind, f"short_{n}")()
        starts.append(watching._now.start)
        assert set(watching._now.spent) == {"trace", "lower", "compile"}, (
            "stages of one function are one compile"
        )
    assert len(set(starts)) == 150, "another function is another compile"


def test_compiles_of_one_name_in_several_cells_are_not_one():
    """Cells that are run one after the other, whose programs are all called the same: each has its own compile."""
    places, made = iter(range(100)), []
    watching = CompileProgress(
        lambda: next(places),
        lambda place: made.append(Written(place)) or made[-1],
        first=0.5,
        every=0.05,
    )
    with progress_shown(watching):
        for _ in range(4):
            ended = watching.begin("compile", "cell")
            time.sleep(0.2)
            ended()
            time.sleep(0.05)
    assert not made


def test_an_error_or_an_interrupt_ends_the_line(lines):
    def fails(x):
        time.sleep(0.3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        xlab.jit(fails)(X)
    (line,) = settled(lines)
    assert line.last.startswith("fails took ")


def test_calls_of_compiled_programs_stay_native(lines, python_calls):
    f = xlab.jit(lambda x: lax.sin(x), name="native_under_heartbeat")
    x = xlab.device_put(X)
    f(x)
    f(x)
    assert python_calls(f, x)[1] == []


def test_nobody_looking_means_no_thread():
    import threading

    before = {t.name for t in threading.enumerate()}
    with progress_shown(CompileProgress(lambda: None, Written, first=0.05)):
        xlab.jit(slow("unseen", 0.15))(X)
        assert {t.name for t in threading.enumerate()} <= before


def test_a_terminal_is_left_as_it_was():
    out = io.StringIO()
    with progress_shown(CompileProgress(lambda: out, TerminalLine, first=0.05, every=0.05)):
        xlab.jit(slow("on_a_terminal", 0.3))(X)
        time.sleep(0.5)
    assert "tracing on_a_terminal" in out.getvalue() and out.getvalue().endswith("\r\x1b[2K")


def test_a_cell_gets_one_output_that_changes():
    class Session:
        def __init__(self):
            self.sent = []

        def send(self, socket, kind, content, parent, ident):
            self.sent.append((kind, content, parent))

    publisher = type("Publisher", (), {"session": Session(), "pub_socket": None, "topic": b"t"})()
    line = CellLine(
        type("Shell", (), {"display_pub": publisher})(), {"header": {"msg_id": "a cell"}}
    )
    line.show("compiling <b> … 3.0 s")
    line.show("compiling <b> … 3.5 s")
    line.end("<b> took 4.0 s to compile")
    sent = publisher.session.sent
    assert [kind for kind, *_ in sent] == [
        "display_data",
        "update_display_data",
        "update_display_data",
    ]
    assert (
        len({content["transient"]["display_id"] for _, content, _ in sent}) == 1
        and sent[0][2]["header"]["msg_id"] == "a cell"
    )
    assert (
        "&lt;b&gt;" in sent[0][1]["data"]["text/html"]
        and sent[2][1]["data"]["text/plain"] == "<b> took 4.0 s to compile"
    )


def test_a_shell_that_is_no_terminal_has_none(shell):
    shell.run_line_magic("load_ext", "xlab")
    assert not compile_progress._of and not events._stage_watchers
    shell.run_line_magic("unload_ext", "xlab")
