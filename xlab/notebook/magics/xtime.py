"""`%xtime f(x)`: cold and warm phases of a call, never mixed."""

from __future__ import annotations

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

import xlab
from xlab import observe
from xlab.notebook.magics.base import call_of, told
from xlab.notebook.running import recording, show_report

_PARTS = frozenset({"timings", "jaxpr", "hlo"})


@magics_class
class Xtime(Magics):
    """`%xtime`."""

    @magic_arguments()
    @argument("--repeat", type=int, default=20, help="number of warm runs (20)")
    @argument("call", nargs="*", help="a call, such as f(x, y)")
    @line_magic
    @told
    def xtime(self, line: str) -> None:
        """Times a call: tracing, lowering, compiling, the first run, then warm runs with median and spread."""
        repeat, text = 20, line.strip()
        if text.startswith("--repeat"):
            number, _, text = text.removeprefix("--repeat").lstrip(" =").partition(" ")
            repeat = int(number)
        fun, args, kwargs, text = call_of(self.shell, text, "xtime")
        jitted = fun if hasattr(fun, "lower") else xlab.jit(fun)
        with recording(text, self.shell) as run:
            xlab.block_until_ready(jitted(*args, **kwargs))
            observe.time(jitted, *args, repeat=repeat, **kwargs)
        show_report(run, _PARTS, opens="timings")
