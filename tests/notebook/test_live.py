"""A real kernel with a page at the other end: the result first, its report after it, and nothing left behind."""

from __future__ import annotations

import re
import time

import pytest

from tests.notebook.kernels import kernel, value_beside

pytest.importorskip("ipykernel")
pytest.importorskip("anywidget")

LIVE = "application/vnd.xlab.view+json"
SETUP = """
%load_ext xlab
import gc, time
import xlab
from xlab import lax
from xlab import numpy as jnp
x = jnp.arange(32.0).reshape(8, 4)
w = jnp.ones((4, 2))
def f(x, w):
    return jnp.tanh(x @ w)
"""

COUNTS = """
def counts():
    import linecache, sys
    import comm
    import ipywidgets
    from xlab import events
    from xlab.notebook import formatters, deferred_display
    from xlab.observe.programs import recorder
    from xlab.observe.stepping import stepper
    import matplotlib
    for _ in range(3):
        gc.collect()
    kinds = [type(o) for o in gc.get_objects()]
    return {"arrays": len(xlab.live_arrays()), "widgets": len(ipywidgets.widgets.widget._instances),
            "comms": len(comm.get_comm_manager().comms), "listeners": len(events.listeners), "sessions": kinds.count(recorder.Session),
            "steppers": kinds.count(stepper.Stepper), "kept": sum(map(len, formatters._live.values())), "waiting": len(deferred_display._waiting),
            "files": len(linecache.cache)}
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with kernel(tmp_path_factory.mktemp("kernel")) as k:
        k.run(SETUP)
        k.run(COUNTS)
        yield k


def plain(answer) -> str:
    return "\n".join(d["data"].get("text/plain", "") for d in answer.displays)


def model_of(answer) -> str:
    return next(d["data"][LIVE]["model_id"] for d in answer.displays if LIVE in d["data"])


def test_the_result_comes_first_and_the_report_takes_its_place(live):
    early = live.run("%%xjit\ny = f(x, w)\ny.sum()", "one", wait=False)
    assert early.results and "the report follows" in plain(early)
    done = live.run("%%xjit\ny = f(x, w)\ny.sum()", "one")
    assert "equations" in plain(done) and {"text/plain", "text/html", LIVE} <= set(
        done.displays[0]["data"]
    )
    assert "xl-saved" in done.displays[0]["data"]["text/html"] and len(done.displays) == 1


def test_a_report_stands_below_what_its_cell_shows(live):
    """It takes the place of the last output, so nothing above it moves when it comes."""
    order = []
    message = live.client.session.msg(
        "execute_request",
        {"code": "%%xjit\ny = f(x, w) * 7\ny.sum()", "silent": False, "stop_on_error": False},
    )
    message["metadata"] = {"cellId": "order"}
    live.client.shell_channel.send(message)
    while "update_display_data" not in order:
        heard = live.client.get_iopub_msg(timeout=60)
        if heard["parent_header"].get("msg_id") == message["header"]["msg_id"]:
            order.append(heard["msg_type"])
    live.client.get_shell_msg(timeout=60)
    kept = [
        kind for kind in order if kind not in ("status", "execute_input") and "comm" not in kind
    ]
    assert kept == ["execute_result", "display_data", "update_display_data"]


def test_clients_have_no_heartbeat_that_never_ends(live, monkeypatch):
    """A heartbeat that comes to run after its client has its answer opens sockets until none is left."""
    from jupyter_client.channels import HBChannel

    def late(channel, opens=HBChannel._create_socket):
        opened.append(channel)
        assert len(opened) < 20, "the heartbeat never ends"
        if channel.socket is None:
            time.sleep(1)
        opens(channel)

    opened: list[HBChannel] = []
    monkeypatch.setattr(HBChannel, "_create_socket", late)
    assert value_beside(live.manager.connection_file, "1 + 1") == 2
    assert not opened


def test_reports_are_there_before_the_next_cell(live):
    live.run("%%xjit\ny = f(x, w) * 2\n", "a", wait=False)
    answer = live.run(
        "from xlab.notebook import deferred_display, recording\nprint(len(deferred_display._waiting), recording.last.title)",
        "b",
    )
    assert answer.printed.startswith("0 In[")


def test_a_definition_that_runs_again_keeps_its_lines(live):
    """In its reports, every equation of which leads to a line, and as the line of a breakpoint."""
    live.run("""
from xlab.notebook import recording
from xlab.notebook.views.program import columns
def lines():
    made = columns(recording.last.programs[0])
    return [(op, made["python"]["text"][n] if n >= 0 else "no line") for op, n in zip(made["eqs"]["op"], made["eqs"]["src"])]
""")
    for _ in range(2):
        live.run("def twice(x):\n    h = jnp.sin(x)\n    return jnp.cos(h) * 2", "defined")
        live.run("%%xjit\ny = twice(x)\n", "called")
        assert live.run("print(lines())", "asked").printed.strip() == str(
            [
                ("sin", "    h = jnp.sin(x)"),
                ("cos", "    return jnp.cos(h) * 2"),
                ("mul", "    return jnp.cos(h) * 2"),
            ]
        )
        stops = "s = xlab.observe.step(twice)(x)\ns.break_at(line=3)\nprint(s.run().text)"
        assert "= cos" in live.run(stops, "stepped").printed


def test_a_saved_run_gets_its_report_at_once(live):
    answer = live.run("%%xjit\ny = f(x, w)\n", None, wait=False)
    assert "equations" in plain(answer) and LIVE not in answer.displays[0]["data"]


def test_a_report_that_fails_says_so_in_its_place(live):
    live.run(
        "import xlab.observe as o\nkept = o.report\ndef broken(*a, **k): raise LookupError('no report today')\no.report = broken"
    )
    try:
        answer = live.run("%%xjit\ny = f(x, w) + 5\n7", "c")
    finally:
        live.run("o.report = kept")
    assert (
        "LookupError: no report today" in plain(answer)
        and answer.results[0]["data"]["text/plain"] == "7"
    )


def test_an_error_shows_what_was_recorded(live):
    answer = live.run("%%xjit\nz = xlab.jit(lambda a: a + 1)(x)\n1 / 0", "d", fails=True)
    assert "ZeroDivisionError" in answer.error and "ZeroDivisionError" in plain(answer)


def test_of_two_cells_with_one_text_the_one_that_failed_is_shown(live):
    """By its own prompt, at its own line: as a plain cell, under the magic, and in a function of which the latest definition counts."""

    def places(code, cell):
        error = re.sub(r"\x1b\[[\d;]*m", "", live.run(code, cell, fails=True).error)
        latest = int(live.value("len(In) - 2"))
        found = re.findall(r"Cell In\[(\d+)\], line (\d+)", error)
        return [(int(number) - latest, int(line)) for number, line in found]

    plain = "h = x + 1\nfor _ in range(2):\n    h = h @ jnp.ones((4, 4))\nh = h @ q"
    under = "%%xjit\nh = x * 2\nz = h @ q"
    define = "def apply(x):\n    h = x * 2\n    return h @ q"
    live.run("q = jnp.ones((4, 2))", "q")
    for code, cell in ((plain, "p1"), (under, "u1"), (define, "d1"), (define, "d2")):
        live.run(code, cell)
    live.run("xlab.jit(apply)(x)", "call")
    live.run("q = jnp.ones((7, 2))", "q")
    assert places(plain, "p2") == places(plain, "p1") == [(0, 4)]
    assert places(under, "u2") == places(under, "u1") == [(0, 3)]
    live.run(define, "d1")
    assert places("xlab.jit(apply)(x)", "call") == [(0, 1), (-1, 3)]


def test_a_page_asks_and_is_answered(live):
    answer = live.run("%xstep f(x, w)", "e")
    model = model_of(answer)
    (step,) = live.ask(
        model, {"id": 3, "ask": "move", "arguments": {"how": "next", "index": 0, "equation": -1}}
    )
    assert step["id"] == 3 and step["answer"]["index"] == 1
    (refused,) = live.ask(model, {"id": 4, "ask": "eval", "arguments": {}})
    assert "this view answers" in refused["error"]
    (files,) = live.ask(model, {"ask": "module"})
    assert "export default" in files["module"]


def test_200_reruns_leave_nothing(live):
    cells = {
        "report": "%%xjit\ny = f(x, w) + 3\n",
        "steps": "%xstep f(x, w)",
        "layout": "%xshard x",
        "fails": "%%xjit\ny = f(x, w)\n1 / 0",
    }

    def rerun(times):
        for _ in range(times):
            for name, code in cells.items():
                live.run(code, name, fails=name == "fails")

    rerun(3)
    before = live.value("counts()")
    rerun(50)
    assert live.value("counts()") == before


def test_other_cells_outputs_that_are_closed_or_copied_leave_nothing(live):
    live.run("%xstep f(x, w)", "last")
    before = live.value("counts()")
    for turn in range(20):
        answer = live.run("%xstep f(x, w)", f"copy {turn}")
        model = model_of(answer)
        live.ask(model, {"ask": "module"})
        message = live.client.session.msg("comm_close", {"comm_id": model, "data": {}})
        live.client.shell_channel.send(message)
        live.listen(message["header"]["msg_id"])
    live.run("%xstep f(x, w)", "last")
    found, begun = eval(live.value("counts()")), eval(before)
    assert {k: v for k, v in found.items() if k != "files"} == {
        k: v for k, v in begun.items() if k != "files"
    }


def test_outputs_that_a_page_says_are_gone_leave_nothing(live):
    """A deleted cell: its page says so, nobody takes the output back or shows another copy of it, and the kernel lets go."""
    live.run("from xlab.notebook.views import widget\nwidget.TICK = 0.002")
    live.run("%xstep f(x, w)", "last")
    before = eval(live.value("counts()"))
    models = [model_of(live.run("%xstep f(x, w)", f"deleted {turn}")) for turn in range(5)]
    for model in models:
        live.ask(model, {"ask": "here"})
        live.ask(model, {"ask": "gone"})
    live.ask(models[0], {"ask": "here"})
    time.sleep(0.5)
    found = eval(live.value("counts()"))
    assert found["kept"] == before["kept"] + 1 and found["steppers"] == before["steppers"] + 1, (
        "the first was taken back"
    )
    live.ask(models[0], {"ask": "gone"})
    time.sleep(0.5)
    found = eval(live.value("counts()"))
    assert {k: v for k, v in found.items() if k != "files"} == {
        k: v for k, v in before.items() if k != "files"
    }


def test_an_interrupted_compile(live):
    """A long compile, interrupted as the stop button does it: one sentence, names as they were, and the kernel goes on."""
    code = "%%xjit\ny = x\nfor i in range(3000):\n    y = jnp.sin(y) * 1.01 + i\n"
    message = live.client.session.msg(
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
    message["metadata"] = {"cellId": "g"}
    live.run("before = y = 5", "h")
    live.client.shell_channel.send(message)
    live.client.get_iopub_msg(timeout=60)
    time.sleep(0.5)
    live.manager.interrupt_kernel()
    answer = live.listen(message["header"]["msg_id"])
    live.client.get_shell_msg(timeout=60)
    assert re.search("KeyboardInterrupt: interrupted while (compiling|lowering)", answer.error), (
        answer.error
    )
    assert live.value("y") == "5" and live.value("jnp.sin(x).shape") == "(8, 4)"
