"""A page may ask what its view lists, with arguments of the listed types, and nothing else."""

import asyncio
import time

import pytest

from xlab.notebook.views import view_for
from xlab.notebook.views.base import answer, check_request
from xlab.notebook.views.report import ReportView
from xlab.notebook.views.stepper import StepperView
from xlab.observe import records as r

GOOD = {"id": 1, "ask": "move", "arguments": {"how": "next", "index": 3, "equation": -1}}


def step(how, index, equation):
    """A handler that answers with the next step."""
    return r.Step(index + 1, 0)


def test_a_listed_request_is_answered_with_a_record():
    assert answer(StepperView(), {"move": step}, GOOD) == {
        "id": 1,
        "answer": {"record": "Step", "index": 4, "equation": 0, "schema": 2},
    }


@pytest.mark.parametrize(
    "message",
    [
        None,
        "move",
        7,
        [],
        {},
        {"ask": 3},
        {"ask": "eval", "arguments": {"code": "1"}},
        {"ask": "__class__"},
        {"ask": "move"},
        {"ask": "move", "arguments": []},
        {"ask": "move", "arguments": {"how": "next", "index": "3", "equation": 0}},
        {"ask": "move", "arguments": {"how": "explode", "index": 3, "equation": 0}},
        {"ask": "move", "arguments": {"how": "next", "index": -3, "equation": 0}},
        {"ask": "move", "arguments": {"how": "next", "index": True, "equation": 0}},
        {"ask": "move", "arguments": {"how": "next", "index": 1e9, "equation": 0}},
        {"ask": "move", "arguments": {"how": "next", "index": 3, "equation": 0, "more": 1}},
    ],
)
def test_anything_else_is_refused_before_the_handler(message):
    with pytest.raises(ValueError, match=r"message|answers|takes|needs|must be"):
        check_request(StepperView(), message)
    assert "error" in answer(
        StepperView(), {"move": lambda **_: pytest.fail("reached the handler")}, message
    )


def test_a_view_without_requests_answers_none():
    assert "no requests" in answer(view_for(r.Ledger()), {}, GOOD)["error"]


def test_a_report_draws_its_figures():
    report = r.Report(
        "f", phases=(r.Phase("compile", "f", 0.0, 20.0),), memory=(r.Memory("f", peak=8),)
    )
    for of in "timings", "memory":
        ask = {"id": 2, "ask": "figure", "arguments": {"of": of}}
        found = answer(ReportView(), ReportView().handlers(report), ask)["answer"]
        text = "".join(found["parts"])
        assert found["record"] == "Drawing" and "<svg" in text and text.rstrip().endswith("</svg>")
    assert (
        "nothing was compiled"
        in answer(ReportView(), ReportView().handlers(r.Report("f")), ask)["error"]
    )


def test_a_failing_handler_answers_with_its_error():
    def fails(**_):
        raise RuntimeError("the run was closed")

    assert answer(StepperView(), {"move": fails}, GOOD) == {
        "id": 1,
        "error": "RuntimeError: the run was closed",
    }


def test_a_handler_must_answer_with_the_listed_record():
    assert (
        "must answer with Step"
        in answer(StepperView(), {"move": lambda **_: r.Type("f32")}, GOOD)["error"]
    )


def test_a_record_without_a_view_says_which_have_one():
    with pytest.raises(TypeError, match="views draw Report"):
        view_for(r.Type("f32"))


def test_widget_sends_the_module_once_asked_and_answers_requests():
    widget_module = pytest.importorskip("xlab.notebook.views.widget")
    trace = r.StepTrace(r.Program("f"))
    widget = widget_module.ReportWidget(StepperView(), trace, {"move": step})
    sent = []
    widget.send = lambda content, buffers=None: sent.append(content)
    widget._hear(widget, {"ask": "module"}, [])
    widget._hear(widget, GOOD, [])
    assert set(sent[0]) == {"module", "css"}
    assert sent[1]["answer"]["index"] == 4
    assert len(widget._esm) < 2500, "each widget carries the loader only"
    data, _ = widget._repr_mimebundle_()
    assert data["text/plain"].startswith("f: 0 steps")
    assert data["text/html"].startswith('<div class="xl-saved"')
    assert data["application/vnd.xlab.view+json"] == {"model_id": widget.model_id}
    widget.close()


@pytest.mark.parametrize(
    ("words", "asks", "stays"),
    [
        ("gone", 1, False),
        ("gone here", 0, True),
        ("gone gone", 1, False),
        ("here gone", 1, False),
        ("", 0, True),
        ("gone roll here", 1, True),
    ],
)
def test_a_widget_ends_when_no_page_shows_it(words, asks, stays, monkeypatch):
    """Only after a page said that its output is gone, nobody took it back, and no other page answered."""
    widget_module = pytest.importorskip("xlab.notebook.views.widget")
    monkeypatch.setattr(widget_module, "TICK", 0.001)
    ended, sent = [], []
    widget = widget_module.ReportWidget(
        StepperView(), r.StepTrace(r.Program("f")), {"move": step}, lambda: ended.append(1)
    )
    widget.send = lambda content, buffers=None: sent.append(content)

    async def live():
        for word in words.split():
            while word == "roll" and not sent:
                await asyncio.sleep(0.001)
            if word != "roll":
                widget._hear(widget, {"ask": word}, [])
        await asyncio.sleep(0.3)

    asyncio.run(live())
    assert widget.is_open == stays and bool(ended) != stays
    assert sent == [{"roll": True}] * asks
    widget.close()
    assert ended


def test_a_cell_that_is_busy_takes_no_widget_away(monkeypatch):
    """What a page said while the kernel was busy counts, however long that was: looks are counted, not seconds."""
    widget_module = pytest.importorskip("xlab.notebook.views.widget")
    monkeypatch.setattr(widget_module, "TICK", 0.001)
    widget = widget_module.ReportWidget(StepperView(), r.StepTrace(r.Program("f")), {})

    async def live():
        widget._hear(widget, {"ask": "gone"}, [])
        for _ in range(5):
            await asyncio.sleep(0.001)
            time.sleep(0.1)
        widget._hear(widget, {"ask": "here"}, [])
        await asyncio.sleep(0.2)

    asyncio.run(live())
    assert widget.is_open
    widget.close()


def test_which_inputs_are_read_is_asked_once(monkeypatch):
    """And not of every input: a train step of 100,000 equations has thousands of them."""
    asked = []
    unused = r.Program.unused.fget
    monkeypatch.setattr(r.Program, "unused", property(lambda p: asked.append(1) or unused(p)))
    made = r.Type("f32", (2,))
    inputs = tuple(r.Variable(f"v{i}", made) for i in range(50))
    program = r.Program("many", inputs, ("v0",))
    said = view_for(program).payload(program)
    assert "(not used)" in str(said)
    assert len(asked) < 5
