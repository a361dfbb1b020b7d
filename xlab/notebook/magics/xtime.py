"""`%xtime f(x)`: cold and warm phases of a call, never mixed."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

import xlab
from xlab import events, observe
from xlab.notebook.magics.arguments import Option, number_of_runs, takes
from xlab.notebook.magics.base import STATIC, call_of, jitted
from xlab.notebook.recording import recording, show_report
from xlab.observe.programs.analysis_only import analysis_only
from xlab.observe.programs.stage_function import StageFunction
from xlab.observe.programs.view_jits import fresh
from xlab.observe.timing.runnable import Spared

_PARTS = frozenset({"timings", "jaxpr", "hlo"})


@magics_class
class Xtime(Magics):
    """`%xtime`."""

    @line_magic
    @takes(
        "f(x, y)",
        Option("repeat", "number of warm runs (20)", "20", number_of_runs(1), default=20),
        Option("profile", "also measure what each device does in a step, operation by operation"),
        Option("cold", "measure a fresh copy of the function, from tracing and compiling on"),
        Option(
            "trace",
            "write the phases, and with --profile what the devices did, to a file that Perfetto (ui.perfetto.dev) opens",
            "trace.json",
        ),
        STATIC,
    )
    def xtime(self, given: SimpleNamespace) -> None:
        """Times a call: tracing, lowering, compiling, the first run, then warm runs with median and spread.

        A function that is compiled already shows warm runs only. With --cold a fresh copy of it is traced and compiled, and measured from
        its first call on; what is compiled of the function itself stays.
        """
        fun, args, kwargs, text = call_of(self.shell, given.rest, "xtime")
        compiled = jitted(self.shell, fun, given.static, args, kwargs)
        with (
            analysis_only() if given.cold else nullcontext(),
            recording(text, self.shell, flagged=False) as run,
        ):  # no collectives in it
            if given.cold:
                compiled = fresh(compiled)
            once, named = Spared(compiled, args, kwargs)()
            start = events.clock()
            xlab.block_until_ready(compiled(*once, **named))
            first = (events.clock() - start) / 1e3
            anew = given.cold or any(e.kind == "compile" for e in run.session.events)
            observe.time(compiled, *args, repeat=given.repeat, **kwargs)
            if given.profile:
                run.session.profile = observe.profile(compiled, *args, **kwargs)
        run.session.measured = [
            t.replace(cold_us=first, note="")
            if anew and t.cold_us is None
            else t.replace(note=f"{t.note}; %xtime --cold measures anew")
            if t.note and not isinstance(compiled, StageFunction)
            else t
            for t in run.session.measured
        ]
        show_report(run, _PARTS, opens="timeline" if given.profile else "timings")
        if given.trace:
            observe.chrome_trace(run.report(_PARTS) if given.profile else run.session, given.trace)
            print(f"trace in {given.trace}")
