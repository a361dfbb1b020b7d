"""Lines of the log in a recording: which there are, and which phase each is about (D39)."""

from __future__ import annotations

import logging
import threading

import numpy as np

import xlab
from xlab import observe
from xlab.observe.records import LogLine, Record, Report

X = np.ones(3, np.float32)
LOGGER = logging.getLogger("xlab")


def kinds(report):
    """The kind and function of the phase of each line, beside its first words."""
    return [
        (p.kind, p.function, " ".join(line.text.split()[:2]))
        for line in report.log
        for p in [report.phases[line.phase]]
    ]


def test_d39_every_stage_of_a_first_call_has_a_line_that_names_its_phase(caplog):
    inner = xlab.jit(lambda x: x * 3, name="inner")
    f = xlab.jit(lambda x: inner(x) + 1, name="outer")
    with xlab.log_compiles(True), observe.record() as session:
        f(X)
        f(X)
    made = observe.report(session)
    assert [k for k in kinds(made) if k[1] == "outer"] == [
        ("trace", "outer", "Finished tracing"),
        ("lower", "outer", "Compiling jit(outer)"),
        ("lower", "outer", "Finished jaxpr"),
        ("compile", "outer", "Finished XLA"),
    ]
    assert all(line.level == "WARNING" for line in made.log) and len(made.log) == len(
        caplog.records
    )
    for line in made.log:
        phase = made.phases[line.phase]
        assert phase.start_us + phase.duration_us >= line.at_us >= 0
    assert Record.from_json(made.to_json()) == made
    assert "Log\n  Finished tracing outer for jit in … sec" in repr(made)
    assert "Log" in observe.text(made, limit=1) and "more line" in observe.text(made, limit=1)


def test_d39_without_a_logger_that_is_enabled_there_are_no_lines():
    with observe.record() as session:
        xlab.jit(lambda x: x * 5)(X)
    assert not session.lines and not observe.report(session).log
    assert "Log" not in repr(observe.report(session)) and "Log" not in repr(Report("f"))
    level = LOGGER.level
    LOGGER.setLevel(logging.DEBUG)
    try:
        with observe.record() as session:
            xlab.jit(lambda x: x * 7)(X)
    finally:
        LOGGER.setLevel(level)
    assert {line.level for line in observe.report(session).log} == {"DEBUG"}
    with xlab.log_compiles(True):
        xlab.jit(lambda x: x * 9)(X)  # after the recording
    assert len(session.lines) == 4 and not [f for f in LOGGER.filters if "_hear" in str(f)]


def test_d39_lines_are_those_of_their_thread_and_others_lines_have_no_phase():
    def elsewhere():
        LOGGER.warning("between two phases %d", 1)
        xlab.jit(lambda x: x * 11, name="there")(X)
        LOGGER.warning("after the last")

    with xlab.log_compiles(True), observe.record() as session:
        xlab.jit(lambda x: x * 13, name="here")(X)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        xlab.jit(lambda x: x * 15, name="here again")(X)
    made = observe.report(session)
    by_text = {line.text: line for line in made.log}
    first = by_text["between two phases 1"]
    assert (made.phases[first.phase].function, made.phases[first.phase].kind) == ("there", "trace")
    assert by_text["after the last"].phase == -1
    for line in made.log:
        for name in ("here again", "there", "here"):
            if name in line.text and line.phase >= 0:
                assert made.phases[line.phase].function == name
                break


def test_recording_leaves_the_log_as_it_was(capfd):
    """Lines of a logger that nobody set up go to stderr, in recordings too."""
    handlers, propagate = LOGGER.handlers, LOGGER.propagate
    LOGGER.handlers, LOGGER.propagate = [], False
    try:
        with observe.record():
            LOGGER.warning("seen by the person")
    finally:
        LOGGER.handlers, LOGGER.propagate = handlers, propagate
    assert capfd.readouterr().err.strip() == "seen by the person"
    assert LogLine("x").phase == -1
