"""`%xtime f(x)`: cold and warm phases of a call, never mixed."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import NamedTuple

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

import xlab
from xlab import events, observe
from xlab.notebook.magics.base import call_of, jitted, with_user_traceback
from xlab.notebook.recording import recording, show_report
from xlab.observe.program.analysis_only import analysis_only
from xlab.observe.program.stages import fresh

_PARTS = frozenset({"timings", "jaxpr", "hlo"})
_OPTION = re.compile(r"\s*(?:--repeat[ =]+(?P<repeat>\S+)|(?P<cold>--cold\b)|--trace[ =]+(?P<trace>\S+))")


class _Given(NamedTuple):
    repeat: int = 20
    cold: bool = False
    trace: str = ""


def _options(line: str) -> tuple[_Given, str]:
    """Options before the call, and the call; its own text may hold anything.

    >>> _options("--cold --repeat 3 f(x - 1)")
    (_Given(repeat=3, cold=True, trace=''), 'f(x - 1)')
    """
    given = _Given()
    while found := _OPTION.match(line):
        line = line[found.end():]
        if found["cold"]:
            given = given._replace(cold=True)
        elif found["trace"]:
            given = given._replace(trace=found["trace"].strip("'\""))
        elif found["repeat"].isdigit() and int(found["repeat"]):
            given = given._replace(repeat=int(found["repeat"]))
        else:
            raise ValueError(f"--repeat takes a number of runs, at least 1; given {found['repeat']!r}")
    return given, line.strip()


@magics_class
class Xtime(Magics):
    """`%xtime`."""

    @magic_arguments()
    @argument("--repeat", type=int, default=20, help="number of warm runs (20)")
    @argument("--cold", action="store_true", help="measure a fresh copy of the function, from tracing and compiling on")
    @argument("--trace", metavar="trace.json", help="write the phases to a file that Perfetto (ui.perfetto.dev) opens")
    @argument("call", nargs="*", help="a call, such as f(x, y)")
    @line_magic
    @with_user_traceback
    def xtime(self, line: str) -> None:
        """Times a call: tracing, lowering, compiling, the first run, then warm runs with median and spread.

        A function that is compiled already shows warm runs only. With --cold a fresh copy of it is traced and compiled, and measured from
        its first call on; what is compiled of the function itself stays.
        """
        given, text = _options(line)
        fun, args, kwargs, text = call_of(self.shell, text, "xtime")
        compiled = jitted(self.shell, fun)
        with analysis_only() if given.cold else nullcontext(), recording(text, self.shell, flagged=False) as run:    # no collectives in it
            if given.cold:
                compiled = fresh(compiled)
            start = events.clock()
            xlab.block_until_ready(compiled(*args, **kwargs))
            first = (events.clock() - start) / 1e3
            anew = given.cold or any(e.kind == "compile" for e in run.session.events)
            observe.time(compiled, *args, repeat=given.repeat, **kwargs)
        run.session.measured = [t.replace(cold_us=first, note="") if anew and t.cold_us is None else
                                t.replace(note=f"{t.note}; %xtime --cold measures anew" if t.note else "") for t in run.session.measured]
        show_report(run, _PARTS, opens="timings")
        if given.trace:
            observe.chrome_trace(run.session, given.trace)
            print(f"trace in {given.trace}")
