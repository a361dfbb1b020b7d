"""`%xflow f(x)`: the collectives of a program: who sends how much to whom, and why."""

from __future__ import annotations

import re

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import displays
from xlab.notebook.experiments import handlers
from xlab.notebook.magics.base import call_of, jitted, told
from xlab.observe.looking import quiet
from xlab.observe.program_layouts import argument_layouts
from xlab.observe.records import Report
from xlab.observe.subject import subject

_TARGET = re.compile(r"\s*--target[ =](\S+)")


@magics_class
class Xflow(Magics):
    """`%xflow`."""

    @line_magic
    @told
    def xflow(self, line: str) -> None:
        """Compiles a call without running it and shows its collectives, yours and the partitioner's.

        %xflow step(params, batch)
        %xflow step(params, batch) --target tpu:v5e:2x4     (compiled for a TPU that need not be there)
        """
        targets = _TARGET.findall(line)
        line = _TARGET.sub("", line)
        fun, args, kwargs, text = call_of(self.shell, line, "xflow")
        if targets:
            displays.show(observe.target(targets[-1], fun, *args, **kwargs).replace(title=f"{text} on {targets[-1]}"))
            return
        fun = jitted(self.shell, fun)
        with quiet():           # what the compiler warns of stands in the reasons
            transfers = observe.transfers(fun, *args, **kwargs)
        if not transfers:
            print(f"{text}: no collectives; every device works alone")
            return
        program = observe.program(fun, *args, levels=True, **kwargs)
        about = subject(fun, args, kwargs)
        displays.show(Report(text, (program,), argument_layouts(about), tuple(transfers), mesh=transfers[0].mesh, opens="collectives", counted=True),
                      handlers=handlers([about]))
