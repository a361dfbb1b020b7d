"""`%xstep f(x)`: runs a program equation by equation and shows every value on the way."""

from __future__ import annotations

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import displays
from xlab.notebook.magics.base import call_of, told


@magics_class
class Xstep(Magics):
    """`%xstep`."""

    @line_magic
    @told
    def xstep(self, line: str) -> None:
        """Runs a call equation by equation on the real devices; the output can be scrubbed forwards and backwards.

        %xstep loss(params, x)
        """
        fun, args, kwargs, _ = call_of(self.shell, line, "xstep")
        displays.show(observe.trace(fun, *args, **kwargs))
