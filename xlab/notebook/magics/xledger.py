"""`%xledger`: every compile of this kernel, and why."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.magics.arguments import takes


@magics_class
class Xledger(Magics):
    """`%xledger`."""

    @line_magic
    @takes()
    def xledger(self, given: SimpleNamespace) -> None:
        """Lists the compiles of this kernel: which function, for the how manieth time, what changed, what would help."""
        formatters.show(observe.ledger())
