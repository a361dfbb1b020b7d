"""`%xledger`: every compile of this kernel, and why."""

from __future__ import annotations

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.magics.base import with_user_traceback


@magics_class
class Xledger(Magics):
    """`%xledger`."""

    @line_magic
    @with_user_traceback
    def xledger(self, line: str) -> None:
        """Lists the compiles of this kernel: which function, for the how manieth time, what changed, what would help."""
        formatters.show(observe.ledger())
