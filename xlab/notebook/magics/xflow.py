"""`%xflow f(x)`: the collectives of a program: who sends how much to whom, and why."""

from __future__ import annotations

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import displays
from xlab.notebook.magics.base import call_of, told
from xlab.observe.records import Report


@magics_class
class Xflow(Magics):
    """`%xflow`."""

    @line_magic
    @told
    def xflow(self, line: str) -> None:
        """Compiles a call without running it and shows its collectives, yours and the partitioner's.

        %xflow step(params, batch)
        """
        fun, args, kwargs, text = call_of(self.shell, line, "xflow")
        transfers = observe.transfers(fun, *args, **kwargs)
        if not transfers:
            print(f"{text}: no collectives; every device works alone")
            return
        program = observe.program(fun, *args, levels=True, **kwargs)
        displays.show(Report(text, (program,), transfers=tuple(transfers), mesh=transfers[0].mesh, opens="collectives"))
