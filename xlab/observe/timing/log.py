"""The log of a recording: its lines, each with the phase that it was written in."""

from __future__ import annotations

from collections.abc import Sequence

from xlab.observe.programs.recorder import Session
from xlab.observe.records import Phase
from xlab.observe.records.log import LogLine
from xlab.observe.timing.phases import in_order


def log_lines(session: Session, phases: Sequence[Phase]) -> tuple[LogLine, ...]:
    """What the runtime logged during a recording, in order; `phases` are those of the recording.

    A line belongs to the innermost phase of its thread that it was written in; one that was written between two belongs to the later,
    which it announces. There are lines where the logger is enabled for them, as under `log_compiles`.

    Example:
        >>> import xlab
        >>> from xlab.observe.programs.recorder import record
        >>> from xlab.observe.timing.phases import phases
        >>> with xlab.log_compiles(True), record() as session:
        ...     y = xlab.jit(lambda x: x + 1, name="f")(1.0)
        >>> log_lines(session, phases(session))[0].text[:23]
        'Finished tracing f for '
    """
    events = in_order(session) if phases else []
    return tuple(
        LogLine(
            text,
            level,
            (at - session.start_ns) / 1e3,
            next(
                (
                    i
                    for i in reversed(range(len(events)))
                    if events[i].thread == thread
                    and events[i].start_ns <= at <= events[i].end_ns
                    and events[i].end_ns > events[i].start_ns
                ),
                next(
                    (i for i, e in enumerate(events) if e.thread == thread and e.start_ns >= at),
                    -1,
                ),
            ),
        )
        for at, thread, level, text in session.lines
    )
