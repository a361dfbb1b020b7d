"""`%xflow f(x)`: the collectives of a program: who sends how much to whom, and why."""

from __future__ import annotations

import re

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.experiments import handlers
from xlab.notebook.magics.base import call_of, jitted, with_user_traceback
from xlab.observe.program.analysis_only import suppress_warnings
from xlab.observe.program.stages import program_stages
from xlab.observe.records import Report
from xlab.observe.sharding.program_layouts import argument_layouts

_TARGET = re.compile(r"\s*--target[ =](\S+)")


@magics_class
class Xflow(Magics):
    """`%xflow`."""

    @line_magic
    @with_user_traceback
    def xflow(self, line: str) -> None:
        """Compiles a call without running it and shows its collectives, yours and the partitioner's.

        %xflow step(params, batch)
        %xflow step(params, batch) --target tpu:v5e:2x4     (compiled for a TPU that need not be there)
        """
        targets = _TARGET.findall(line)
        line = _TARGET.sub("", line)
        fun, args, kwargs, text = call_of(self.shell, line, "xflow")
        if targets:
            formatters.show(observe.target(targets[-1], fun, *args, **kwargs).replace(title=f"{text} on {targets[-1]}"))
            return
        fun = jitted(self.shell, fun)
        with suppress_warnings():           # what the compiler warns of stands in the reasons
            transfers = observe.transfers(fun, *args, **kwargs)
        if not transfers:
            print(f"{text}: no collectives; every device works alone")
            return
        program = observe.program(fun, *args, levels=True, **kwargs)
        stages = program_stages(fun, args, kwargs)
        formatters.show(Report(text, (program,), argument_layouts(stages), tuple(transfers), mesh=transfers[0].mesh, opens="collectives", counted=True),
                      handlers=handlers([stages]))
