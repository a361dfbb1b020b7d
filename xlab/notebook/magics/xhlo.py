"""`%xhlo f(x)`: a program at its later stages, as text, and what each pass of the compiler made of it."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.magics.arguments import Option, takes
from xlab.notebook.magics.base import STATIC, call_of, jitted
from xlab.observe.programs.program import LEVELS
from xlab.observe.records import Notice, Report
from xlab.observe.records.passes import passes_text


@magics_class
class Xhlo(Magics):
    """`%xhlo`."""

    @line_magic
    @takes(
        "f(x, y)",
        Option("stage", "only this form of it", "stablehlo", choices=LEVELS, noun="stage"),
        Option("passes", "what each pass of the compiler changed; compiles a second time"),
        STATIC,
    )
    def xhlo(self, given: SimpleNamespace) -> None:
        """Shows a program beside its later forms, line by line joined to its equations."""
        fun, args, kwargs, text = call_of(self.shell, given.rest, "xhlo")
        compiled = jitted(self.shell, fun, given.static, args, kwargs)
        program = observe.program(
            compiled, *args, levels=(given.stage,) if given.stage else LEVELS, **kwargs
        )
        if given.passes:
            passes = observe.passes(compiled, *args, all=True, **kwargs)
            by = passes.made_by
            formatters.show(
                Report(
                    f"passes of {text}",
                    (program,),
                    passes=passes,
                    notices=(Notice("info", by, "passes"),) if by else (),
                    opens="passes",
                ),
                plain="\n\n".join(filter(None, (by, passes_text(passes)))),
            )
            return
        formatters.show(
            program,
            plain="\n\n".join(filter(None, (program.made_by, *map(observe.text, program.levels))))
            if program.levels
            else None,
        )
