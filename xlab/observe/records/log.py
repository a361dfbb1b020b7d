"""Lines of the log, with the phases that they are about."""

from __future__ import annotations

import re

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import Options, add_form


@record_type
class LogLine(Record):
    """A line that the runtime logged in a recording. `phase` is an index in the report's phases, or -1; `at_us` counts from the start."""

    text: str
    level: str = "DEBUG"
    at_us: float = 0.0
    phase: int = -1


_SECONDS = re.compile(r"\d+\.\d+ sec\b")


def log_line(line: LogLine, o: Options) -> str:
    """The line; without times its seconds are left open.

    >>> log_line(LogLine("Finished tracing f for jit in 0.25 sec"), Options(False, None))
    'Finished tracing f for jit in … sec'
    """
    return line.text if o.times else _SECONDS.sub("… sec", line.text)


add_form(LogLine, log_line)
