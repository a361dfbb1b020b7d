"""`%xhlo f(x)`: a program at its later stages, as text, and what each pass of the compiler made of it."""

from __future__ import annotations

import re

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.magics.base import call_of, jitted, with_user_traceback
from xlab.observe.records import Report
from xlab.observe.records.passes import passes_text

_STAGES = ("stablehlo", "propagated", "partitioned", "optimized")
_OPTION = re.compile(r"\s*--stage[ =](\w+)\s*")
_PASSES = re.compile(r"\s*--passes\b\s*")


@magics_class
class Xhlo(Magics):
    """`%xhlo`."""

    @line_magic
    @with_user_traceback
    def xhlo(self, line: str) -> None:
        """Shows a program beside its later forms, line by line joined to its equations.

        %xhlo f(x)
        %xhlo f(x) --stage stablehlo        (or propagated, partitioned, optimized)
        %xhlo f(x) --passes                 what each pass of the compiler changed; compiles a second time
        """
        found = _OPTION.search(line)
        stages = (found[1],) if found else _STAGES
        if stages[0] not in _STAGES:
            raise ValueError(f"--stage is one of {', '.join(_STAGES)}; given {stages[0]!r}")
        line, wanted = _PASSES.subn(" ", _OPTION.sub(" ", line))
        fun, args, kwargs, text = call_of(self.shell, line, "xhlo")
        compiled = jitted(self.shell, fun)
        program = observe.program(compiled, *args, levels=stages, **kwargs)
        if wanted:
            passes = observe.passes(compiled, *args, all=True, **kwargs)
            formatters.show(Report(f"passes of {text}", (program,), passes=passes, opens="passes"), plain=passes_text(passes))
            return
        formatters.show(program, plain="\n\n".join(observe.text(level) for level in program.levels) or None)
