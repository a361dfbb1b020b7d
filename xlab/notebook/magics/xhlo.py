"""`%xhlo f(x)`: a program at its later stages, as text."""

from __future__ import annotations

import re

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import displays
from xlab.notebook.magics.base import call_of, jitted, told

_STAGES = ("stablehlo", "propagated", "partitioned", "optimized")
_OPTION = re.compile(r"\s*--stage[ =](\w+)\s*")


@magics_class
class Xhlo(Magics):
    """`%xhlo`."""

    @line_magic
    @told
    def xhlo(self, line: str) -> None:
        """Shows a program beside its later forms, line by line joined to its equations.

        %xhlo f(x)
        %xhlo f(x) --stage stablehlo        (or propagated, partitioned, optimized)
        """
        found = _OPTION.search(line)
        stages = (found[1],) if found else _STAGES
        if stages[0] not in _STAGES:
            raise ValueError(f"--stage is one of {', '.join(_STAGES)}; given {stages[0]!r}")
        fun, args, kwargs, _ = call_of(self.shell, _OPTION.sub(" ", line), "xhlo")
        program = observe.program(jitted(self.shell, fun), *args, levels=stages, **kwargs)
        displays.show(program, plain="\n\n".join(observe.text(level) for level in program.levels) or None)
