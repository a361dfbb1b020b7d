"""`%xmem`: arrays that are alive now; `%xmem f(x)`: what a program needs."""

from __future__ import annotations

import re

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.magics.base import call_of, jitted, with_user_traceback
from xlab.observe.records import Report

_LINES = re.compile(r"--lines(?:[ =]+(on|off))?")


@magics_class
class Xmem(Magics):
    """`%xmem`."""

    @line_magic
    @with_user_traceback
    def xmem(self, line: str) -> None:
        """Lists the arrays that are alive, largest first, with the cell that made them; with a call, the memory of its program.

        %xmem
        %xmem --lines           (record the line of every array from now on: calls take a few microseconds longer)
        %xmem --lines off
        %xmem step(params, x)
        """
        text = line.strip()
        lines = _LINES.fullmatch(text)
        if lines is not None:
            on = observe.track_arrays(lines[1] != "off")
            if lines[1] != "off" and not on:
                print("lines cannot be recorded in this process: another package has the hook that calls are seen through")
            else:
                print("the line of every array made from now on is recorded; %xmem shows it" if on else "lines are not recorded any more")
            return
        if text.startswith("--"):
            raise ValueError(f"%xmem knows the option --lines, and --lines off; given {text!r}")
        if not text:
            formatters.show(observe.live(self.shell.user_ns))
            return
        fun, args, kwargs, text = call_of(self.shell, text, "xmem")
        with observe.record() as session:
            observe.memory(jitted(self.shell, fun), *args, **kwargs)
        made = observe.report(session)
        formatters.show(Report(text, made.programs, memory=made.memory, mesh=made.mesh, versions=made.versions, opens="memory"))
