"""`%xmem`: arrays that are alive now; `%xmem f(x)`: what a program needs."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.magics.arguments import Option, takes
from xlab.notebook.magics.base import STATIC, call_of, jitted
from xlab.observe.records import Report


@magics_class
class Xmem(Magics):
    """`%xmem`."""

    @line_magic
    @takes(
        "step(params, x)",
        Option(
            "lines",
            "record the line of every array from now on: calls take a few microseconds longer",
            "on",
            choices=("on", "off"),
            alone="on",
        ),
        STATIC,
    )
    def xmem(self, given: SimpleNamespace) -> None:
        """Lists the arrays that are alive, largest first, with the cell that made them; with a call, the memory of its program."""
        if given.lines is not None:
            if given.rest:
                raise ValueError(
                    f"%xmem --lines takes on or off and stands alone; given {given.rest!r}"
                )
            on = observe.track_arrays(given.lines == "on")
            if given.lines == "on" and not on:
                print(
                    "lines cannot be recorded in this process: another package has the hook that calls are seen through"
                )
            else:
                print(
                    "the line of every array made from now on is recorded; %xmem shows it"
                    if on
                    else "lines are not recorded any more"
                )
            return
        if not given.rest:
            formatters.show(observe.live(self.shell.user_ns))
            return
        fun, args, kwargs, text = call_of(self.shell, given.rest, "xmem")
        with observe.record() as session:
            observe.memory(jitted(self.shell, fun, given.static, args, kwargs), *args, **kwargs)
        made = observe.report(session)
        by = {p.made_by for p in made.programs}
        formatters.show(
            Report(
                text,
                made.programs,
                memory=made.memory,
                mesh=made.mesh,
                notices=tuple(n for n in made.notices if n.text in by),
                versions=made.versions,
                opens="memory",
            )
        )
